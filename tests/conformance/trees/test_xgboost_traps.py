"""Named traps: models and rows of XGBoost that a converter gets silently wrong, each against
XGBoost itself.
"""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder
from sources import quietly
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import InputError, UnsupportedError
from hbconv.parse import parse
from hbconv.parse.xgboost.estimators import parse_xgboost_bytes

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
VALUE = X[:, 0] + (X[:, 1] > 0) + 0.2 * RNG.standard_normal(300)
SMALL = {"n_estimators": 6, "max_depth": 4, "n_jobs": 1}
COLOURS = ["red", "blue", "green", "", "light blue"]


def convert(model):
    return hbconv.convert(model, backend="reference")


def same(got, want, ulp=0):
    """Assert equal answers, or floats within units in the last place; small ones, of one half."""
    assert_units("predict", got, want, ulp, least=0.5)


def test_nan_follows_the_default_direction():
    holes = np.where(RNG.random(X.shape) < 0.4, np.nan, X)
    for cls, y in ((xgb.XGBRegressor, VALUE), (xgb.XGBClassifier, np.digitize(VALUE, [0, 1]))):
        model = cls(**SMALL).fit(holes, y)
        same(convert(model).apply(holes), model.apply(holes))
        same(convert(model).raw_scores(holes), model.predict(holes, output_margin=True))


FEW = VALUE - np.quantile(VALUE, 0.95) > 0


@pytest.mark.parametrize(
    "labels",
    [FEW, np.digitize(VALUE, np.quantile(VALUE, [0.1, 0.9]))],
    ids=["few positives", "three"],
)
@pytest.mark.parametrize("base_score", [None, 0.03])
def test_base_scores_other_than_one_half(labels, base_score):
    """Estimated from the data by default, and a vector with several classes."""
    model = xgb.XGBClassifier(**SMALL, base_score=base_score).fit(X, labels)
    same(convert(model).predict_proba(X), model.predict_proba(X), ulp=FUNCTION)
    same(convert(model).raw_scores(X), model.predict(X, output_margin=True))


def test_early_stopping_counts_for_the_wrapper():
    model = xgb.XGBRegressor(**SMALL | {"n_estimators": 50}, early_stopping_rounds=2).fit(
        X, VALUE, eval_set=[(X, VALUE[::-1])], verbose=False
    )
    assert model.best_iteration < model.get_booster().num_boosted_rounds() - 1
    same(convert(model).predict(X), model.predict(X))
    same(convert(model.get_booster()).predict(X), model.get_booster().predict(xgb.DMatrix(X)))
    same(convert(model).predict(X[:0]), model.predict(X)[:0])


@pytest.mark.parametrize("objective", ["count:poisson", "reg:gamma", "reg:tweedie", "reg:logistic"])
def test_links(objective):
    model = xgb.XGBRegressor(**SMALL, objective=objective).fit(X, 1 / (1 + np.exp(-VALUE)))
    same(convert(model).predict(X), model.predict(X), ulp=FUNCTION)


@pytest.mark.parametrize(
    "names",
    [["a", "b", "c", "d"], ["leaf", "yes", "no", "missing"], ["f1", "f10", "f2", "f0"]],
    ids=lambda names: names[0],
)
def test_feature_names_that_look_like_something_else(names):
    frame = pd.DataFrame(X, columns=names)
    model = xgb.XGBClassifier(**SMALL).fit(frame, VALUE > 0)
    same(convert(model).predict_proba(frame), model.predict_proba(frame), ulp=FUNCTION)
    with pytest.raises(InputError, match="another order"):
        convert(model).predict_proba(frame[names[::-1]])


def test_columns_in_another_order_and_others_beside_them_are_refused():
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in (
        xgb.XGBRegressor(**SMALL).fit(frame, VALUE),
        xgb.train({"max_depth": 3}, xgb.DMatrix(frame, VALUE), 4),
    ):
        for rows, message in (
            (frame[list("dbca")], "another order"),
            (frame.assign(other=1.0), "not fitted on the columns 'other'"),
        ):
            with pytest.raises(InputError, match=message):
                convert(model).predict(rows)


