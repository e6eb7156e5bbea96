"""Columns as functions of earlier columns: their lineage, their trend, and their values.

``keys_of`` numbers the values of a dtype in their order, so that one can bisect between them.
``DistinctTests`` are the tests of a forest, each as a predicate on the value of its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Bins,
    Codes,
    Columns,
    EditedVocabulary,
    FindCode,
    HashCodes,
    Hashes,
    Node,
    Recode,
    Schema,
    Trend,
)
from hbconv.containers.vocabulary import DateCodes
from hbconv.tensor import Builder, TensorProgram
from hbconv.tensor.program import evaluate
from hbconv.trees.forest import Forest

__all__ = [
    "DistinctTests",
    "Evaluator",
    "Function",
    "Keys",
    "Lineage",
    "Ref",
    "codes_of",
    "describe",
    "dtype_of",
    "find_distinct_tests",
    "guess_origin",
    "keys_of",
    "values_of",
]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DistinctTests:
    """Tests that differ, in the form ``value <= threshold``, by their columns.

    Parameters
    ----------
    forest : Forest
    column : int array, shape (n,)
    threshold : float64 array, shape (n,)
        NaN where no number goes left.
    default_left : bool array, shape (n,)
    table : int array, shape (n,)
        Table of a test on categories, else -1.
    of_test : int array, shape (n_tests,)
        Which of them each test of the forest is.
    """

    forest: Forest
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    default_left: Bools
    table: npt.NDArray[np.int32]
    of_test: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.column)

    def of_column(self, column: int) -> Ints:
        """Return the tests on a column."""
        first, last = np.searchsorted(self.column, [column, column + 1])
        return np.arange(first, last)

    def decide(self, tests: Ints, values: npt.NDArray[np.float64]) -> Bools:
        """Whether values go left, each at its own test; the two broadcast."""
        goes_left: Bools = np.where(
            np.isnan(values), self.default_left[tests], values <= self.threshold[tests]
        )
        listed = np.broadcast_to(self.table[tests] >= 0, goes_left.shape)
        if self.forest.tables is None or not listed.any():
            return goes_left
        table = np.broadcast_to(self.table[tests], goes_left.shape)[listed]
        code = np.broadcast_to(values, goes_left.shape)[listed]
        goes_left[listed] = self.forest.tables.decide(table, code)
        return goes_left


def find_distinct_tests(forest: Forest, dtype: str) -> DistinctTests:
    """Find the tests that differ by column, threshold, default or table, for columns of a dtype.

    1. Write what a test compares as one number: a threshold, or the place of a table.
    2. Sort by all else, which ints of 16 bits hold mostly: those are sorted by counting.
    3. Sort the numbers within each of these groups.
    """
    listed = forest.on_category
    default_left = forest.default_left.data & ~listed
    table = forest.tables.of_test.data if forest.tables else np.full(forest.n_tests, -1, np.int32)
    # Adding 0.0 makes 0.0 of -0.0, whose bits differ.
    threshold = forest.less_equal_thresholds(dtype).astype(np.float64) + 0.0
    number = np.where(listed, table, threshold)  # 1
    group = forest.feature.data.astype(np.min_scalar_type(4 * forest.n_features))
    group = (group * 2 + listed) * 2 + default_left
    order = np.argsort(group, kind="stable")  # 2
    ends = np.flatnonzero(np.diff(group[order])) + 1
    parts = np.split(order, ends)
    order = np.concatenate([part[np.argsort(number[part])] for part in parts])  # 3
    bits = number[order].view(np.int64)
    fresh = np.ones(len(order), bool)
    fresh[1:] = bits[1:] != bits[:-1]
    fresh[ends] = True
    of_test = np.empty(len(order), np.int32)
    of_test[order] = np.cumsum(fresh) - 1
    first = order[fresh]
    return DistinctTests(
        forest,
        forest.feature.data[first],
        threshold[first],
        default_left[first],
        table[first],
        of_test,
    )


Keys = npt.NDArray[np.int64]


def keys_of(values: npt.ArrayLike, dtype: str) -> Keys:
    """Return the place of each value among those of its dtype, from 0 for 0.0 and -1 for -0.0.

    An int is its own key. NaN has a key above that of infinity.

    Examples
    --------
    >>> keys_of([-0.0, 0.0, 5e-324], "float64")
    array([-1,  0,  1])
    """
    array = np.asarray(values, dtype)
    if array.dtype.kind != "f":
        return array.astype(np.int64)
    # Floats of one sign are ordered as their bits are; negative ones run the other way.
    bits = array.view(f"i{array.dtype.itemsize}").astype(np.int64)
    magnitude = bits & np.iinfo(f"i{array.dtype.itemsize}").max
    return np.where(bits < 0, -1 - magnitude, magnitude)


def values_of(keys: Keys, dtype: str) -> npt.NDArray[Any]:
    """Return the values of some keys.

    Examples
    --------
    >>> values_of(keys_of([-1.5, np.inf, np.nan], "float32"), "float32")
    array([-1.5,  inf,  nan], dtype=float32)
    """
    kind = np.dtype(dtype)
    if kind.kind != "f":
        return keys.astype(kind)
    whole = f"i{kind.itemsize}"
    # The sign bit is the least int of that width.
    negative = (-1 - keys) + np.int64(np.iinfo(whole).min)
    return np.where(keys < 0, negative, keys).astype(whole).view(kind)


Ints = npt.NDArray[np.int64]
_Array = npt.NDArray[Any]


class Evaluator:
    """Functions of one column each, in the arithmetic of the source, else of the reference.

    Nodes are evaluated one after another: by the source's own function where there is one, else as
    a program. A row holds a value for every cut, so all functions are evaluated at once.

    Parameters
    ----------
    lineage : Lineage
    columns : sequence of Ref
        The columns to compute.
    cuts : sequence of Ref
        For each of them, the column that it is a function of. No cut is computed from another.
    """

    def __init__(self, lineage: Lineage, columns: Sequence[Ref], cuts: Sequence[Ref]) -> None:
        self._lineage = lineage
        self._needed = _by_node(lineage.closure(columns, cuts))
        self._cut_columns = _by_node(cuts)
        self._roots = list(dict.fromkeys(node for node, _ in columns))
        places = {cut: i for i, cut in enumerate(dict.fromkeys(cuts))}
        # All functions of one cut share its rows, so a node is evaluated once for all columns.
        self._cuts = tuple(places)
        self._cut_of = np.array([places[cut] for cut in cuts], np.int64)
        self._column = np.array([column for _, column in columns], np.int64)
        self._root = np.array([self._roots.index(node) for node, _ in columns], np.int64)
        self._order = self._order_nodes()
        self._programs: dict[Node, TensorProgram] = {}

    def _order_nodes(self) -> list[Node]:
        """Return the nodes to compute or to give, inputs first."""
        order: dict[Node, None] = {}
        stack = [(root, False) for root in self._roots]
        while stack:
            node, ready = stack.pop()
            if ready:
                order[node] = None
            elif node not in order:
                inputs = () if self._is_cut(node) else self._lineage.inputs(node)
                stack.append((node, True))
                stack += [(n, False) for n in inputs]
        return list(order)

    def _is_cut(self, node: Node) -> bool:
        """Whether all that is needed of the node is cut there; nothing may be needed."""
        return self._needed.get(node, set()) <= self._cut_columns.get(node, set())

    def at(self, which: Ints, keys: Keys) -> npt.NDArray[np.float64]:
        """Return the values of the columns ``which`` at the keys of their cuts, as float64.

        1. Lay the keys of each cut one below the other.
        2. Turn them into values of the cut's dtype.
        3. Evaluate the nodes, and pick each value from its row.
        """
        cut = self._cut_of[which]
        counts = np.bincount(cut, minlength=len(self._cuts))
        first = np.cumsum(counts) - counts
        order = np.argsort(cut, kind="stable")  # 1
        row = np.empty(len(cut), np.int64)
        row[order] = np.arange(len(cut)) - np.repeat(first, counts)
        n_rows = int(counts.max(initial=0))
        at_cuts = {node: _zeros(node, n_rows) for node in self._cut_columns}
        for (node, column), ours in zip(self._cuts, np.split(order, first[1:]), strict=True):
            at_cuts[node][: len(ours), column] = values_of(keys[ours], node.type.dtype)  # 2
        # Keys are any floats: a cast of 1e300 to float32 warned, where warnings are errors.
        with np.errstate(all="ignore"):
            computed = self._evaluate_nodes(at_cuts, n_rows)  # 3
        result = np.empty(len(which))
        for place, root in enumerate(self._roots):
            chosen = np.flatnonzero(self._root[which] == place)
            picked = computed[root][row[chosen], self._column[which[chosen]]]
            result[chosen] = picked.astype(np.float64)
        return result

    def _evaluate_nodes(self, at_cuts: dict[Node, _Array], n_rows: int) -> dict[Node, _Array]:
        """Evaluate all nodes; those that are cut in part compute the rest of their columns."""
        values: dict[Node, _Array] = {}
        for node in self._order:
            if self._is_cut(node):
                values[node] = at_cuts[node] if node in at_cuts else _zeros(node, n_rows)
                continue
            values[node] = self._compute(node, [values[n] for n in self._lineage.inputs(node)])
            if node in at_cuts:
                cut = sorted(self._cut_columns[node])
                values[node] = values[node].copy()
                values[node][:, cut] = at_cuts[node][:, cut]
        return values

    def _compute(self, node: Node, inputs: list[_Array]) -> _Array:
        if isinstance(node, Columns):
            return np.concatenate([x.astype(node.type.dtype) for x in inputs], axis=1)
        # Behind normal quantiles, numpy's bits sent up to
        # 86 of 1,700 rows near a switch to another leaf.
        function = node.source_function()
        if function is not None:
            return function(*inputs)
        # Keys are any ints, where a table of leaves or classes has entries for the codes alone.
        if isinstance(node, Recode):
            inputs = [np.clip(inputs[0], -1, [len(table) - 2 for table in node.tables])]
        if node not in self._programs:
            self._programs[node] = _program(node)
        named = {str(place): x for place, x in enumerate(inputs)}
        return evaluate(self._programs[node], named)["value"]


def _program(node: Node) -> TensorProgram:
    """Write a node as a program of its inputs."""
    b = Builder()
    types = [n.type for n in node.inputs]
    inputs = [b.input(str(i), kind.dtype, kind.width) for i, kind in enumerate(types)]
    return b.program({"value": node.lower(b, *inputs)})


def _zeros(node: Node, n_rows: int) -> _Array:
    return np.zeros((n_rows, node.type.width), node.type.dtype)


def _by_node(refs: set[Ref] | Sequence[Ref]) -> dict[Node, set[int]]:
    columns: dict[Node, set[int]] = {}
    for node, column in refs:
        columns.setdefault(node, set()).add(column)
    return columns


@dataclass(frozen=True)
class Function:
    """A column as a function of its cut.

    Parameters
    ----------
    is_monotone : bool
        Between its breaks, it never falls, or it never rises.
    is_exact : bool
        All backends compute the same bits.
    is_sources : bool
        Nodes whose bits differ between backends are evaluated by the source's own function.
    breaks : tuple of (Ref, float64 array)
        Columns on the way, and the values of them between which the trend holds.
    """

    is_monotone: bool
    is_exact: bool
    is_sources: bool
    breaks: tuple[tuple[Ref, npt.NDArray[np.float64]], ...]


def describe(lineage: Lineage, ref: Ref, cut: Ref) -> Function:
    """Follow the ways from the cut to a column, and put trends together.

    A column may rise, fall, do both, or be constant, where its cut rises.
    """
    moves: dict[Ref, tuple[bool, bool]] = {cut: (True, False)}
    breaks: list[tuple[Ref, npt.NDArray[np.float64]]] = []
    ways = list(lineage.between(ref, cut))
    for node, column in ways:
        parents = lineage.parents((node, column))
        before = [moves[parent] for parent in parents]
        moves[node, column] = _after(node.trend(column), before)
        points = node.breaks(column)
        breaks += [(parent, points) for parent in parents if len(points) and any(moves[parent])]
    inexact = {node for node, _ in ways if node.inexact}
    # Then the switch is the source's own, whatever backends round.
    is_sources = all(node.source_function() is not None for node in inexact)
    return Function(moves[ref] != (True, True), not inexact, is_sources, tuple(breaks))


def guess_origin(
    lineage: Lineage, ref: Ref, cut: Ref, values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Guess at which values of the cut a column passes some values."""
    with np.errstate(all="ignore"):
        for node, column in reversed(list(lineage.between(ref, cut))):
            values = node.origin(column, values)
    return values


