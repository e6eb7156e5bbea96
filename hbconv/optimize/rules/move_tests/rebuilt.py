"""The forest over the columns that its tests were moved to.

1. ``rank_codes`` writes nested sets of codes as thresholds on a rank of each code.
2. ``write_columns`` writes the columns that the new forest reads.
3. ``swap_children`` mirrors the tests that a falling function turned around.
4. ``move_forest`` does all that for one forest, and says why tests stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Beside,
    Bins,
    Cast,
    Codes,
    Columns,
    Concat,
    MissingBetween,
    Node,
    Recode,
    Schema,
    Select,
    Together,
    at_step,
    rewrite,
    topological,
)
from hbconv.containers.schema import as_float
from hbconv.optimize.rules.move_tests.evaluator import (
    DistinctTests,
    Lineage,
    Ref,
    codes_of,
    dtype_of,
    find_distinct_tests,
)
from hbconv.optimize.rules.move_tests.places import CategorySets, Destination, Switches, find_places
from hbconv.optimize.rules.push_selection import push_selection
from hbconv.optimize.rules.remove_identity import remove_identity
from hbconv.trees.forest import CategoryTables, Forest

__all__ = ["Moved", "move_forest", "rebuild"]

ROUNDS = 20


@dataclass(frozen=True)
class NewColumn:
    """A column of the new forest.

    Parameters
    ----------
    ref : Ref
        What it is.
    is_code : bool
        Its values are codes, and its tests are on categories.
    is_rank : bool
        Its values are codes, and its thresholds whole numbers: any float dtype holds both.
    numbers : (float, float) or None
        The least and the largest number that stays one; all others become NaN.
    """

    ref: Ref
    is_code: bool = False
    is_rank: bool = False
    numbers: tuple[float, float] | None = None

    @property
    def is_input(self) -> bool:
        """Whether it is a column as the user gives it."""
        node, _ = self.ref
        return isinstance(node, Columns) and node.type.width == 1

    @property
    def place(self) -> tuple[bool, bool, bool, bool, int]:
        """What decides its place: columns of the input come first, in their order."""
        node, _ = self.ref
        column = node.columns[0] if isinstance(node, Columns) else 0
        return (*self.kind, column)

    @property
    def kind(self) -> tuple[bool, bool, bool, bool]:
        """What columns have in common that are written together."""
        is_count = isinstance(self.ref[0], Bins)
        return not self.is_input, self.numbers is not None, self.is_code, is_count


def order_columns(columns: Iterable[NewColumn]) -> list[NewColumn]:
    """Return each column once: those of the input in its order, then the others as they come."""
    return sorted(dict.fromkeys(columns), key=lambda column: column.place)


def write_columns(columns: Sequence[NewColumn]) -> Node:
    """Write the columns side by side, in the float dtype that holds all of them exactly."""
    # Codes and ranks are exact in either dtype, so they do not widen the others.
    others = {dtype_of(column.ref) for column in columns if not (column.is_code or column.is_rank)}
    dtype = "float32" if others <= {"float32"} else "float64"
    parts = [_part(list(group), dtype) for _, group in groupby(columns, lambda c: c.kind)]
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _part(columns: list[NewColumn], dtype: str) -> Node:
    """Write columns of one kind. Codes begin at -1, and those of tables at 0."""
    first = columns[0]
    part = _cast(side_by_side([column.ref for column in columns]), dtype)
    if first.is_code and not isinstance(first.ref[0], Bins):
        return Affine.of(part, add=1.0)
    if first.numbers is None:
        return part
    bounds = np.array([column.numbers for column in columns], dtype)
    return _within(part, bounds[:, 0], bounds[:, 1])


def side_by_side(refs: Sequence[Ref]) -> Node:
    """Read columns of the input at once, and neighbours in one node too."""
    if all(isinstance(node, Columns) for node, _ in refs):
        nodes = [node for node, _ in refs if isinstance(node, Columns)]
        indices = [node.columns[column] for node, (_, column) in zip(nodes, refs, strict=True)]
        if not any(node.dtype for node in nodes):
            return Columns(nodes[0].schema, Array.of(indices, np.int32))
    parts = []
    for node, members in groupby(refs, lambda ref: ref[0]):
        parts.append(_narrow(node, [column for _, column in members]))
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _within(x: Node, low: npt.NDArray[np.floating], high: npt.NDArray[np.floating]) -> Node:
    """Return x with NaN for what is below the low bounds or above the high ones."""
    with np.errstate(over="ignore", under="ignore"):
        # What is replaced is closed at both ends, so the bounds themselves must lie outside.
        below = np.where(low > -np.inf, np.nextafter(low, np.array(-np.inf, low.dtype)), np.nan)
        above = np.where(high < np.inf, np.nextafter(high, np.array(np.inf, high.dtype)), np.nan)
    if not np.isnan(below).all():
        x = MissingBetween.of(x, np.where(np.isnan(below), np.nan, -np.inf), below)
    if not np.isnan(above).all():
        x = MissingBetween.of(x, above, np.where(np.isnan(above), np.nan, np.inf))
    return x


def _cast(x: Node, dtype: str) -> Node:
    return x if x.type.dtype == dtype else Cast(x, dtype)


def _narrow(node: Node, columns: Sequence[int]) -> Node:
    """Return some columns of a node, the selection pushed down as far as it goes."""
    if list(columns) == list(range(node.type.width)):
        return node
    narrow: Node = Select(node, Array.of(columns, np.int32))
    # A selection passes one node a round.
    for _ in range(ROUNDS):
        after = rewrite((narrow,), lambda n: remove_identity(n) or push_selection(n) or n)[narrow]
        if after == narrow:
            break
        narrow = after
    return narrow


Bools = npt.NDArray[np.bool_]


def rebuild(places: Sequence[Destination], tests: DistinctTests) -> tuple[Node, Forest, Bools]:
    """Return what the forest reads now, its tests, and which of them are mirrored.

    1. Take the tests as they are, in the form ``value <= threshold``.
    2. Write those that moved on their new columns, sets of codes as ranks where they allow it.
    3. Give them to the tests of the trees.
    """
    places = rank_codes(places)
    columns = order_columns(_column_of(place) for place in places)
    x = write_columns(columns)
    feature = np.zeros(len(tests), np.int64)  # 1
    # A strict test below minus infinity sends no number left; mirrored, infinity says the same.
    never = np.isnan(tests.threshold)
    threshold = np.where(never, np.inf, tests.threshold)
    mirrored = never & (tests.table < 0)
    default_left = tests.default_left.copy()
    sets = _Sets()
    for place in places:  # 2
        chosen = tests.of_column(place.column)
        feature[chosen] = columns.index(_column_of(place))
        if isinstance(place.written, Switches):
            threshold[chosen] = place.written.threshold
            mirrored[chosen] = place.written.mirrored
            default_left[chosen] = place.written.default_left
        tables = _tables_of(place, chosen, tests)
        # A set decides here: a threshold of 1e300 is never read, and its cast to float32 warned.
        threshold[chosen[: len(tables)]] = 0.0
        mirrored[chosen[: len(tables)]] = False
        for test, table in zip(chosen, tables, strict=False):
            sets.add(int(test), int(feature[test]), table)
    at = tests.of_test  # 3
    moved = replace(
        tests.forest,
        feature=Array.of(feature[at], np.int32),
        threshold=Array.of(threshold[at], x.type.dtype),
        default_left=Array((default_left ^ mirrored)[at]),
        strict=False,
        n_features=x.type.width,
        tables=sets.tables(at),
    )
    return x, moved, mirrored[at]


def _column_of(place: Destination) -> NewColumn:
    if isinstance(place.written, CategorySets):
        return NewColumn(place.cut, is_code=True)
    if place.written is None:
        return NewColumn(place.cut)
    is_rank = codes_of(place.cut) is not None
    return NewColumn(place.cut, is_rank=is_rank, numbers=place.written.numbers)


def _tables_of(
    place: Destination, chosen: npt.NDArray[np.int64], tests: DistinctTests
) -> list[Bools]:
    """Return the tables of the tests on a column, none where they are tests on thresholds."""
    if isinstance(place.written, CategorySets):
        return list(place.written.goes_left)
    tables = tests.forest.tables
    if place.written or tables is None or not (tests.table[chosen] >= 0).all():
        return []
    parts = np.split(tables.goes_left.data, tables.start.data[1:-1])
    return [parts[table] for table in tests.table[chosen]]


class _Sets:
    """Tables of categories, equal ones of one column once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._of_test: dict[int, int] = {}

    def add(self, test: int, feature: int, goes_left: Bools) -> None:
        """Give a test its table."""
        content = (feature, goes_left.tobytes())
        self._of_test[test] = self._numbers.setdefault(content, len(self._numbers))

    def tables(self, of_test: npt.NDArray[np.int32]) -> CategoryTables | None:
        """Return all tables; each test of ``of_test`` has one that was added."""
        if not self._numbers:
            return None
        numbers = np.full(int(of_test.max()) + 1, -1, np.int32)
        numbers[list(self._of_test)] = list(self._of_test.values())
        tables = [np.frombuffer(content, np.bool_) for _, content in self._numbers]
        start = np.cumsum([0, *map(len, tables)])
        return CategoryTables(
            Array(numbers[of_test]), Array.of(start, np.int32), Array(np.concatenate(tables))
        )