def test_labels_of_several_outputs():
    labels = np.stack([VALUE > 0, X[:, 2] > 0, X[:, 3] > 1], axis=1)
    model = xgb.XGBClassifier(**SMALL).fit(X, labels)
    same(convert(model).predict(X), model.predict(X))
    same(convert(model).predict_proba(X), model.predict_proba(X), ulp=FUNCTION)


def test_trees_of_a_single_leaf_and_no_trees():
    for parameters in ({"gamma": 1e9}, {"n_estimators": 0}):
        model = xgb.XGBRegressor(**SMALL | parameters).fit(X, VALUE)
        same(convert(model).predict(X), model.predict(X))


def test_thresholds_are_those_of_the_file_not_of_a_text_dump():
    """Whole-numbered features have their thresholds rounded in text."""
    whole = RNG.integers(-5, 5, (300, 3))
    model = xgb.XGBRegressor(**SMALL).fit(whole, whole[:, 0] * whole[:, 1])
    halves = np.arange(-6, 6, 0.25)
    rows = np.stack(np.meshgrid(halves, halves, [0.0]), axis=-1).reshape(-1, 3)
    same(convert(model).apply(rows), model.apply(rows))


def coloured(rng, categories=None, n=300):
    """A table with a column of categories."""
    return pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "colour": pd.Categorical(rng.choice(COLOURS, n), categories=categories),
        }
    )


@pytest.mark.parametrize("limit", [1, 100], ids=["sets", "one against the rest"])
def test_categories_in_another_order(limit):
    """The codes of a table are its own: the values count."""
    frame = coloured(RNG)
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True, max_cat_to_onehot=limit).fit(
        frame, frame["x"] + frame["colour"].cat.codes
    )
    moved = coloured(np.random.default_rng(1), COLOURS[::-1])
    same(convert(model).apply(moved), model.apply(moved))
    for made in (
        convert(model),
        convert(parse_xgboost_bytes(bytes(model.get_booster().save_raw("json")))),
    ):
        same(made.predict(moved), model.predict(moved))
    same(convert(model).predict(moved.astype({"colour": object})), model.predict(moved))


def test_a_category_never_seen_is_refused():
    """XGBoost refuses it where it stands behind all others, and else takes it for the next one."""
    frame = coloured(RNG)
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True).fit(frame, frame["colour"].cat.codes)
    row = frame[:1].assign(colour=pd.Categorical(["yellow"]))
    with pytest.raises(xgb.core.XGBoostError, match="not in the training set"):
        model.predict(row)
    for unseen in ("yellow", "blu"):
        with pytest.raises(
            InputError, match=r"Column 1 holds a category that XGBRegressor .* was not fitted on"
        ):
            convert(model).predict(frame[:1].assign(colour=[unseen]))


def test_the_numbers_of_an_array_are_codes_where_the_model_knows_values():
    """The wrapper takes any number, a booster none that is infinite as float32; the check of
    unseen values is for tables.
    """
    frame = coloured(RNG)
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True, max_cat_to_onehot=1).fit(
        frame, frame["colour"].cat.codes
    )
    odd = [
        -1e9,
        -1,
        -0.5,
        -0.0,
        0,
        0.5,
        1,
        1.999,
        2,
        3,
        4,
        31,
        32,
        2**24 - 1,
        2**24,
        1e9,
        3e38,
        np.nan,
    ]
    rows = np.stack([np.tile(frame["x"].to_numpy()[:5], len(odd)), np.repeat(odd, 5)], axis=1)
    for x in (
        rows,
        rows.astype(np.float32),
        rows[:20].tolist(),
        rows[-5:],
        np.vstack([rows, [[0, 1e300], [0, np.inf], [0, -np.inf]]]),
    ):
        same(quietly(convert(model), "predict", x), model.predict(x))
    named = xgb.DMatrix(rows, feature_names=["x", "colour"], feature_types=["float", "c"])
    same(quietly(convert(model.get_booster()), "predict", rows), model.get_booster().predict(named))
    with pytest.raises(InputError, match="infinity"):
        quietly(convert(model.get_booster()), "predict", np.array([[0.0, np.inf]]))