def _after(trend: Trend, before: list[tuple[bool, bool]]) -> tuple[bool, bool]:
    """Whether a column may rise and may fall, of a trend and of the columns that it reads."""
    rises = any(up for up, _ in before)
    falls = any(down for _, down in before)
    if trend is Trend.RISES:
        return rises, falls
    if trend is Trend.FALLS:
        return falls, rises
    # What does not move before an unknown function does not move behind it.
    moves = trend is Trend.UNKNOWN and (rises or falls)
    return moves, moves


Ref = tuple[Node, int]
"""A column of a node."""


class Lineage:
    """What the columns of nodes are computed from, looked up once each.

    Columns of the input are computed from nodes of one column each, in its own dtype.

    Parameters
    ----------
    schema : Schema
        The input columns.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._raw: dict[int, Columns] = {}
        self._reads: dict[Node, tuple[npt.NDArray[np.int32], ...] | None] = {}
        self._chains: dict[Ref, tuple[Ref, ...]] = {}

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Return what the node is computed from; none for a column of the input alone."""
        if not isinstance(node, Columns):
            return node.inputs
        raw = tuple(self._of_schema(c) for c in node.columns)
        return () if raw == (node,) else raw

    def _of_schema(self, column: int) -> Columns:
        if column not in self._raw:
            self._raw[column] = Columns(self.schema, Array(np.array([column], np.int32)))
        return self._raw[column]

    def parents(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the columns that a column is computed from, each once; none if it is a source."""
        node, column = ref
        if isinstance(node, Columns):
            return tuple((raw, 0) for raw in self.inputs(node)[column : column + 1])
        if node not in self._reads:
            self._reads[node] = node.reads()
        pairs = zip(node.inputs, self._reads[node] or (), strict=False)
        return tuple(dict.fromkeys((n, int(r[column])) for n, r in pairs if r[column] >= 0))

    def chain(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the columns, nearest first, that the column is a function of, each one alone.

        It begins with the column itself. Where a column is taken twice, as by a choice, the chain
        goes on where the ways meet.
        """
        if ref not in self._chains:
            ways = [self.chain(parent) for parent in self.parents(ref)]
            # A constant does not depend on a cut, so it does not keep ways from meeting.
            ways = [way for way in ways if not self.is_constant(way[-1])]
            common = [r for r in ways[0] if all(r in way for way in ways[1:])] if ways else []
            self._chains[ref] = (ref, *common)
        return self._chains[ref]

    def is_constant(self, source: Ref) -> bool:
        """Whether a column without parents has one value."""
        return not self.parents(source) and bool(self._reads.get(source[0]))

    def between(self, ref: Ref, cut: Ref) -> Iterator[Ref]:
        """Yield the columns on the ways from the cut, which is left out, to a column, in order."""
        done = {cut}
        stack = [ref]
        while stack:
            left = [parent for parent in self.parents(stack[-1]) if parent not in done]
            if left:
                stack += left
                continue
            top = stack.pop()
            if top not in done:
                done.add(top)
                yield top

    def closure(self, refs: Iterable[Ref], cuts: Iterable[Ref]) -> set[Ref]:
        """Return all columns needed to compute some from the cuts, both ends included."""
        ends = set(cuts)
        needed: set[Ref] = set()
        stack = list(refs)
        while stack:
            ref = stack.pop()
            if ref not in needed:
                needed.add(ref)
                stack += () if ref in ends else self.parents(ref)
        return needed


def dtype_of(ref: Ref) -> str:
    """Dtype of the values of a column."""
    return ref[0].type.dtype


def codes_of(ref: Ref) -> tuple[int, int] | None:
    """Return the least and the largest value of a column of codes; None for other columns."""
    node, column = ref
    if isinstance(node, Codes):
        vocabulary = node.vocabulary
        # They may be any int32, too many to enumerate.
        if isinstance(vocabulary, DateCodes | HashCodes):
            return None
        if isinstance(vocabulary, EditedVocabulary) and vocabulary.counts:
            return None
        if isinstance(vocabulary, Hashes):
            return -1, len(vocabulary.values) - 1
        others = (vocabulary.none, vocabulary.nan, vocabulary.na, vocabulary.blank)
        return -1, max(len(vocabulary.values) - 1, *others)
    if isinstance(node, FindCode):
        return -1, len(node.values[column]) - 1
    if isinstance(node, Bins):
        return 0, int(np.count_nonzero(~np.isnan(node.edges.data[column])))
    return None
