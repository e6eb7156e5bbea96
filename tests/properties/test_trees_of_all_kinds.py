"""Trees with categories and linear leaves: every backend, both dtypes, a saved model, and
float32 sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fitted import available_backends
from forests import hostile_rows, random_forest, with_random_slopes

import hbconv
from hbconv.array import Array
from hbconv.containers import Columns, Graph, Output, Schema, TreeEnsemble, TreeLeaves
from hbconv.trees.forest import Forest

BACKENDS = available_backends()


def graph_of(forest: Forest) -> Graph:
    """Sums and leaves of the forest, over a matrix."""
    forest = forest.with_numbered_leaves()
    schema = Schema.matrix(forest.n_features)
    x = Columns.of(schema)
    return Graph(
        schema, {"predict": Output(TreeEnsemble(x, forest)), "apply": Output(TreeLeaves(x, forest))}
    )


def linear_forest(seed: int, n_outputs: int = 1) -> Forest:
    """Return a forest of trees with linear leaves, two features of which are categories."""
    rng = np.random.default_rng(seed)
    return with_random_slopes(random_forest(rng, 7, 5, 5, n_outputs, n_categorical=2), rng)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_linear_leaves(backend: str, n_outputs: int, dtype: str) -> None:
    """Terms are added one after another, each product rounded: the same bits everywhere."""
    forest = linear_forest(n_outputs, n_outputs)
    x = hostile_rows(np.random.default_rng(5), forest, dtype, 200)
    model = hbconv.convert(graph_of(forest), backend=backend)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(model.predict(x), forest.scores(x))
    np.testing.assert_array_equal(model.apply(x), forest.leaves(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_fast_keeps_the_decisions(backend: str) -> None:
    """Float32 sums are near; for float32 rows the leaves are the source's."""
    forest = random_forest(np.random.default_rng(2), 9, 5, 6, n_categorical=2)
    x = hostile_rows(np.random.default_rng(3), forest, "float32", 300)
    model = hbconv.convert(graph_of(forest), backend=backend, precision="fast")
    np.testing.assert_array_equal(model.apply(x), forest.leaves(x))
    got = model.predict(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, forest.scores(x), rtol=0, atol=9 * 5 * 2**-23)


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_and_loaded(backend: str, tmp_path) -> None:
    """Tables and linear leaves survive a file."""
    forest = linear_forest(4)
    x = hostile_rows(np.random.default_rng(5), forest, "float64", 50)
    model = hbconv.convert(graph_of(forest), backend=backend)
    model.save(tmp_path / "model.hbc")
    np.testing.assert_array_equal(hbconv.load(tmp_path / "model.hbc").predict(x), model.predict(x))


def test_a_forest_with_fewer_columns() -> None:
    """Selecting columns renumbers tests and linear leaves alike."""
    forest = linear_forest(6)
    wide = np.insert(
        hostile_rows(np.random.default_rng(7), forest, "float64", 100), 2, np.nan, axis=1
    )
    columns = np.array([0, 1, 3, 4, 5], np.int32)
    moved = replace(
        forest,
        feature=Array(columns[forest.feature.data]),
        slopes=replace(forest.slopes, feature=Array(columns[forest.slopes.feature.data])),
        n_features=6,
    )
    assert set(moved.used_features) == set(columns)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(moved.scores(wide), forest.scores(wide[:, columns]))
        np.testing.assert_array_equal(
            moved.with_features(columns).scores(wide[:, columns]), moved.scores(wide)
        )


def test_explain_says_what_onnx_does_otherwise() -> None:
    """TreeEnsemble knows neither linear leaves nor sets that NaN is apart from."""
    text = str(hbconv.convert(graph_of(linear_forest(1)), backend="onnx").explain())
    assert "Tests on categories are decided by core operators" in text
    assert "Linear leaves are computed by core operators" in text
    assert "core operators" not in str(
        hbconv.convert(graph_of(linear_forest(1)), backend="tvm").explain()
    )
