"""Write forests as CASE: each test a WHEN, and the side of more leaves in ELSE.

So a tree of n leaves nests log2(n) deep at most, whatever its shape. A test is turned round where
its left side is the larger. That needs columns without missing values, so each column that trees
test is stored twice where it must be: with NaN below all numbers, for tests that send it to the
left, and with NaN above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.sql.dialects.base import shortest_float32
from hbconv.backends.sql.shapes import fold
from hbconv.backends.sql.writer import (
    FINITE,
    MOST_BYTES,
    NUMBER,
    Cell,
    Cells,
    SelectWriter,
    fill,
    too_long,
)
from hbconv.errors import BackendError
from hbconv.trees.forest import CategoryTables, Forest
from hbconv.trees.symmetric_forest import find_level_splits

if TYPE_CHECKING:
    from hbconv.backends.sql.elementwise import Emit
    from hbconv.backends.sql.writer import Operation

__all__ = ["TREES", "double_bounds"]

LEAF_BYTES = 20
"""Bytes of the shortest leaf and its test: `` WHEN v0<=1.0 THEN 0``."""
TREES_PER_STAGE = 10
"""Trees that a stage adds to the running sum: DuckDB plans 500 trees of 8 leaves in 0.3 seconds,
and in 7 where one expression holds them all."""

Leaf = Callable[[int], str]


def double_bounds(thresholds: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return, for float32 thresholds t, the largest float64 b that rounds to t or below.

    So ``float32(x) <= t`` is ``x <= b``, and no row is rounded. NaN stays NaN.

    Halfway to the next float32, a number rounds to whichever of the two is even; from halfway to
    2**128 on, numbers round to infinity.

    Examples
    --------
    >>> bounds = double_bounds(np.array([0.1, 1.0], np.float32))
    >>> np.float32(bounds) <= np.float32([0.1, 1.0]), np.float32(np.nextafter(bounds, 9))
    (array([ True,  True]), array([0.10000001, 1.0000001 ], dtype=float32))
    """
    with np.errstate(over="ignore"):
        above = np.nextafter(thresholds, np.float32(np.inf))
        ends = [np.clip(side.astype(float), -(2.0**128), 2.0**128) for side in (thresholds, above)]
        middle = (ends[0] + ends[1]) / 2
        reaches = middle.astype(np.float32) <= thresholds
    bounds = np.where(reaches, middle, np.nextafter(middle, -np.inf))
    return np.where(thresholds == np.inf, np.inf, bounds)


