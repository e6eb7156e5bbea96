"""Trees as the operator ``ai.onnx.ml.TreeEnsemble``, exactly.

The operator works in the dtype of its input: thresholds, leaf values and sums. ONNX Runtime adds the trees in their order,
starting from zero (with several threads it may add up blocks of trees apart), so a start value goes in as a first tree of
one leaf. A leaf adds one number to one target. Tests on categories are decided by look-ups before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.category_tables import decide_tables, with_tables_as_columns
from hbconv.tensor.leaves import sum_leaves
from hbconv.tensor.rewrite import rewrite_program

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.forest import Forest
    from hbconv.tensor import Builder, TensorProgram, Value

__all__ = ["fit_trees", "tree_leaves", "tree_remarks", "tree_scores"]

SUM = 1

_Array = npt.NDArray[Any]


def fit_trees(program: TensorProgram) -> TensorProgram:
    """Write the native trees so that each ``tree_scores`` has scalar leaves and reads the dtype it sums in."""
    return rewrite_program(program, {"tree_scores": _fit_scores, "tree_leaves": _fit_leaves})


def _fit_scores(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    """Widen x where the sums are wider (no decision changes); else, or where leaves are vectors, add up the leaves reached."""
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.scores(_row(forest))[0]))
    if forest.tables:
        x, forest = b.concat([x, decide_tables(forest, x, b)]), with_tables_as_columns(forest)
    if (
        forest.values.shape[1] > 1
        or np.promote_types(x.dtype, forest.accumulate) != forest.accumulate
    ):
        return sum_leaves(forest, b.op("tree_leaves", x, forest=forest, strategy=strategy), b)
    return b.op("tree_scores", b.cast(x, forest.accumulate), forest=forest, strategy=strategy)


def _fit_leaves(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.leaves(_row(forest))[0]))
    if forest.tables:
        x, forest = b.concat([x, decide_tables(forest, x, b)]), with_tables_as_columns(forest)
    return b.op("tree_leaves", x, forest=forest, strategy=strategy)


def tree_remarks(forest: Forest) -> tuple[str, ...]:
    """Say what the operator cannot do, which other operators then do."""
    found = {
        "Tests on categories are decided by core operators before TreeEnsemble: it knows no set for NaN and for what is no category.": forest.tables,
        "Leaf vectors are added up by core operators: a leaf of TreeEnsemble holds one number.": forest.values.shape[
            1
        ]
        > 1,
        "Linear leaves are computed by core operators: a leaf of TreeEnsemble is a constant.": forest.slopes,
        "Trees of a single leaf have a test in TreeEnsemble, both sides of which are that leaf.": forest.n_tests
        and (forest.roots.data < 0).any(),
    }
    return tuple(remark for remark, holds in found.items() if holds)


def _row(forest: Forest) -> _Array:
    """Return a row of zeros: any row will do where nothing is tested."""
    return np.zeros((1, forest.n_features), np.float32)


def tree_scores(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Write the sums of scalar leaves."""
    started = np.flatnonzero(forest.start.data)
    values = np.concatenate([forest.start.data[started], forest.values.data[:, 0]])
    targets = np.concatenate(
        [started, np.repeat(forest.target.data, np.diff(forest.first_leaf.data))]
    )
    return _tree_ensemble(w, x, forest, values, targets, forest.n_outputs)


def tree_leaves(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Give each tree a target of its own, whose leaves hold their place in the tree, then number them over the forest."""
    sizes = np.diff(forest.first_leaf.data)
    places = np.arange(forest.n_leaves) - np.repeat(forest.first_leaf.data[:-1], sizes)
    targets = np.repeat(np.arange(forest.n_trees), sizes)
    reached = _tree_ensemble(w, x, forest, places, targets, forest.n_trees)
    return w.node("Add", w.cast(reached, "int32"), w.constant(forest.first_leaf.data[:-1], "int32"))


def _tree_ensemble(
    w: GraphWriter, x: Tensor, forest: Forest, values: _Array, targets: _Array, n_targets: int
) -> str:
    """Write the forest with these leaf values and targets; those more than its leaves stand in front, as trees of their own.

    The operator knows no tree of a single leaf: it gets a test with that leaf on one side and its like on the other (a
    leaf that two branches share is misread by ONNX Runtime 1.28).
    """
    from onnx import numpy_helper

    n_starts = len(values) - forest.n_leaves
    roots = np.concatenate([~np.arange(n_starts), _shifted(forest.roots.data, n_starts)])
    single = np.flatnonzero(roots < 0)
    leaves, zeros = ~roots[single], np.zeros(len(single))
    roots[single] = forest.n_tests + np.arange(len(single))
    left = np.concatenate([_shifted(forest.left.data, n_starts), ~leaves])
    right = np.concatenate(
        [_shifted(forest.right.data, n_starts), ~(len(values) + np.arange(len(single)))]
    )
    lists = {
        "tree_roots": roots,
        "nodes_featureids": np.concatenate([forest.feature.data, zeros]),
        "nodes_missing_value_tracks_true": np.concatenate([forest.default_left.data, zeros]),
        "nodes_truenodeids": np.where(left < 0, ~left, left),
        "nodes_falsenodeids": np.where(right < 0, ~right, right),
        "nodes_trueleafs": left < 0,
        "nodes_falseleafs": right < 0,
        "leaf_targetids": np.concatenate([targets, targets[leaves]]),
    }
    tensors = {
        "nodes_splits": np.concatenate([forest.less_equal_thresholds(x.dtype), zeros]).astype(
            x.dtype
        ),
        "nodes_modes": np.zeros(len(left), np.uint8),  # 0 is x <= split
        "leaf_weights": np.concatenate([values, values[leaves]]).astype(x.dtype),
    }
    attributes = {name: array.astype(np.int64).tolist() for name, array in lists.items()}
    attributes |= {name: numpy_helper.from_array(array, name) for name, array in tensors.items()}
    return w.ml_node(
        "TreeEnsemble", x.name, n_targets=n_targets, aggregate_function=SUM, **attributes
    )


def _shifted(children: _Array, n_leaves: int) -> _Array:
    """Renumber the leaves (negative) to follow so many others."""
    return np.where(children < 0, children - n_leaves, children)
