"""Trees as the operator ``ai.onnx.ml.TreeEnsemble``, exactly, and the work that it takes.

A symmetric tree asks one split on each level, so its answers are the bits of the leaf's place. Sums
of many such trees are core operators: a split is one comparison of vectors, and a level one sum of
bytes. Splits that trees share are decided once.

The operator computes thresholds, leaf values and sums in the dtype of its input. In one thread,
ONNX Runtime adds the trees in their order, starting from zero. So a start value is a first tree of
one leaf. A leaf adds one number to one target. Categorical splits are decided by look-ups before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.cost_model import Work, count_work, total_work
from hbconv.errors import BackendError
from hbconv.tensor import Builder, Op, OpKind, TensorType
from hbconv.tensor.decompositions import rewrite_program
from hbconv.trees.forest import Forest
from hbconv.trees.leaves import sum_leaves
from hbconv.trees.splits import decide_tables, with_tables_as_columns
from hbconv.trees.symmetric_forest import find_level_splits, find_levels

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor
    from hbconv.tensor import Builder, TensorProgram, Value
    from hbconv.trees.forest import Forest

__all__ = [
    "LEAST_ROWS",
    "adds_symmetric_trees",
    "count_tree_work",
    "fit_trees",
    "tree_leaves",
    "tree_remarks",
    "tree_scores",
]

MAX_SYMMETRIC_DEPTH = 8
"""Levels whose answers are a byte."""

LEAST_TREES = 16
"""Trees from which on sums of bytes beat TreeEnsemble."""

LEAST_ROWS = 4
"""Rows from which on they beat it: 1,000 trees of depth 6 take 368 us for one row and 876 for ten,
by TreeEnsemble 236 and 1,417."""

_Array = npt.NDArray[Any]


def adds_symmetric_trees(forest: Forest, dtype: str) -> bool:
    """Whether all trees are symmetric and not deep, and add to one sum of the dtype of the rows."""
    if forest.tables or forest.slopes or dtype != forest.accumulate:
        return False
    is_sum = forest.n_outputs == forest.values.shape[1] == 1
    if not is_sum or forest.n_trees < LEAST_TREES or not 0 < forest.depth <= MAX_SYMMETRIC_DEPTH:
        return False
    # A split that no number passes has no comparison that is its opposite.
    if np.isnan(forest.less_equal_thresholds(dtype)).any() or (forest.roots.data < 0).any():
        return False
    return find_level_splits(forest) is not None


def add_symmetric_trees(w: GraphWriter, x: Tensor, forest: Forest) -> str:
    """Write the sum of each row.

    1. Decide each split once, for all rows: (splits, rows), 1 where a row goes right.
    2. Number the leaves: twice the place so far, and the answer of the next level.
    3. Look up the leaves, of which the first tree's hold the start value, and add tree by tree.
    """
    levels, splits = _levels(forest)
    answers = _answers(w, x, forest, splits)  # 1
    place = w.node("Gather", answers, w.constant(levels[0], "int64"), axis=0)  # 2
    for level in levels[1:]:
        answer = w.node("Gather", answers, w.constant(level, "int64"), axis=0)
        place = w.node("Add", w.node("Add", place, place), answer)
    tables = _tables(forest)  # 3
    first = np.arange(forest.n_trees, dtype=np.int32)[:, None] * tables.shape[1]
    index = w.node("Add", w.cast(place, "int32"), w.constant(first, "int32"))
    leaves = w.node("Gather", w.constant(tables.ravel()), index, axis=0)
    sums = w.node("CumSum", leaves, w.constant(0, "int64"))
    last = w.node("Gather", sums, w.constant([forest.n_trees - 1], "int64"), axis=0)
    return w.node("Transpose", last, perm=[1, 0])


def _levels(forest: Forest) -> tuple[_Array, _Array]:
    """Return for each level the distinct split of each tree, and a test of each distinct split.

    Trees that are less deep ask their first split again.
    """
    tests = find_levels(forest)
    assert tests is not None  # noqa: S101
    first = tests[tests >= 0]
    tests = np.where(tests < 0, tests[0], tests)
    kinds = np.rec.fromarrays(
        [forest.feature.data, forest.default_left.data, forest.threshold.data]
    )
    order = np.argsort(kinds[first], order=("f0", "f1", "f2"), kind="stable")
    ordered = kinds[first][order]
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    number = np.zeros(forest.n_tests, np.int64)
    number[first[order]] = np.cumsum(fresh) - 1
    return number[tests], first[order][fresh]


def _answers(w: GraphWriter, x: Tensor, forest: Forest, splits: _Array) -> str:
    """Write a byte for each split and row: features, and in each the splits NaN goes left at."""
    by_feature = w.node("Transpose", x.name, perm=[1, 0])
    thresholds = forest.less_equal_thresholds(x.dtype)
    keys = np.stack([forest.feature.data[splits], forest.default_left.data[splits]], axis=1)
    parts = []
    for feature, left in np.unique(keys, axis=0):
        chosen = splits[(keys == [feature, left]).all(axis=1)]
        column = w.node("Gather", by_feature, w.constant([feature], "int64"), axis=0)
        edges = w.constant(thresholds[chosen][:, None], x.dtype)
        right = w.node("Greater", column, edges)
        if not left:
            right = w.node("Not", w.node("LessOrEqual", column, edges))
        parts.append(w.cast(right, "uint8"))
    return parts[0] if len(parts) == 1 else w.node("Concat", *parts, axis=0)


def _tables(forest: Forest) -> _Array:
    """Lay out the leaves of each tree by the answers: (trees, 2 ** depth)."""
    sizes = np.diff(forest.first_leaf.data)
    places = np.arange(2**forest.depth) // (2**forest.depth // sizes[:, None])
    tables: _Array = forest.values.data[:, 0][forest.first_leaf.data[:-1, None] + places]
    tables[0] += forest.start.data
    return tables


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
    2. If leaves are vectors, or sums are narrower than x, core operators add up the leaves reached.
    3. Otherwise x takes the dtype of the sums, which changes no decision.
    """
    _require_shallow(forest)
    if forest.n_tests == 0:
        return b.op("expand", x, b.constant(forest.scores(_row(forest))[0]))  # 1
    x, forest = without_tables(b, x, forest)
    if forest.values.shape[1] > 1 or not _sums_hold(forest, x.dtype):  # 2
        return sum_leaves(forest, b.op("tree_leaves", x, forest=forest, strategy=strategy), b)
    x = b.cast(x, forest.accumulate)  # 3
    return b.op("tree_scores", x, forest=forest, strategy=strategy)


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
SYMMETRIC = (
    "Symmetric trees are added by core operators in calls of several rows: "
    "TreeEnsemble follows each row down each tree."
)
LINEAR = "Linear leaves are computed by core operators: a leaf of TreeEnsemble is a constant."
SINGLE = "Trees of a single leaf have a test in TreeEnsemble, both sides of which are that leaf."