@dataclass(frozen=True)
class ForestText:
    """A forest whose tests are texts.

    Parameters
    ----------
    forest : Forest
    reads : tuple of Cell
        The columns that its tests read.
    left, right : list of str
        When each test sends a row to its left, and to its right.
    sizes : ndarray of int64
        Leaves below each test. Those of a leaf, whose number is negative, come last and are 1.
    levels : ndarray of int64 or None
        The first test of each level of each tree, if all trees are symmetric.
    """

    forest: Forest
    reads: tuple[Cell, ...]
    left: list[str]
    right: list[str]
    sizes: npt.NDArray[np.int64]
    levels: npt.NDArray[np.int64] | None

    @staticmethod
    def of(w: SelectWriter, forest: Forest, x: Cells, dtype: str) -> ForestText:
        """Store the columns, and write the tests, unless they are too many for any query."""
        if forest.n_leaves * LEAF_BYTES > MOST_BYTES:
            raise too_long()
        thresholds = forest.less_equal_thresholds(dtype)
        bounds = double_bounds(thresholds) if dtype == "float32" else thresholds
        columns = {int(f): _Column.of(w, x[f], dtype) for f in np.unique(forest.feature.data)}
        reads: dict[str, Cell] = {}
        tests = []
        for test, feature in enumerate(forest.feature.data.tolist()):
            column = columns[feature]
            cell = column.side(w, to_left=bool(forest.default_left.data[test]))
            if forest.tables and forest.on_category[test]:
                cell = column.side(w, to_left=False)
                table = int(forest.tables.of_test.data[test])
                goes_left = _in_table(cell.text, forest.tables, table)
                tests.append((goes_left, f"NOT ({goes_left})"))
            else:
                bound = float((bounds if column.is_double else thresholds)[test])
                tests.append(column.compare(w, cell, bound, bool(forest.default_left.data[test])))
            reads |= {cell.text: cell, column.plain.text: column.plain}
        left, right = ([pair[side] for pair in tests] for side in (0, 1))
        sizes, levels = _count_leaves(forest), find_level_splits(forest)
        return ForestText(forest, tuple(reads.values()), left, right, sizes, levels)

    def tree(self, w: SelectWriter, tree: int, leaf: Leaf) -> str:
        """Write a tree: a symmetric one as an entry of a list, where that is faster."""
        root = int(self.forest.roots.data[tree])
        if self.levels is None or not w.dialect.reads_arrays_fast or root < 0:
            return self.spines(root, leaf)
        levels = self.levels[self.forest.tree_of_tests[self.levels] == tree]
        goes_left = [self.left[test] for test in levels]
        bits = [f"CASE WHEN {t} THEN 0 ELSE {1 << i} END" for i, t in enumerate(goes_left[::-1])]
        entries = [leaf(number) for number in range(*self.forest.first_leaf.data[tree : tree + 2])]
        return f"[{','.join(entries)}][1+{'+'.join(bits[::-1])}]"

    def spines(self, root: int, leaf: Leaf) -> str:
        """Write a tree as one CASE in another, of leaves that are texts."""
        out = []
        waiting: list[str | int] = [root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                out.append(node)
            elif node < 0:
                out.append(leaf(~node))
            else:
                out.append("CASE")
                waiting += reversed([*self._spine(node)])
        return "".join(out)

    def _spine(self, node: int) -> Iterator[str | int]:
        """Yield the tests on the way along the larger sides, each with its smaller side."""
        left, right = self.forest.left.data, self.forest.right.data
        while node >= 0:
            sides = int(left[node]), int(right[node])
            smaller = 0 if self.sizes[sides[0]] <= self.sizes[sides[1]] else 1
            yield f" WHEN {(self.left, self.right)[smaller][node]} THEN "
            yield sides[smaller]
            node = sides[1 - smaller]
        yield " ELSE "
        yield node
        yield " END"


def _count_leaves(forest: Forest) -> npt.NDArray[np.int64]:
    counts = np.ones(forest.n_tests + forest.n_leaves, np.int64)
    for level in range(forest.depth - 1, -1, -1):
        tests = np.flatnonzero(forest.depth_of_tests == level)
        counts[tests] = counts[forest.left.data[tests]] + counts[forest.right.data[tests]]
    return counts


@dataclass(frozen=True)
class _Column:
    """A column that trees test.

    ``is_double`` tells that it is a float64 where the trees test it as float32.
    """

    plain: Cell
    dtype: str
    is_double: bool

    @staticmethod
    def of(w: SelectWriter, x: Cell, dtype: str) -> _Column:
        if dtype == "float32" and x.double is not None:
            return _Column(w.store(x.double), "float64", is_double=True)
        return _Column(w.store(x), dtype, is_double=False)

    def side(self, w: SelectWriter, *, to_left: bool) -> Cell:
        """Return the column with NaN below all numbers, or above them."""
        x = self.plain
        if x.known or (w.dialect.has_nan and not to_left):
            return x
        end = w.dialect.literal(-np.inf if to_left else np.inf, self.dtype)
        text = f"CASE WHEN {w.dialect.apply('isnan', x.text)} THEN {end} ELSE {x.text} END"
        return w.store(w.cell(text, x, known=NUMBER))

    def compare(self, w: SelectWriter, side: Cell, bound: float, to_left: bool) -> tuple[str, str]:
        """Return when ``x <= bound``, or NaN that goes left, and when not."""
        x = self.plain
        nan = w.dialect.apply("isnan", x.text)
        if np.isnan(bound):  # No number is at most NaN.
            return (nan, f"NOT {nan}") if to_left and not x.known else ("FALSE", "TRUE")
        if bound == np.inf and not to_left and not x.known:
            return f"NOT {nan}", nan
        text = w.dialect.bare(bound, "float64")
        return f"{side.text}<={text}", f"{side.text}>{text}"


def _in_table(code: str, tables: CategoryTables, table: int) -> str:
    """Test a category: the last entry of its table is for all codes beyond."""
    start, end = tables.start.data[table : table + 2].tolist()
    *goes, beyond = tables.goes_left.data[start:end].tolist()
    listed = ",".join(str(i) for i, left in enumerate(goes) if left)
    tests = [f"{code} IN ({listed})"] if listed else []
    tests += [f"{code}>={len(goes)}"] if beyond else []
    return " OR ".join(tests) or f"{code}<0"


def tree_scores(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    """Write the sums of the ensemble, tree after tree from the start value."""
    forest: Forest = op.attributes["forest"]
    texts = ForestText.of(w, forest, x, op.sources[0])
    if forest.values.shape[1] > 1:
        return fill(_sum_vectors(w, texts), op.shape)
    leaf, reads = _leaf_writer(w, forest, x, op.sources[0])
    sums = []
    for output, start in enumerate(forest.start.data.tolist()):
        trees = np.flatnonzero(forest.target.data == output).tolist()
        written = [w.cell(texts.tree(w, tree, leaf), *texts.reads, *reads) for tree in trees]
        if _is_narrow(w, forest):
            # One conversion of the whole is shorter than one of each leaf.
            written = [w.cell(w.dialect.cast(c.text, "float32"), c) for c in written]
        terms = [w.constant(start, forest.accumulate), *written]
        sums.append(fold(w, "+", terms, forest.accumulate, TREES_PER_STAGE))
    return fill(sums, op.shape)


def _sum_vectors(w: SelectWriter, texts: ForestText) -> list[Cell]:
    """Write sums of leaves that are vectors: each tree once, which gives the number of an entry.

    Trees of 64 leaves and 2 outputs take 37 % less text than a tree an output, and half of
    DuckDB's time.
    """
    forest = texts.forest
    sums = [w.constant(start, forest.accumulate) for start in forest.start.data.tolist()]
    for first in range(0, forest.n_trees, TREES_PER_STAGE):
        sums = [w.store(total) for total in sums]
        # Columns of numbers stand beside the sum that they are added to, so no stage is wide.
        stage = max(total.stage for total in sums)
        trees = range(first, min(first + TREES_PER_STAGE, forest.n_trees))
        leaves = [_read_leaf(w, texts, tree, stage) for tree in trees]
        terms = zip(sums, *leaves, strict=True)
        sums = [fold(w, "+", [*line], forest.accumulate) for line in terms]
    return sums


def _read_leaf(w: SelectWriter, texts: ForestText, tree: int, stage: int) -> list[Cell]:
    """Write what a tree adds to each output, by a number that a stage has: leaves often agree."""
    forest = texts.forest
    first, end = forest.first_leaf.data[tree : tree + 2].tolist()
    rows = np.ascontiguousarray(forest.values.data[first:end])
    bits = rows.view(np.dtype((np.void, rows.strides[0]))).ravel()
    _, kept, numbers = np.unique(bits, return_index=True, return_inverse=True)
    text = texts.tree(w, tree, lambda leaf: str(numbers[leaf - first]))
    cell = w.cell(text, *texts.reads, known=FINITE)
    number = w.store(replace(cell, stage=max(stage, cell.stage)))
    columns = rows[kept].T.tolist()
    picked = [w.dialect.pick(number.text, column, forest.accumulate) for column in columns]
    return [w.cell(text, number) for text in picked]


def _is_narrow(w: SelectWriter, forest: Forest) -> bool:
    return forest.accumulate == "float32" and w.dialect.has_float32


def _leaf_writer(w: SelectWriter, forest: Forest, x: Cells, dtype: str) -> tuple[Leaf, list[Cell]]:
    """Return what writes the value of a leaf, and the cells that linear leaves read."""
    values = forest.values.data[:, 0].tolist()

    def constant(leaf: int) -> str:
        if _is_narrow(w, forest):
            return w.dialect.float64(shortest_float32(values[leaf]))
        return w.dialect.literal(values[leaf], forest.accumulate)

    slopes = forest.slopes
    if slopes is None:
        return constant, []
    if dtype != forest.accumulate:
        raise BackendError(
            f"SQL has no linear leaves in {forest.accumulate} over rows of {dtype}. Score with "
            "hbconv.engines."
        )
    cells = {int(f): w.store(x[f]) for f in np.unique(slopes.feature.data)}

    def linear(leaf: int) -> str:
        start, end = slopes.start.data[leaf : leaf + 2].tolist()
        total = w.dialect.literal(slopes.constant.data[leaf].item(), forest.accumulate)
        features = slopes.feature.data[start:end].tolist()
        factors = slopes.coefficient.data[start:end].tolist()
        for feature, factor in zip(features, factors, strict=True):
            total += f"+{w.dialect.scale(cells[feature].text, '*', factor, forest.accumulate)}"
        unsure = dict.fromkeys(f for f in features if not cells[f].known)
        nan = " OR ".join(w.dialect.apply("isnan", cells[f].text) for f in unsure)
        return f"CASE WHEN {nan} THEN {constant(leaf)} ELSE {total} END" if nan else f"({total})"

    return linear, list(cells.values())


def tree_leaves(w: SelectWriter, op: Operation, x: Cells) -> Cells:
    """Write the number of the leaf that each tree reaches."""
    forest: Forest = op.attributes["forest"]
    texts = ForestText.of(w, forest, x, op.sources[0])
    roots = forest.roots.data.tolist()
    found = [w.cell(texts.spines(root, str), *texts.reads, known=FINITE) for root in roots]
    return fill(found, op.shape)


TREES: dict[str, Emit] = {"tree_scores": tree_scores, "tree_leaves": tree_leaves}
"""The emitters of forests."""