def swap_children(forest: Forest, swapped: npt.NDArray[np.bool_]) -> Forest:
    """Return the forest with the children of some tests exchanged, leaves left to right.

    Every leaf keeps its value and its number in the source library. Linear leaves are not handled.

    1. Walk down level by level, with the first new place of each subtree.
    2. The left child begins where its parent does, the right one after all leaves of the left.
    """
    if not swapped.any():
        return forest
    left = np.where(swapped, forest.right.data, forest.left.data)
    right = np.where(swapped, forest.left.data, forest.right.data)
    counts = _leaves_below(forest)
    renumbered = np.arange(forest.n_leaves)
    inner = forest.roots.data >= 0
    level = forest.roots.data[inner].astype(np.int64)  # 1
    first = forest.first_leaf.data[:-1][inner].astype(np.int64)
    # Level by level, in numpy: forests have up to millions of nodes.
    while len(level):
        n_left = np.where(left[level] >= 0, counts[np.maximum(left[level], 0)], 1)
        children = np.concatenate([left[level], right[level]]).astype(np.int64)  # 2
        starts = np.concatenate([first, first + n_left])
        is_leaf = children < 0
        renumbered[~children[is_leaf]] = starts[is_leaf]
        level = children[~is_leaf]
        first = starts[~is_leaf]
    return replace(
        forest,
        left=_with_leaves(left, renumbered),
        right=_with_leaves(right, renumbered),
        roots=_with_leaves(forest.roots.data, renumbered),
        values=_move_leaves(forest.values, renumbered),
        leaf_id=_move_leaves(forest.leaf_id, renumbered),
    )


