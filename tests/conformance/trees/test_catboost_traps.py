"""Named traps: models and rows of CatBoost that a converter gets silently wrong, each against
CatBoost itself.
"""

from decimal import Decimal, localcontext

import catboost
import numpy as np
import pandas as pd
import pytest
from sources import compared, dense, quietly
from tolerances import FUNCTION, assert_units
from trees.battery import FEW, check

import hbconv
from hbconv.containers.nodes.decisions import PLACES, TABLE  # noqa: TID251

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
VALUE = X[:, 0] + (X[:, 1] > 0) + 0.2 * RNG.standard_normal(300)
SMALL = {"iterations": 6, "depth": 3, "verbose": 0, "allow_writing_files": False, "thread_count": 1}


def same(model, rows, *methods, ulp=FUNCTION, **options):
    """Assert equal answers; probabilities and their logarithms within units."""
    converted = hbconv.convert(model, backend="reference", **options)
    for method in methods or compared(converted):
        got, want = dense(getattr(converted, method)(rows)), dense(quietly(model, method, rows))
        assert_units(method, got, want, ulp * method.endswith("proba"))


@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_nan_is_smallest_or_largest_where_it_was_seen_and_smallest_elsewhere(nan_mode):
    holes = np.where(RNG.random(X.shape) < 0.4, np.nan, X)
    holes[:, 3] = X[:, 3]
    model = catboost.CatBoostRegressor(nan_mode=nan_mode, **SMALL).fit(
        holes, np.where(np.isnan(holes[:, 0]), 5, VALUE)
    )
    everywhere = np.where(RNG.random(X.shape) < 0.4, np.nan, X)
    everywhere[:9], everywhere[9:18] = np.inf, -np.inf
    same(model, everywhere)


def test_nan_passes_a_model_that_was_to_forbid_it():
    model = catboost.CatBoostRegressor(nan_mode="Forbidden", **SMALL).fit(X, VALUE)
    same(model, np.where(RNG.random(X.shape) < 0.4, np.nan, X))


def test_numbers_are_rounded_to_float32_before_they_are_compared():
    model = catboost.CatBoostRegressor(border_count=9, **SMALL).fit(X, VALUE)
    borders = np.array(model.get_borders()[0])
    sides = np.concatenate(
        [
            borders,
            *(np.nextafter(borders, side) for side in (-9, 9)),
            *(np.nextafter(borders.astype("f4"), np.float32(s)) for s in (-9, 9)),
        ]
    )
    middles = (borders + np.nextafter(borders.astype("f4"), np.float32(9)).astype(float)) / 2
    values = np.concatenate([sides, middles, np.nextafter(middles, -9), np.nextafter(middles, 9)])
    same(model, np.stack([values, *np.zeros((3, len(values)))], axis=1))


def test_whole_numbers_of_a_table_are_rounded_once():
    """To float64 first, they would be rounded twice."""
    whole = 2**60 + 2**30 * RNG.integers(0, 2**20, 300)
    model = catboost.CatBoostRegressor(**SMALL).fit(
        np.stack([whole.astype(float), X[:, 0]], axis=1), VALUE
    )
    borders = np.array(model.get_borders()[0])
    middles = (
        (borders + np.nextafter(borders.astype("f4"), np.float32(np.inf)).astype(float)) / 2
    ).astype(np.int64)
    for step in (-1, 0, 1):
        same(model, pd.DataFrame({0: middles + step, 1: 0.5}))


@pytest.mark.parametrize(
    "y",
    [np.where(VALUE > 0, "yes", "no"), VALUE > 0, (VALUE > 0) * 4 + 3, (VALUE > 0) - 0.5],
    ids=["text", "bool", "int", "float"],
)
@pytest.mark.parametrize("loss", ["Logloss", "MultiClass"])
def test_labels_of_any_type_are_a_vector_or_a_column(y, loss):
    same(catboost.CatBoostClassifier(loss_function=loss, **SMALL).fit(X, y), X)


def test_class_names_in_another_order():
    same(
        catboost.CatBoostClassifier(class_names=["z", "a"], **SMALL).fit(
            X, np.where(VALUE > 0, "a", "z")
        ),
        X,
    )


@pytest.mark.parametrize("probability", [0.0, 0.3, 0.7, 1.0])
def test_probability_thresholds_cut_raw_scores(probability):
    model = catboost.CatBoostClassifier(**SMALL).fit(X, VALUE > 0)
    model.set_probability_threshold(probability)
    same(model, X)
    if not 0 < probability < 1:
        return
    at = -np.log(1 / probability - 1)
    for bias in (at, np.nextafter(at, 9), np.nextafter(at, -9)):
        model.set_scale_and_bias(0.0, float(bias))
        same(model, X[:2])


