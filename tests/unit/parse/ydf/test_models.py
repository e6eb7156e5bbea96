"""Models of YDF beside the answers of the library, on rows made to hurt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ydf
from scoring import assert_units
from ydf_forests import boosted, copied, hostile, isolation, labelled, trained

import hbconv
from hbconv.errors import UnsupportedError

REGRESSION = ydf.Task.REGRESSION
OBLIQUE = {"split_axis": "SPARSE_OBLIQUE"}
ANY_WEIGHTS = {
    "sparse_oblique_weights": "CONTINUOUS",
    "sparse_oblique_normalization": "STANDARD_DEVIATION",
}
LOCAL = {"missing_value_policy": "LOCAL_IMPUTATION"}
FOREST = "RandomForestLearner"

EXACT = {
    "two, votes": lambda: trained(FOREST, label="two"),
    "two, shares": lambda: trained(FOREST, label="two", winner_take_all=False),
    "three, votes": lambda: trained(FOREST, label="three"),
    "three, shares": lambda: trained(FOREST, label="three", winner_take_all=False),
    "numbers": lambda: trained(FOREST, label="value", task=REGRESSION),
    "weights": lambda: trained(FOREST, label="three", winner_take_all=False, weights="count"),
    "missing": lambda: trained(FOREST, label="two", allow_na_conditions=True),
    "oblique": lambda: trained(FOREST, label="two", **OBLIQUE),
    "oblique, any weights": lambda: trained(FOREST, label="two", **OBLIQUE, **ANY_WEIGHTS),
    "linear discriminants": lambda: trained(FOREST, label="two", split_axis="MHLD_OBLIQUE"),
    "another engine, votes": lambda: trained(FOREST, label="two", num_trees=10, **LOCAL),
    "another engine, numbers": lambda: trained(FOREST, label="value", task=REGRESSION, **LOCAL),
    "CART": lambda: trained("CartLearner", label="three"),
    "CART of numbers": lambda: trained("CartLearner", label="value", task=REGRESSION),
    "boosted numbers": lambda: boosted("value", task=REGRESSION),
    "boosted absolute": lambda: boosted("value", task=REGRESSION, loss="MEAN_AVERAGE_ERROR"),
    "boosted, another engine": lambda: boosted("value", task=REGRESSION, **LOCAL),
    "ranks": lambda: boosted("relevance", task=ydf.Task.RANKING, ranking_group="group"),
}
"""Models whose answers are sums of leaves: the same bits."""

LINKED = {
    "two": boosted,
    "three": lambda: boosted("three"),
    "focal": lambda: boosted(loss="BINARY_FOCAL_LOSS"),
    "counts": lambda: boosted("count", task=REGRESSION, loss="POISSON"),
    "many leaves": lambda: boosted(max_depth=9),
    "discretized": lambda: boosted(discretize_numerical_columns=True),
    "missing": lambda: boosted(allow_na_conditions=True),
    "oblique": lambda: boosted(**OBLIQUE, sparse_oblique_weights="CONTINUOUS"),
    "another engine": lambda: boosted(**LOCAL),
    "another engine, three": lambda: boosted("three", **LOCAL),
    "another engine, shares": lambda: trained(
        FOREST, label="three", winner_take_all=False, **LOCAL
    ),
    "isolation": isolation,
    "oblique isolation": lambda: isolation(**OBLIQUE),
}
"""Models whose answers pass a function, or another rounding."""

UNITS = 4
"""Units in the last place of float32 between two C libraries' exponentials, and their sums."""


@pytest.mark.parametrize("name", EXACT)
def test_sums_are_the_same_bits(name: str) -> None:
    """Leaves, classes and sums."""
    _assert_same(EXACT[name](), 0)


@pytest.mark.parametrize("name", LINKED)
def test_links_are_within_units(name: str) -> None:
    """Leaves and classes exactly, answers within rounding."""
    _assert_same(LINKED[name](), UNITS)


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
@pytest.mark.parametrize("name", ["missing", "oblique"])
def test_every_backend(name: str, backend: str) -> None:
    """Flags, sets and weighted sums."""
    _assert_same(EXACT[name](), 0, backend)


def _assert_same(model: Any, ulp: int, backend: str = "reference") -> None:
    rows = hostile(model)
    slow = not model.list_compatible_engines()
    converted = hbconv.convert(model, backend)
    leaves = model.predict_leaves(labelled(model, rows))
    np.testing.assert_array_equal(converted.apply(rows), leaves)
    want = model.predict(rows, use_slow_engine=slow)
    assert_units("predict", converted.predict(rows), want, ulp)
    if hasattr(converted, "predict_class"):
        classes = model.predict_class(rows, use_slow_engine=slow)
        np.testing.assert_array_equal(converted.predict_class(rows), classes)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("label", ["two", "three"])
def test_few_rows(label: str, n: int) -> None:
    """The shape and dtype of the source."""
    model = trained(FOREST, label=label)
    rows = hostile(model)[:n]
    found = hbconv.convert(model, "reference").predict(rows)
    shape = (n,) if label == "two" else (n, 3)
    assert (found.shape, found.dtype) == (shape, np.float32)
    if n:
        np.testing.assert_array_equal(found, model.predict(rows))


@pytest.mark.parametrize("label", ["two", "three"])
def test_scores_before_the_link(label: str) -> None:
    """``raw_scores`` and ``set_output_logits`` give the same; classes then follow the scores."""
    model = copied(boosted(label))
    rows = hostile(model)
    raw = hbconv.convert(model, "reference").raw_scores(rows)
    model.set_output_logits(True)
    converted = hbconv.convert(model, "reference")
    np.testing.assert_array_equal(raw, model.predict(rows))
    np.testing.assert_array_equal(converted.predict(rows), raw)
    np.testing.assert_array_equal(converted.predict_class(rows), model.predict_class(rows))


@pytest.mark.parametrize("start", [-1e3, -50.0, 50.0])
def test_counts_are_clipped(start: float) -> None:
    """A Poisson score beyond the bound of the source."""
    model = copied(boosted("count", task=REGRESSION, loss="POISSON"))
    model.set_initial_predictions([start])
    model = copied(model)
    rows = hostile(model)
    found = hbconv.convert(model, "reference").predict(rows)
    assert_units("predict", found, model.predict(rows), UNITS)


def test_probabilities_of_huge_scores() -> None:
    """Exponentials overflow as in the source."""
    model = copied(boosted("three"))
    model.set_initial_predictions([200.0, 0.0, -200.0])
    model = copied(model)
    rows = hostile(model)
    with np.errstate(all="ignore"):
        found = hbconv.convert(model, "reference").predict(rows)
    np.testing.assert_array_equal(found, model.predict(rows))


@pytest.mark.parametrize("engine", ["GradientBoostedTreesGeneric"])
def test_a_forced_engine_is_another_rounding_alone(engine: str) -> None:
    """No attribute tells which engine was forced, so answers are those of the fastest."""
    model = copied(boosted("value", task=REGRESSION))
    model.force_engine(engine)
    rows = hostile(model)
    found = hbconv.convert(model, "reference").predict(rows)
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-5, atol=1e-6)


def test_a_class_that_rounding_decides_is_refused() -> None:
    """Shares that the slow engine adds in its own way."""
    model = hbconv.convert(LINKED["another engine, shares"](), "reference")
    with pytest.raises((UnsupportedError, AttributeError), match="winner_take_all"):
        model.predict_class(None)