def _leaves_below(forest: Forest) -> npt.NDArray[np.int64]:
    """Count the leaves below each test: those of a subtree are neighbours."""
    last = forest.right.data.astype(np.int64)
    while (inner := last >= 0).any():
        last[inner] = forest.right.data[last[inner]]
    return ~last - forest.leftmost(forest.left.data) + 1


def _with_leaves(children: npt.NDArray[np.int32], places: npt.NDArray[np.int64]) -> Array:
    return Array.of(np.where(children < 0, ~places[~children], children), np.int32)


def _move_leaves(of_leaves: Array, places: npt.NDArray[np.int64]) -> Array:
    moved = np.empty_like(of_leaves.data)
    moved[places] = of_leaves.data
    return Array(moved)


DTYPE = "float32"
"""Dtype of ranks: there are fewer than 2**16 codes."""


@dataclass(frozen=True, eq=False)
class _Ranked:
    """A column of codes, the rank of each code, and the thresholds of the columns made of it."""

    cut: Ref
    ranks: npt.NDArray[np.int64]
    thresholds: dict[int, npt.NDArray[np.int64]]

    @property
    def in_order(self) -> bool:
        """Whether codes are their own ranks."""
        return bool((np.diff(self.ranks) == 1).all())


def rank_codes(places: Sequence[Destination]) -> list[Destination]:
    """Write tests for sets of codes as tests on ranks, where the sets are nested.

    The sets of one function of a code always do: each holds the codes up to a threshold. Trees
    decide a threshold faster than a set, on every backend. A code's rank is the number of sets that
    it is not in, and the set in place j holds the ranks up to j. Where sets hold the first codes,
    codes are compared themselves. Bins in order need no codes.
    """
    # Walks decide sets slowly: a forest of 100 x 2,970
    # leaves took 9,160 ns a row with them, 1,800 alone.
    sets = {
        place.column: place
        for place in places
        if isinstance(place.written, CategorySets) and not isinstance(place.cut[0], Bins)
    }
    cuts = dict.fromkeys(place.cut for place in sets.values())
    ranked = [_rank_column([p for p in sets.values() if p.cut == cut]) for cut in cuts]
    nested = [columns for columns in ranked if columns is not None]
    cut_of = _write_ranks([columns for columns in nested if not columns.in_order])
    for columns in nested:
        cut = cut_of.get(columns.cut, columns.cut)
        for column, threshold in columns.thresholds.items():
            sets[column] = replace(sets[column], cut=cut, written=_switches(threshold))
    return [sets.get(place.column, place) for place in places]


