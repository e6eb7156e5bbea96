"""Trees as the operator ``ai.onnx.ml.TreeEnsemble``, exactly, and the work that it takes.

A symmetric tree asks one split on each level, so its answers are the bits of the leaf's place. Sums
of many such trees are core operators: a split is one comparison of vectors, and a level one sum of
bytes. Splits that trees share are decided once.

The operator computes thresholds, leaf values and sums in the dtype of its input. In one thread,
ONNX Runtime adds the trees in their order, starting from zero. So a start value is a first tree of
one leaf. A leaf adds one number to one target. Categorical splits are decided by look-ups before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.onnx.row_blocks import emit_in_blocks
from hbconv.backends.onnx.tree_bits import add_leaves_of_bits, find_tree_bits
from hbconv.backends.onnx.writer import Tensor
from hbconv.cost_model import Work, count_work, total_work
from hbconv.errors import BackendError
from hbconv.tensor import Builder, Op, OpKind, TensorType
from hbconv.tensor.decompositions import rewrite_program
from hbconv.trees.forest import Forest
from hbconv.trees.leaves import sum_leaves
from hbconv.trees.splits import decide_tables, with_tables_as_columns

if TYPE_CHECKING:
    from hbconv.backends.onnx.tree_bits import TreeBits
    from hbconv.backends.onnx.writer import GraphWriter
    from hbconv.tensor import Builder, TensorProgram, Value
    from hbconv.trees.forest import Forest

__all__ = [
    "count_tree_work",
    "fit_trees",
    "tree_leaves",
    "tree_remarks",
    "tree_scores",
]

_Array = npt.NDArray[Any]

BLOCK_ROWS = 1024
"""Rows whose leaves are looked up at once: of 50,000 rows those of 1,000 trees took 1.3 GB."""

SUM = 1
MAX_DEPTH = 1000
"""ONNX Runtime reads a tree by recursion: depth 12,000 ended the process, in a stack of 8 MB."""


def fit_trees(program: TensorProgram) -> TensorProgram:
    """Rewrite native trees: scores have scalar leaves, and read the dtype that they sum in.

    Raises
    ------
    BackendError
        A tree is too deep for ONNX Runtime.
    """
    return rewrite_program(program, {"tree_scores": _fit_scores, "tree_leaves": _fit_leaves})


def _fit_scores(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    """Fit ``tree_scores``.

    1. Without splits, the scores are a constant.
    2. If leaves are vectors that have no bits, or sums are narrower than x, core operators add up
       the leaves reached.
    3. Otherwise x takes the dtype of the sums, which changes no decision.
    """
    _require_shallow(forest)
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.scores(_row(forest))[0]))  # 1
    x, forest = without_tables(b, x, forest)
    if not _sums_hold(forest, x.dtype) or _has_other_vectors(forest):  # 2
        return sum_leaves(forest, b.op("tree_leaves", x, forest=forest, strategy=strategy), b)
    x = b.cast(x, forest.accumulate)  # 3
    return b.op("tree_scores", x, forest=forest, strategy=strategy)


def _has_other_vectors(forest: Forest) -> bool:
    """Whether leaves are vectors, and no bits number them."""
    return forest.values.shape[1] > 1 and find_tree_bits(forest, forest.accumulate) is None


def _sums_hold(forest: Forest, dtype: str) -> bool:
    """Whether every number of a dtype is one of the dtype of the sums."""
    return np.promote_types(dtype, forest.accumulate) == forest.accumulate


def _fit_leaves(b: Builder, x: Value, forest: Forest, strategy: str) -> Value:
    """Fit ``tree_leaves``: without splits, the leaves are a constant."""
    _require_shallow(forest)
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.leaves(_row(forest))[0]))
    x, forest = without_tables(b, x, forest)
    return b.op("tree_leaves", x, forest=forest, strategy=strategy)


def _require_shallow(forest: Forest) -> None:
    if forest.depth > MAX_DEPTH:
        raise BackendError(
            f"A tree of depth {forest.depth:,} exceeds the {MAX_DEPTH:,} levels that ONNX Runtime "
            "reads safely. Use another backend, such as backend='torch'."
        )


def without_tables(b: Builder, x: Value, forest: Forest) -> tuple[Value, Forest]:
    """Decide categorical splits, as further columns of x."""
    if not forest.tables:
        return x, forest
    return b.concat([x, decide_tables(forest, x, b)]), with_tables_as_columns(forest)


CATEGORIES = (
    "Tests on categories are decided by core operators before TreeEnsemble: "
    "it has no set for NaN, nor for a value that is not a category."
)
VECTORS = "Leaf vectors are added up by core operators: a leaf of TreeEnsemble holds one number."
BITS = (
    "Trees that are symmetric or have few leaves are added by core operators in calls of several "
    "rows: TreeEnsemble follows each row down each tree."
)
LINEAR = "Linear leaves are computed by core operators: a leaf of TreeEnsemble is a constant."
SINGLE = "Trees of a single leaf have a test in TreeEnsemble, both sides of which are that leaf."


def tree_remarks(forest: Forest) -> tuple[str, ...]:
    """List the parts of a forest that the operator cannot hold, and what replaces them."""
    remarks = {
        CATEGORIES: forest.tables,
        VECTORS: _has_other_vectors(forest),
        LINEAR: forest.slopes,
        BITS: find_tree_bits(forest, forest.accumulate) is not None,
        SINGLE: forest.n_tests and (forest.roots.data < 0).any(),
    }
    return tuple(remark for remark, holds in remarks.items() if holds)


def _row(forest: Forest) -> _Array:
    """Return a row of zeros: without splits, any row will do."""
    return np.zeros((1, forest.n_features), np.float32)


def tree_scores(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Write the sums of leaves; those of vectors have bits."""
    bits = find_tree_bits(forest, x.dtype)
    if bits is not None and forest.values.shape[1] > 1:
        return _add_in_blocks(w, x, forest, bits).name
    # Sums of the operator begin at zero, so starts of zero need no tree.
    started = np.flatnonzero(forest.start.data)
    values = np.concatenate([forest.start.data[started], forest.values.data[:, 0]])
    targets = np.concatenate(
        [started, np.repeat(forest.target.data, np.diff(forest.first_leaf.data))]
    )
    if bits is None:
        return _tree_ensemble(w, x, forest, values, targets, forest.n_outputs)
    few, many = w.inner(), w.inner()
    are_few = w.node("Less", w.rows(x.name), w.constant([bits.least_rows], "int64"))
    of_few = _tree_ensemble(few, x, forest, values, targets, forest.n_outputs)
    of_many = _add_in_blocks(many, x, forest, bits)
    (scores,) = w.choice(are_few, (few, [replace(of_many, name=of_few)]), (many, [of_many]))
    return scores.name


