import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scoring import assert_same, forest_of, score, threshold_rows
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import ConversionError, OptionError, UnsupportedError
from hbconv.parse import parse
from hbconv.parse.lightgbm.estimators import EARLY_STOPPED, parse_lightgbm_text
from hbconv.parse.lightgbm.model_text import read_lightgbm_text
from hbconv.parse.lightgbm.trees import ZERO

RNG = np.random.default_rng(0)
X = RNG.standard_normal((500, 5))
X[:, 4] = RNG.integers(-1, 3, 500)
X[RNG.random(X.shape) < 0.1] = np.nan
LABELS = np.array(["ash", "birch", "cedar"])[RNG.integers(0, 3, 500)]
TARGET = np.abs(np.nan_to_num(X[:, 0])) / 5 + 0.1
SMALL = {"n_estimators": 8, "num_leaves": 8, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
OBJECTIVES = [
    "regression", "regression_l1", "huber", "fair", "quantile", "mape",
    "poisson", "gamma", "tweedie", "cross_entropy", "cross_entropy_lambda",
]  # fmt: skip
BOOSTERS = [
    {},
    {"boosting_type": "dart"},
    {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1},
    {"data_sample_strategy": "goss"},
]
DTYPES = ["float32", "float64"]
METHODS = ("predict", "predict_proba", "decision_function")


def rows_of(model, dtype="float64"):
    return threshold_rows(forest_of(parse(model)), dtype)


def booster_of(model):
    return getattr(model, "booster_", model)


def assert_raw_and_leaves(model, rows):
    """Leaf numbers and raw scores, bit for bit."""
    forest = forest_of(parse(model))
    booster = booster_of(model)
    np.testing.assert_array_equal(
        forest.leaf_id.data[forest.leaves(rows)], booster.predict(rows, pred_leaf=True)
    )
    np.testing.assert_array_equal(
        forest.scores(rows), booster.predict(rows, raw_score=True).reshape(len(rows), -1)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "labels", [LABELS, LABELS == "ash", RNG.integers(3, 5, 500) * 4], ids=["text", "bool", "int"]
)
@pytest.mark.parametrize("parameters", BOOSTERS, ids=lambda p: next(iter(p.values()), "gbdt"))
def test_classifiers_at_their_thresholds(parameters, labels, dtype):
    model = lgb.LGBMClassifier(**SMALL, **parameters).fit(X, labels)
    rows = rows_of(model, dtype)
    assert_raw_and_leaves(model, rows)
    assert_same(model, rows, *METHODS, ulp=FUNCTION)


@pytest.mark.parametrize("reg_sqrt", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_objectives(objective, reg_sqrt):
    model = lgb.LGBMRegressor(**SMALL, objective=objective, reg_sqrt=reg_sqrt).fit(X, TARGET)
    rows = rows_of(model)
    assert_same(model, rows, "predict", ulp=FUNCTION)
    assert_same(model.booster_, rows, "predict", ulp=FUNCTION)
    assert_units(
        "predict",
        score(parse_lightgbm_text(model.booster_.model_to_string()), rows),
        model.predict(rows),
        FUNCTION,
    )


@pytest.mark.parametrize(
    "parameters",
    [{"sigmoid": 0.7}, {"objective": "multiclassova", "sigmoid": 1.5}, {"is_unbalance": True}],
    ids=lambda p: next(iter(p)),
)
def test_classifier_objectives(parameters):
    labels = LABELS if "objective" in parameters else LABELS == "ash"
    model = lgb.LGBMClassifier(**SMALL, **parameters).fit(X, labels)
    assert_same(model, rows_of(model), *METHODS, ulp=FUNCTION)
    assert_same(model.booster_, rows_of(model), "predict", ulp=FUNCTION)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_rankers(objective):
    model = lgb.LGBMRanker(**SMALL, objective=objective).fit(
        X, RNG.integers(0, 3, 500), group=[200, 300]
    )
    assert_same(model, rows_of(model), "predict")


@pytest.mark.parametrize("cls", [lgb.LGBMClassifier, lgb.LGBMRegressor])
def test_custom_objective_gives_raw_scores(cls):
    model = cls(**SMALL, objective=lambda y, raw: (raw - y, np.ones_like(y))).fit(
        X, LABELS == "ash"
    )
    assert_same(model, rows_of(model), "predict")


@pytest.mark.parametrize(
    "parameters",
    [{"use_missing": False}, {"zero_as_missing": False}, {"max_bin": 3}, {"extra_trees": True}],
    ids=lambda p: next(iter(p)),
)
def test_missing_rules_and_bins(parameters):
    model = lgb.LGBMRegressor(**SMALL, **parameters).fit(X, TARGET)
    assert_raw_and_leaves(model, rows_of(model))


def test_values_near_zero_count_as_zero():
    column = np.repeat([-1.0, 0.0, 1.0], 50)[:, None]
    model = lgb.LGBMRegressor(**SMALL).fit(column, np.repeat([1.0, 5.0, 2.0], 50))
    thresholds = forest_of(parse(model)).threshold.data
    assert ZERO in thresholds
    near = [
        0.0,
        -0.0,
        ZERO,
        -ZERO,
        np.nextafter(ZERO, 1),
        np.nextafter(-ZERO, -1),
        np.nextafter(ZERO, 0),
        1e-36,
        -1e-36,
        5e-324,
        -5e-324,
    ]
    for dtype in DTYPES:
        assert_raw_and_leaves(model, np.array(near, dtype)[:, None])


@pytest.mark.parametrize(
    "threshold",
    [
        "0",
        "-0",
        "1e-36",
        "-1e-36",
        "-1.0000000180025095e-35",
        "-1.0000000180025097e-35",
        "inf",
        "-inf",
    ],
)
@pytest.mark.parametrize("decision", ["0", "2", "8", "10"])
def test_thresholds_about_zero_written_by_hand(threshold, decision):
    text = (
        lgb.LGBMRegressor(**{**SMALL, "n_estimators": 1, "num_leaves": 2})
        .fit(X[:, :1], TARGET)
        .booster_.model_to_string()
    )
    lines = dict.fromkeys(text.split("\n"))
    for key, value in {
        "threshold": threshold,
        "decision_type": decision,
        "split_feature": "0",
    }.items():
        old = next(line for line in lines if line.startswith(f"{key}="))
        text = text.replace(old, f"{key}={value}")
    rows = np.array(
        [
            0.0,
            -0.0,
            ZERO,
            -ZERO,
            1e-36,
            -1e-36,
            np.nextafter(-ZERO, -1),
            1.0,
            -1.0,
            np.nan,
            np.inf,
            -np.inf,
        ]
    )[:, None]
    np.testing.assert_array_equal(score(parse_lightgbm_text(text), rows), sized_as(text, rows))


def sized_as(text, rows):
    """Predict with a text whose tree changed its length."""
    size = len(text[text.index("Tree=0") : text.index("end of trees")])
    line = next(line for line in text.split("\n") if line.startswith("tree_sizes="))
    return lgb.Booster(model_str=text.replace(line, f"tree_sizes={size}")).predict(rows)


@pytest.mark.parametrize(
    "rows",
    [X[:1], np.asfortranarray(X[:7]), X[::2], RNG.integers(-(2**40), 2**40, (9, 5))],
    ids=["one", "fortran", "strided", "int64"],
)
def test_row_layouts(rows):
    model = lgb.LGBMClassifier(**SMALL).fit(np.nan_to_num(X), LABELS)
    assert_same(model, rows, *METHODS, ulp=FUNCTION)


@pytest.mark.parametrize(
    "fitted_on",
    [np.asarray, lambda column: pd.DataFrame(column, columns=["a"])],
    ids=["array", "table"],
)
def test_ints_of_an_array_are_read_as_float32_and_of_a_table_as_float64(fitted_on):
    column = np.arange(2**24, 2**24 + 64)[:, None]
    parameters = {**SMALL, "min_child_samples": 1, "max_bin": 255, "num_leaves": 64}
    model = lgb.LGBMRegressor(**parameters).fit(
        fitted_on(column).astype(np.float64), (column[:, 0] % 2).astype(float)
    )
    converted = hbconv.convert(model, "reference")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (
            column,
            column.astype(np.uint32),
            column.astype(">f8"),
            column.tolist(),
            pd.DataFrame(column, columns=["a"]),
        ):
            np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))
    assert np.any(
        model.predict(pd.DataFrame(column, columns=["a"])) != model.booster_.predict(column)
    )