def _rank_column(places: Sequence[Destination]) -> _Ranked | None:
    """Rank the codes of one column; None if its sets are not nested.

    1. Sort the distinct sets by size.
    2. Count for each code the sets that it is not in.
    3. If no code has a lower rank than the code before, the codes stand for the ranks.
    """
    written = [p.written for p in places if isinstance(p.written, CategorySets)]
    distinct, number = np.unique(
        np.concatenate([w.goes_left for w in written]), axis=0, return_inverse=True
    )
    order = np.argsort(distinct.sum(axis=1), kind="stable")  # 1
    nested = distinct[order]
    # A code in a smaller set but not in the next larger one: the sets are not nested.
    if (nested[:-1] & ~nested[1:]).any():
        return None
    ranks = (~nested).sum(axis=0)  # 2
    place_of = np.argsort(order)[number.reshape(-1)]
    # Then a threshold on the code itself decides, and no table of ranks is read.
    if (np.diff(ranks) >= 0).all():  # 3
        least = written[0].least
        place_of = nested.sum(axis=1)[place_of] + least - 1
        ranks = np.arange(nested.shape[1]) + least
    cuts = np.cumsum([len(w.goes_left) for w in written])[:-1]
    parts = np.split(place_of, cuts)
    columns = [place.column for place in places]
    return _Ranked(places[0].cut, ranks, dict(zip(columns, parts, strict=True)))


def _write_ranks(columns: Sequence[_Ranked]) -> dict[Ref, Ref]:
    """Look up the ranks of all columns at once, and return where those of each are."""
    if not columns:
        return {}
    codes = side_by_side([ranked.cut for ranked in columns])
    ranks = Recode(codes, tuple(Array.of(ranked.ranks, DTYPE) for ranked in columns))
    return {ranked.cut: (ranks, j) for j, ranked in enumerate(columns)}


def _switches(threshold: npt.NDArray[np.int64]) -> Switches:
    never = np.zeros(len(threshold), bool)
    return Switches(threshold.astype(np.float64), mirrored=never, default_left=never)


WIRING = (Beside, Codes, Columns, Concat, Select, Together)
"""Nodes that compute nothing."""