def tree_remarks(forest: Forest) -> tuple[str, ...]:
    """List the parts of a forest that the operator cannot hold, and what replaces them."""
    remarks = {
        CATEGORIES: forest.tables,
        VECTORS: forest.values.shape[1] > 1,
        LINEAR: forest.slopes,
        SYMMETRIC: adds_symmetric_trees(forest, forest.accumulate),
        SINGLE: forest.n_tests and (forest.roots.data < 0).any(),
    }
    return tuple(remark for remark, holds in remarks.items() if holds)


def _row(forest: Forest) -> _Array:
    """Return a row of zeros: without splits, any row will do."""
    return np.zeros((1, forest.n_features), np.float32)


def tree_scores(w: GraphWriter, x: Tensor, forest: Forest, strategy: str) -> str:  # noqa: ARG001
    """Write the sums of scalar leaves."""
    # Sums of the operator begin at zero, so starts of zero need no tree.
    started = np.flatnonzero(forest.start.data)
    values = np.concatenate([forest.start.data[started], forest.values.data[:, 0]])
    targets = np.concatenate(
        [started, np.repeat(forest.target.data, np.diff(forest.first_leaf.data))]
    )
    if not adds_symmetric_trees(forest, x.dtype):
        return _tree_ensemble(w, x, forest, values, targets, forest.n_outputs)
    few, many = w.inner(), w.inner()
    are_few = w.node("Less", w.rows(x.name), w.constant([LEAST_ROWS], "int64"))
    of_few = _tree_ensemble(few, x, forest, values, targets, forest.n_outputs)
    of_many = add_symmetric_trees(many, x, forest)
    return w.choice(are_few, (few, of_few), (many, of_many), TensorType(x.dtype, (1,)))


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


SYMMETRIC_VISITS = 0.35
"""Visits that the answer to a level of a symmetric tree costs.

Measured on CatBoost, 1,000 trees of depth 6: 15 to 17 us a row for 256 to 3,000 rows, by
TreeEnsemble 45 to 53 us.
"""


def count_tree_work(forest: Forest, dtype: str) -> Work:
    """Count the splits that a row visits, and the operators that decide its category sets.

    A row turns to either side alike, so it visits a split of depth d in one case of ``2 ** d``.
    """
    visits = float(np.exp2(-forest.depth_of_tests.astype(np.float64)).sum())
    if _sums_hold(forest, dtype) and adds_symmetric_trees(forest, forest.accumulate):
        visits *= SYMMETRIC_VISITS
    elif np.any(forest.default_left.data & ~forest.on_category):
        visits *= MISSING_VISITS
    trees = Work(
        operators=1,
        visits=visits,
        # ONNX Runtime has a loop of its own for one output, where sums cost nothing on top of the
        # visits.
        sums=forest.n_trees if forest.n_outputs > 1 else 0,
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