def test_no_rows():
    model = lgb.LGBMClassifier(**SMALL).fit(X, LABELS)
    assert score(model, X[:0], "predict_proba").shape == (0, 3)


def test_early_stopping_keeps_the_best_iteration():
    model = lgb.LGBMRegressor(**{**SMALL, "n_estimators": 60})
    model.fit(
        X[:300],
        TARGET[:300],
        eval_X=X[300:],
        eval_y=TARGET[300:],
        callbacks=[lgb.early_stopping(2, verbose=False)],
    )
    assert forest_of(parse(model)).n_trees == model.best_iteration_
    assert_same(model, X, "predict")
    booster = lgb.train(
        {"verbose": -1, "num_leaves": 8, "num_threads": 1}, lgb.Dataset(X, TARGET), 8
    )
    booster.best_iteration = 3
    assert forest_of(parse(booster)).n_trees == 3
    assert_same(booster, X, "predict")


def test_single_leaf_trees():
    model = lgb.LGBMRegressor(**SMALL).fit(X[:6], TARGET[:6])
    assert forest_of(parse(model)).n_tests == 0
    assert_same(model, X, "predict")


def test_one_class():
    assert_same(
        lgb.LGBMClassifier(**SMALL).fit(X, np.full(500, 7)),
        X,
        "predict",
        "predict_proba",
        ulp=FUNCTION,
    )