@dataclass(frozen=True, eq=False)
class Moved:
    """A forest over the columns that its tests moved to.

    Parameters
    ----------
    x : Node
    forest : Forest
    drops : bool
        Something that was computed for the forest no longer is.
    required : bool
        Backends differ in a last bit of what it read.
    proof : str
    refusals : tuple of str
        Why tests on some columns did not move further.
    """

    x: Node
    forest: Forest
    drops: bool = False
    required: bool = False
    proof: str = ""
    refusals: tuple[str, ...] = ()


@lru_cache(maxsize=32)  # the search asks again after each rewrite
def move_forest(x: Node, forest: Forest, schema: Schema) -> Moved:
    """Move the tests of one forest as far towards the input as each column allows."""
    if forest.slopes is not None:
        refusals = ("its leaves are linear models of the computed columns",)
        return Moved(x, forest, refusals=refusals if _computed(x) else ())
    if not forest.n_tests or not _computed(x):
        return Moved(x, forest)
    moved, mirrored = _move_tests(x, forest.tests_alone, schema)
    tests = moved.forest
    same_trees = replace(
        forest,
        feature=tests.feature,
        threshold=tests.threshold,
        default_left=tests.default_left,
        strict=tests.strict,
        n_features=tests.n_features,
        tables=tests.tables,
    )
    return replace(moved, forest=swap_children(same_trees, mirrored.data))


# Scores and leaf numbers of one model are forests that differ in their leaves alone.
@lru_cache(maxsize=2)
def _move_tests(x: Node, forest: Forest, schema: Schema) -> tuple[Moved, Array]:
    """Move the tests without their trees; return which are mirrored, too."""
    lineage = Lineage(schema)
    tests = find_distinct_tests(forest, as_float(x.type.dtype))
    places = find_places(lineage, x, tests)
    with at_step(x.step):
        columns, moved, mirrored = rebuild(places, tests)
    drops = any(place.written is not None for place in places) and not _computed(x) <= _computed(
        columns
    )
    inexact = any(_is_inexact(lineage, x, place) for place in places)
    proof = _proof(moved, places, tests)
    return Moved(columns, moved, drops, inexact, proof, _refusals(places)), Array(mirrored)


def _computed(x: Node) -> set[Node]:
    """Return what is computed for x."""
    return {node for node in topological((x,)) if not isinstance(node, WIRING)}


def _is_inexact(lineage: Lineage, x: Node, place: Destination) -> bool:
    """Whether backends differ in the function that the tests on a column no longer need."""
    return any(node.inexact for node, _ in lineage.between((x, place.column), place.cut))


def _proof(forest: Forest, places: Sequence[Destination], tests: DistinctTests) -> str:
    """Count the tests by why they decide as before."""
    counts: Counter[str] = Counter()
    per_column = np.bincount(tests.column[tests.of_test])
    for place in places:
        if place.written is not None:
            counts[_kind(place)] += int(per_column[place.column])
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"to {forest.n_features} columns: {kinds}"


def _kind(place: Destination) -> str:
    if isinstance(place.written, CategorySets):
        return "sets of enumerated codes"
    function = place.function
    if function is not None and not function.is_exact:
        judge = "the source's function" if function.is_sources else "the reference"
        return f"thresholds checked around the switch against {judge}"
    if function is not None and function.breaks:
        return "thresholds piecewise"
    return "thresholds monotone by construction"


def _refusals(places: Sequence[Destination]) -> tuple[str, ...]:
    """Group the columns that stay computed by the reason."""
    columns: dict[str, list[int]] = {}
    for place in places:
        for reason in place.refusals[:1]:
            columns.setdefault(reason, []).append(place.column)
    return tuple(f"{_name_columns(refused)}: {reason}" for reason, refused in columns.items())


def _name_columns(columns: list[int]) -> str:
    """Name a few columns."""
    named = ", ".join(map(str, columns[:5]))
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    return f"column{'s' if len(columns) > 1 else ''} {named}{more}"