def test_categories_of_text_beyond_ascii_are_refused():
    frame = coloured(RNG).assign(
        colour=lambda t: t["colour"].cat.rename_categories({"red": "rouge", "green": "vért"})
    )
    model = xgb.XGBRegressor(**SMALL, enable_categorical=True).fit(frame, frame["x"])
    with pytest.raises(UnsupportedError, match="beyond ASCII"):
        parse(model)


def test_numbers_of_categories_as_xgboost_decides_them():
    """Negative, fractional, huge, unseen and missing ones."""
    codes = np.stack([RNG.integers(0, 40, 300), X[:, 0]], axis=1)
    model = xgb.XGBRegressor(
        **SMALL, feature_types=["c", "q"], enable_categorical=True, max_cat_to_onehot=1
    ).fit(codes, codes[:, 0] % 3)
    odd = [
        -np.inf,
        -1e9,
        -1,
        -0.5,
        -0.0,
        0.5,
        1.999,
        31,
        32,
        39.5,
        40,
        63,
        64,
        2**24 - 1,
        2**24,
        1e9,
        3e38,
        1e300,
        np.inf,
        np.nan,
    ]
    rows = np.stack([np.tile(odd, 5), np.repeat(X[:5, 0], len(odd))], axis=1)
    same(convert(model).predict(rows), model.predict(rows))
    with pytest.raises(InputError, match="dtype category"):
        convert(model).predict(pd.DataFrame({0: pd.Categorical([7, 9]), 1: [0.0, 1.0]}))


def test_what_a_sparse_matrix_leaves_out_is_missing():
    dense = X * (RNG.random(X.shape) < 0.5)
    rows = sp.csr_matrix(dense)
    rows.data[::7] = 0
    model = xgb.XGBRegressor(**SMALL).fit(rows, VALUE)
    assert not np.array_equal(model.predict(rows), model.predict(rows.toarray()))
    for given in (rows, rows.tocsc(), rows.astype(np.float32), (rows * 9).astype(np.int64)):
        same(convert(model).predict(given), model.predict(given))
        same(
            convert(model.get_booster()).predict(given),
            model.get_booster().predict(xgb.DMatrix(given)),
        )


def test_zeros_of_sparse_steps_are_missing():
    frame = pd.DataFrame({"a": RNG.integers(0, 4, 300), "b": X[:, 0].round(), "c": X[:, 1].round()})
    encoder = make_column_transformer(
        (OneHotEncoder(), ["a"]), remainder="passthrough", sparse_threshold=1.0
    )
    for steps in ((OneHotEncoder(handle_unknown="ignore"),), (encoder,)):
        model = make_pipeline(*steps, xgb.XGBRegressor(**SMALL)).fit(frame, VALUE)
        same(convert(model).predict(frame), model.predict(frame))
    model = make_pipeline(MaxAbsScaler(), xgb.XGBRegressor(**SMALL)).fit(X, VALUE)
    with pytest.raises(InputError, match="takes for missing what a sparse matrix leaves out"):
        convert(model).predict(sp.csr_matrix(X))


def test_a_custom_objective_is_read_as_what_the_file_names():
    def squared(labels, scores):
        return scores - labels, np.ones_like(labels)

    for cls, y in ((xgb.XGBRegressor, VALUE), (xgb.XGBClassifier, (VALUE > 0).astype(int))):
        model = cls(**SMALL, objective=squared).fit(X, y)
        same(convert(model).predict(X), model.predict(X))


def test_numbers_in_the_file_are_read_as_float32():
    """JSON and UBJSON give the same thresholds, also where these are denormal or far out."""
    far = X * np.array([1e-42, 1e30, 1.0, 1e-7])
    model = xgb.XGBRegressor(**SMALL).fit(far, VALUE)
    booster = model.get_booster()
    assert json.loads(bytes(booster.save_raw("json")))["version"] == [
        int(v) for v in xgb.__version__.split(".")
    ]
    assert parse_xgboost_bytes(bytes(booster.save_raw("json"))) == parse_xgboost_bytes(
        bytes(booster.save_raw("ubj"))
    )
    same(convert(model).predict(far), model.predict(far))
