"""Trees as the operator ``ai.onnx.ml.TreeEnsemble``, exactly.

The operator works in the dtype of its input: thresholds, leaf values and sums. ONNX Runtime adds the trees in their order,
starting from zero (with several threads it may add up blocks of trees apart), so a start value goes in as a first tree of
one leaf. A leaf adds one number to one target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.strategy import sum_leaves
from hbconv.tensor.rewrite import rewrite_program

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.forest import Forest
    from hbconv.tensor import Builder, TensorProgram, Value

__all__ = ["fit_trees", "tree_leaves", "tree_scores"]

SUM = 1


def fit_trees(program: TensorProgram) -> TensorProgram:
    """Write the native trees so that each ``tree_scores`` has scalar leaves and reads the dtype it sums in."""
    return rewrite_program(program, {"tree_scores": _fit_scores, "tree_leaves": _fit_leaves})


def _fit_scores(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    """Widen x where the sums are wider (no decision changes); else, or where leaves are vectors, add up the leaves reached."""
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.scores(_row(forest))[0]))
    if forest.values.shape[1] > 1 or np.promote_types(x.dtype, forest.accumulate) != forest.accumulate:
        return sum_leaves(forest, b.op("tree_leaves", x, forest=forest, strategy=strategy), b)
    return b.op("tree_scores", b.cast(x, forest.accumulate), forest=forest, strategy=strategy)


def _fit_leaves(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.leaves(_row(forest))[0]))
    return b.op("tree_leaves", x, forest=forest, strategy=strategy)


def _row(forest: Forest) -> npt.NDArray[Any]:
    """Return a row of zeros: any row will do where nothing is tested."""
    return np.zeros((1, forest.n_features), np.float32)


def tree_scores(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Write the sums of scalar leaves."""
    started = np.flatnonzero(forest.start.data)
    trees = _trees(forest, x.dtype, n_starts=len(started))
    values = np.concatenate([forest.start.data[started], forest.values.data[:, 0]])
    targets = np.concatenate([started, np.repeat(forest.target.data, np.diff(forest.first_leaf.data))])
    return _tree_ensemble(w, x, trees, values, targets, forest.n_outputs)


def tree_leaves(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Give each tree a target of its own, whose leaves hold their place in the tree, then number them over the forest."""
    sizes = np.diff(forest.first_leaf.data)
    places = np.arange(forest.n_leaves) - np.repeat(forest.first_leaf.data[:-1], sizes)
    targets = np.repeat(np.arange(forest.n_trees), sizes)
    reached = _tree_ensemble(w, x, _trees(forest, x.dtype), places, targets, forest.n_trees)
    return w.node("Add", w.cast(reached, "int32"), w.constant(forest.first_leaf.data[:-1], "int32"))


def _trees(forest: Forest, dtype: str, n_starts: int = 0) -> dict[str, npt.NDArray[Any]]:
    """Attributes that hold the tests: the forest's, then one for each single leaf, with that leaf on both sides.

    The first n_starts leaves are trees of their own, before those of the forest.
    """
    roots = np.concatenate([~np.arange(n_starts), np.where(forest.roots.data < 0, forest.roots.data - n_starts, forest.roots.data)])
    single = roots < 0
    left, right = (np.concatenate([np.where(c < 0, c - n_starts, c), roots[single]]) for c in (forest.left.data, forest.right.data))
    more = np.zeros(np.count_nonzero(single))
    roots[single] = forest.n_tests + np.arange(len(more))
    return {
        "tree_roots": roots,
        "nodes_featureids": np.concatenate([forest.feature.data, more]),
        "nodes_splits": np.concatenate([forest.less_equal_thresholds(dtype), more]),
        "nodes_missing_value_tracks_true": np.concatenate([forest.default_left.data, more]),
        "nodes_truenodeids": np.where(left < 0, ~left, left),
        "nodes_falsenodeids": np.where(right < 0, ~right, right),
        "nodes_trueleafs": left < 0,
        "nodes_falseleafs": right < 0,
    }


def _tree_ensemble(w: GraphWriter, x: Tensor, trees: dict[str, npt.NDArray[Any]], values: npt.NDArray[Any], targets: npt.NDArray[Any], n_targets: int) -> str:
    from onnx import numpy_helper

    tests = {name: array.astype(np.int64).tolist() for name, array in trees.items() if name != "nodes_splits"}
    tensors = {
        "nodes_splits": trees["nodes_splits"].astype(x.dtype),
        "nodes_modes": np.zeros(len(trees["nodes_splits"]), np.uint8),  # 0 is x <= split
        "leaf_weights": values.astype(x.dtype),
    }
    tests |= {name: numpy_helper.from_array(array, name) for name, array in tensors.items()}
    return w.ml_node("TreeEnsemble", x.name, n_targets=n_targets, aggregate_function=SUM, leaf_targetids=targets.tolist(), **tests)