def test_names():
    frame = pd.DataFrame(X, columns=list("abcde"))
    named, unnamed = (lgb.LGBMRegressor(**SMALL).fit(data, TARGET) for data in (frame, X))
    for model in (named, named.booster_):
        assert parse(model).schema.named
        assert parse(model).schema.names == tuple("abcde")
    assert not parse(unnamed).schema.named
    assert not parse(unnamed.booster_).schema.named
    assert parse_lightgbm_text(named.booster_.model_to_string()).schema == parse(named).schema
    assert not parse(named).schema.conventions.tables_only


EARLY = {"pred_early_stop": True, "pred_early_stop_freq": 1, "pred_early_stop_margin": 0.0}


@pytest.mark.parametrize("objective", EARLY_STOPPED)
def test_early_stopped_prediction_is_refused_until_it_is_set_off(objective):
    """The parameter counts in each call of predict, not in fitting."""
    kind = lgb.LGBMRanker if "rank" in objective else lgb.LGBMClassifier
    labels = RNG.integers(0, 2 if objective == "binary" else 3, len(X))
    groups = {"group": [len(X)]} if "rank" in objective else {}
    model = kind(**SMALL, **EARLY, objective=objective).fit(X, labels, **groups)
    stopped = model.predict(X, raw_score=True)
    with pytest.raises(UnsupportedError, match=r"with pred_early_stop=True.* set_params\("):
        parse(model)
    assert_same(model.set_params(pred_early_stop=False), X, "predict", ulp=FUNCTION)
    assert not np.array_equal(stopped, model.predict(X, raw_score=True))
    assert_same(model.set_params(pred_early_stop="false"), X, "predict", ulp=FUNCTION)


@pytest.mark.parametrize("objective", [*OBJECTIVES, lambda y, score: (score - y, np.ones_like(y))])
def test_objectives_that_need_all_trees_are_never_stopped_early(objective):
    model = lgb.LGBMRegressor(**SMALL, **EARLY, objective=objective).fit(X, TARGET)
    assert_same(model, X, "predict", ulp=FUNCTION)


def test_a_booster_heeds_no_argument_of_predict_among_its_parameters():
    parameters = {**EARLY, "num_iteration_predict": 2, "predict_raw_score": True, "verbose": -1}
    labels = (LABELS == "ash").astype(int)
    source = lgb.train({**parameters, "objective": "binary"}, lgb.Dataset(X, labels), 8)
    assert_same(source, X, "predict", ulp=FUNCTION)


def test_a_sigmoid_of_more_digits_than_the_text_keeps():
    """A trained booster has forgotten the others, one in training has not: they cannot be told
    apart.
    """
    labels = (LABELS == "ash").astype(int)
    wrapper = lgb.LGBMClassifier(**SMALL, sigmoid=0.123456789).fit(X, labels)
    assert_same(wrapper, X, *METHODS, ulp=FUNCTION)
    for kept in (False, True):
        booster = lgb.train(
            {"objective": "binary", "sigmoid": 0.123456789, "verbose": -1},
            lgb.Dataset(X, labels),
            2,
            keep_training_booster=kept,
        )
        with pytest.raises(UnsupportedError, match=r"Booster with sigmoid=0\.123456789"):
            parse(booster)
        read = lgb.Booster(model_str=booster.model_to_string())
        assert_same(read, X, "predict", ulp=FUNCTION)
        assert_units(
            "predict",
            score(parse_lightgbm_text(booster.model_to_string()), X),
            read.predict(X),
            FUNCTION,
        )


TEXT = lgb.LGBMRegressor(**SMALL).fit(X, TARGET).booster_.model_to_string()


def test_a_text_is_cut_as_it_is_read():
    want = lgb.Booster(model_str=TEXT).predict(X, start_iteration=2, num_iteration=3)
    np.testing.assert_array_equal(score(parse_lightgbm_text(TEXT, (2, 5)), X), want)
    with pytest.raises(OptionError, match="name them where it is read"):
        hbconv.convert(parse_lightgbm_text(TEXT), iterations=(2, 5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a LightGBM model text"),
        ("{}", "not a LightGBM model text"),
        (TEXT[: len(TEXT) // 4], "ends before the last tree"),
        (TEXT.replace("leaf_value=", "leaf_value=1 ", 1), "leaf_value has the wrong length"),
        (TEXT.replace("threshold=", "threshold=x", 1), "damaged"),
        (TEXT.replace("left_child=", "left_child=9", 1), "damaged"),
        (TEXT.replace("split_feature=", "split_feature=9", 1), "damaged: a test reads a column"),
        (TEXT.replace("leaf_value", "leaf_worth"), "damaged"),
        (TEXT.replace("decision_type=", "decision_type=-", 1), "a decision_type is none"),
        (TEXT.replace("decision_type=", "decision_type=1", 1), "a decision_type is none"),
        (TEXT.replace("version=v4", "version=v9"), "LightGBM with version='v9'"),
        (
            TEXT.replace("objective=regression", "objective=surprise"),
            "LightGBM with objective='surprise'",
        ),
    ],
)
def test_damaged_and_foreign_text(text, message):
    with pytest.raises(ConversionError, match=message):
        parse_lightgbm_text(text)


def test_windows_line_ends():
    assert read_lightgbm_text(TEXT.replace("\n", "\r\n")) == read_lightgbm_text(TEXT)
