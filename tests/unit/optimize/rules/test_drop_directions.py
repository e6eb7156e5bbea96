"""Forests behind imputers lose the sides of NaN, and no row its leaf."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import random_forest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Cast,
    Clip,
    Columns,
    Concat,
    Graph,
    Impute,
    Node,
    Output,
    Schema,
    Select,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.lower import lower
from hbconv.optimize.rules.drop_constants import drop_directions

HURTING = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e300, 5e-324, 0.5, -1.0])
X = Columns.of(Schema.matrix(3))
FILLED = Impute(X, Array([0.5, -1.0, 0.0]))


def rows(n: int = 400) -> np.ndarray:
    """Return rows of values made to hurt, NaN in about a third."""
    rng = np.random.default_rng(1)
    return np.where(rng.random((n, 3)) < 0.4, np.nan, rng.choice(HURTING, (n, 3)))


def leaves(node: Node) -> np.ndarray:
    program = lower(Graph(X.schema, {"apply": Output(node)})).program
    return evaluate(program, {"x": rows()})["apply"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_row_keeps_its_leaf(seed: int, dtype: str) -> None:
    forest = random_forest(
        np.random.default_rng(seed), n_trees=8, n_features=3, max_depth=4, dtype=dtype
    )
    scaled = Affine.of(Cast(FILLED, dtype), sub=[0.5, 1.0, -3.0], div=[2.0, -4.0, 1e30])
    for x in (FILLED, scaled):
        before = TreeLeaves(x, forest)
        after = drop_directions(before)
        assert after is not None
        assert not after.forest.default_left.data.any()
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(leaves(after), leaves(before))


@pytest.mark.parametrize(
    "x",
    [
        X,
        Impute(X, Array([0.5, np.nan, 0.0])),
        Impute(X, Array([0.5, 1.0, 0.0]), missing=-1.0),
        Affine.of(FILLED, mul=[1.0, 0.0, 1.0]),
        Affine.of(FILLED, sub=[1.0, np.inf, 1.0]),
        Affine.of(FILLED, div=[1.0, 0.0, 1.0]),
        Clip.of(FILLED, np.nan, 1.0),
    ],
    ids=["raw", "fill of NaN", "missing is -1", "times 0", "less infinity", "by 0", "clip"],
)
def test_directions_stay_where_nan_may_come(x: Node) -> None:
    forest = random_forest(np.random.default_rng(0), n_trees=4, n_features=3, max_depth=3)
    assert forest.default_left.data.any()
    assert drop_directions(TreeEnsemble(x, forest)) is None


def test_a_node_with_many_paths_is_visited_once() -> None:
    """Two ways lead to each of the nodes below: 2 ** 60 paths."""
    x: Node = FILLED
    for _ in range(60):
        x = Select(Concat((x, Affine.of(x, mul=2.0))), Array.of([0, 1, 5], "int32"))
    forest = random_forest(np.random.default_rng(0), n_trees=4, n_features=3, max_depth=3)
    assert drop_directions(TreeLeaves(x, forest)) is not None


def test_a_forest_without_directions_stays_as_it_is() -> None:
    forest = random_forest(np.random.default_rng(0), n_trees=4, n_features=3, max_depth=3)
    plain = replace(forest, default_left=Array(np.zeros(forest.n_tests, bool)))
    assert drop_directions(TreeEnsemble(FILLED, plain)) is None


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
def test_boosted_trees_behind_an_imputer_answer_as_the_source(backend: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = np.nansum(x, axis=1)
    trees = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=8)
    source = make_pipeline(SimpleImputer(), StandardScaler(), trees).fit(x, y)
    model = hbconv.convert(source, backend=backend, without=("move_tests",))
    np.testing.assert_allclose(model.predict(x), source.predict(x), rtol=0, atol=1e-12)