@pytest.mark.parametrize("loss", ["Poisson", "Tweedie:variance_power=1.5"])
def test_regressors_predict_exponentials_but_the_plain_model_and_stages_do_not(loss):
    for model in (
        catboost.CatBoostRegressor(loss_function=loss, **SMALL),
        catboost.CatBoost({"loss_function": loss, **SMALL}),
    ):
        same(model.fit(X, np.exp(VALUE)), X)


def test_uncertainty_is_the_exponential_of_twice_the_second_score():
    same(catboost.CatBoostRegressor(loss_function="RMSEWithUncertainty", **SMALL).fit(X, VALUE), X)


@pytest.mark.parametrize("scale", [1.0, 0.7, -3.0])
def test_the_bias_comes_last_but_first_in_stages_and_not_at_all_after_the_first_tree(scale):
    model = catboost.CatBoostRegressor(**SMALL).fit(X, VALUE)
    model.set_scale_and_bias(scale, 0.1)
    same(model, X)
    for first, last in ((0, 4), (1, 6), (3, 5)):
        converted = hbconv.convert(model, backend="reference", iterations=(first, last))
        np.testing.assert_array_equal(
            converted.predict(X), model.predict(X, ntree_start=first, ntree_end=last)
        )
        for got, want in zip(
            converted.staged_predict(X),
            model.staged_predict(X, ntree_start=first, ntree_end=last),
            strict=True,
        ):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "bias",
    [
        [0.0, -700.0, 0.0],
        [0.0, 0.0, -705.0],
        [0.0, -1500.0, -1500.0],
        [0.0, 0.0, 0.0, -2000.0, -9.0],
        [-900.0, 0.0, 0.0, 0.0],
    ],
)
def test_classes_without_hope(bias):
    """CatBoost's exponential keeps the smallest normal number in columns computed four by four,
    and gives zero in those left over.
    """
    y = np.digitize(VALUE, np.quantile(VALUE, np.linspace(0, 1, len(bias) + 1)[1:-1]))
    model = catboost.CatBoostClassifier(loss_function="MultiClass", **SMALL).fit(X, y)
    model.set_scale_and_bias(30.0, bias)
    same(model, X)
    same(model, X, "predict_proba", ulp=0)


def test_the_table_of_the_exponential_holds_the_nearest_floats():
    """numpy's powers are a unit off in 99 places where it has AVX-512, and a model may run on
    another processor.
    """
    with localcontext(prec=25):
        nearest = [float(Decimal(2) ** (Decimal(place) / PLACES)) for place in range(PLACES)]
    np.testing.assert_array_equal(TABLE.data, nearest)


def test_many_classes_add_up_in_order():
    y = np.digitize(VALUE, np.quantile(VALUE, np.linspace(0, 1, 24)[1:-1]))
    model = catboost.CatBoostClassifier(loss_function="MultiClass", **SMALL).fit(X, y)
    same(model, X)
    same(model, X, "predict_proba", ulp=0)


@pytest.mark.parametrize("policy", ["Depthwise", "Lossguide"])
def test_leaves_of_trees_that_are_not_symmetric_are_numbered_as_they_grew(policy):
    model = catboost.CatBoostRegressor(
        grow_policy=policy, **SMALL | {"depth": 6}, min_data_in_leaf=5
    ).fit(X, VALUE)
    same(model, X, "apply")


def test_symmetric_trees_made_asymmetric():
    model = catboost.CatBoostRegressor(**SMALL).fit(X, VALUE)
    model._convert_to_asymmetric_representation()
    same(model, X)


def test_more_borders_than_a_byte_holds():
    model = catboost.CatBoostRegressor(border_count=2000, **SMALL | {"depth": 8}).fit(
        RNG.standard_normal((3000, 1)), RNG.standard_normal(3000)
    )
    check(model, [np.array(model.get_borders()[0])[:, None]], backends=FEW)


def test_models_stopped_early_answer_with_the_best_iteration():
    model = catboost.CatBoostRegressor(**SMALL | {"iterations": 60}, early_stopping_rounds=2).fit(
        X, VALUE, eval_set=(X, VALUE[::-1])
    )
    assert model.tree_count_ < 60
    same(model, X)


def test_trees_of_one_leaf():
    same(
        catboost.CatBoostRegressor(grow_policy="Depthwise", min_data_in_leaf=200, **SMALL).fit(
            X, VALUE
        ),
        X,
    )


def test_categories_that_look_like_numbers():
    frame = pd.DataFrame(
        {"c": RNG.choice(["1", "01", "1.0", "-1", "true", "nan", ""], 300), "x": X[:, 0]}
    )
    model = catboost.CatBoostRegressor(cat_features=["c"], one_hot_max_size=9, **SMALL).fit(
        frame, (frame["c"] == "1") * 3 + (frame["c"] == "01") - (frame["c"] == "nan")
    )
    same(model, frame)
    same(model, pd.DataFrame({"c": [1, -1, 0, 10**18], "x": 0.5}))
    same(model, pd.DataFrame({"c": [True, False], "x": 0.5}))