def _add_in_blocks(w: GraphWriter, x: Tensor, forest: Forest, bits: TreeBits) -> Tensor:
    """Add leaves of blocks of rows: a row takes 27 KB of leaves for 1,000 trees."""
    kind = TensorType(x.dtype, (forest.n_outputs,))

    def add(inner: GraphWriter, blocks: Sequence[Tensor]) -> list[Tensor]:
        return [Tensor(add_leaves_of_bits(inner, blocks[0], forest, bits), kind)]

    (scores,) = emit_in_blocks(w, [x], BLOCK_ROWS, add)
    return scores


def tree_leaves(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Write the leaf numbers: each tree has its own target, and a leaf holds its place in the tree.

    The first leaf of each tree is then added.
    """
    sizes = np.diff(forest.first_leaf.data)
    places = np.arange(forest.n_leaves) - np.repeat(forest.first_leaf.data[:-1], sizes)
    targets = np.repeat(np.arange(forest.n_trees), sizes)
    reached = _tree_ensemble(w, x, forest, places, targets, forest.n_trees)
    return w.node("Add", w.cast(reached, "int32"), w.constant(forest.first_leaf.data[:-1], "int32"))


def _tree_ensemble(
    w: GraphWriter, x: Tensor, forest: Forest, values: _Array, targets: _Array, n_targets: int
) -> str:
    """Write the forest with the given leaf values and targets.

    1. Values beyond the number of leaves are start values: trees of one leaf, in front.
    2. The operator has no tree of a single leaf. It gets a split with the leaf on one side and a
       copy on the other: ONNX Runtime 1.28 misreads a leaf that two branches share.
    """
    from onnx import numpy_helper

    n_starts = len(values) - forest.n_leaves  # 1
    roots = np.concatenate([~np.arange(n_starts), _shift_leaves(forest.roots.data, n_starts)])
    single = np.flatnonzero(roots < 0)  # 2
    leaves = ~roots[single]
    zeros = np.zeros(len(single))
    copies = ~(len(values) + np.arange(len(single)))
    roots[single] = forest.n_tests + np.arange(len(single))
    left = np.concatenate([_shift_leaves(forest.left.data, n_starts), ~leaves])
    right = np.concatenate([_shift_leaves(forest.right.data, n_starts), copies])
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
    thresholds = np.concatenate([forest.less_equal_thresholds(x.dtype), zeros])
    tensors = {
        "nodes_splits": thresholds.astype(x.dtype),
        # Mode 0 is x <= split.
        "nodes_modes": np.zeros(len(left), np.uint8),
        "leaf_weights": np.concatenate([values, values[leaves]]).astype(x.dtype),
    }
    attributes = {name: array.astype(np.int64).tolist() for name, array in lists.items()}
    attributes |= {name: numpy_helper.from_array(array, name) for name, array in tensors.items()}
    return w.ml_node(
        "TreeEnsemble", x.name, n_targets=n_targets, aggregate_function=SUM, **attributes
    )


def _shift_leaves(children: _Array, n_leaves: int) -> _Array:
    """Renumber the leaves (negative) to follow ``n_leaves`` others."""
    return np.where(children < 0, children - n_leaves, children)


NODE_BYTES = 80
"""Bytes of a split and of a leaf: a tree has one leaf more than it has splits."""
MISSING_VISITS = 1.2
"""Visits that a split costs where any split sends NaN to its left: each asks for NaN.

Measured on four forests: 1.02 to 1.12 on rows without NaN, 1.06 to 1.23 where 5 % are NaN.
"""


def count_tree_work(forest: Forest, dtype: str, *, added: bool = True) -> Work:
    """Count the splits that a row visits, and the operators that decide its category sets.

    A row turns to either side alike, so it visits a split of depth d in one case of ``2 ** d``.
    Bits number the leaves of sums alone: where leaves are wanted, the operator walks all trees.
    """
    visits = float(np.exp2(-forest.depth_of_tests.astype(np.float64)).sum())
    has_bits = added and _sums_hold(forest, dtype)
    bits = find_tree_bits(forest, forest.accumulate) if has_bits else None
    if bits is not None:
        visits *= bits.cost
    elif np.any(forest.default_left.data & ~forest.on_category):
        visits *= MISSING_VISITS
    trees = Work(
        operators=1,
        visits=visits,
        # ONNX Runtime has a loop of its own for one output, where sums cost nothing on top of the
        # visits. Each leaf wanted is a sum of its own.
        sums=forest.n_trees if forest.n_outputs > 1 or not added else 0,
        tables=NODE_BYTES * forest.n_tests,
    )
    return total_work([trees, *_table_works(forest, dtype)])


def _table_works(forest: Forest, dtype: str) -> list[Work]:
    """Count every operator that is written where tests are on categories."""
    if not forest.tables:
        return []
    b = Builder()
    x, _ = without_tables(b, b.input("x", dtype, forest.n_features), forest)
    program = b.program({"x": x})
    operators = (i for i in program.instructions if isinstance(i, Op))
    return [count_work(program, op) for op in operators if op.kind is not OpKind.VIEW]
