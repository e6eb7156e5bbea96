"""Columns: a forest's thresholds and categories as codes of one byte, exactly.

The edges of a feature are its thresholds, and the code of a value is the number of edges that it
lies right of. So a test asks whether a code is below a cutoff. ``bin_values`` launches the kernel
that turns values into codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.cuda.plan import (
    GROUP,
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PlannedKernels,
)
from hbconv.backends.cuda.tree_order import NAMES
from hbconv.trees.category_sets import SetGroup, find_sets
from hbconv.trees.forest import Forest
from hbconv.trees.ranked import EDGES_PER_COLUMN, RankedFeature, rank_features

__all__ = ["ALL", "NONE", "CodeColumns", "Cutoffs", "bin_values", "join_columns", "split_columns"]

LANES = 32
"""Columns whose edges lie side by side."""
NONE = 0
ALL = 256
"""Cutoffs that no code is below, and that all are."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cutoffs:
    """What tests ask of codes: a list for each, one after another.

    A row goes left where the number of its test's cutoffs that its codes are below is odd.

    Parameters
    ----------
    start : int64 (n_tests + 1,)
    column, cutoff : int64 (n_cutoffs,)
    """

    start: Ints
    column: Ints
    cutoff: Ints

    @property
    def single(self) -> bool:
        """Whether each test has one."""
        return len(self.column) == len(self.start) - 1

    @staticmethod
    def of(test: Ints, column: Ints, cutoff: Ints, n_tests: int) -> Cutoffs:
        """Put the cutoffs, each with its test, in the tests' order."""
        order = np.argsort(test, kind="stable")
        start = np.append(0, np.cumsum(np.bincount(test, minlength=n_tests)))
        return Cutoffs(start, column[order], cutoff[order])


@dataclass(frozen=True, eq=False)
class CodeColumns:
    """How values become codes.

    Parameters
    ----------
    feature : int32 (n_columns,)
        The feature that each reads.
    missing : int32 (n_columns,)
        Code of NaN.
    edges : float (n_passes, 256, 32)
        Those of column c at ``[c // 32, :, c % 32]``, padded with infinity.
    last, first : int32 (n_columns,)
        Last category, or -1 for numbers; place of the first category in ``lookup``.
    lookup : uint8 (n_entries,)
        Codes of categories.
    """

    feature: npt.NDArray[np.int32]
    missing: npt.NDArray[np.int32]
    edges: npt.NDArray[Any]
    last: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    lookup: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.feature)


def join_columns(forest: Forest, dtype: str) -> tuple[CodeColumns, Cutoffs]:
    """Make as few columns as possible, for tests of several cutoffs.

    1. If no code of NaN does for all tests of a feature, NaN is code 0, and all numbers lie above.
       Tests that send NaN right have a second cutoff, 1, which takes it out again.
    2. A column of categories holds classes, which all sets of a feature tell apart.
    """
    writer = _Writer(forest, dtype)
    for feature in writer.features:
        writer.join(feature)
    _add_classes(writer)
    return writer.finish()


def split_columns(forest: Forest, dtype: str) -> tuple[CodeColumns, Cutoffs]:
    """Make columns in which each test has one cutoff.

    1. If no code of NaN does for all tests of a feature, it has columns for either side.
    2. Each set of categories has a column: 0 in the set, 1 outside of it.
    """
    writer = _Writer(forest, dtype)
    for feature in writer.features:
        writer.split(feature)
    _add_sets(writer)
    return writer.finish()


class _Writer:
    """Collects columns and cutoffs."""

    def __init__(self, forest: Forest, dtype: str) -> None:
        self.forest = forest
        self.dtype = dtype
        self.features = [f.with_nan_apart() for f in rank_features(forest, dtype)]
        self.columns: list[tuple[int, int, npt.NDArray[Any], int, int]] = []
        # Never empty: there is an array to join, and memory for the kernel to point to.
        self.lookup: list[npt.NDArray[np.uint8]] = [np.zeros(1, np.uint8)]
        self.cutoffs: list[tuple[Ints, Ints, Ints]] = []

    def ask(self, tests: Ints, column: Ints | int, cutoff: Ints | int) -> None:
        """Give each test a cutoff."""
        shape = tests.shape
        self.cutoffs.append((tests, np.broadcast_to(column, shape), np.broadcast_to(cutoff, shape)))

    def join(self, f: RankedFeature) -> None:
        first = self.number(f, 0 if f.mixed else f.missing)
        out = f.mixed & ~f.to_left
        never = out & (f.rank == 0)
        cutoff = np.where(never, NONE, f.rank % EDGES_PER_COLUMN + 1)
        self.ask(f.tests, first + f.segment, cutoff)
        # Code 0, that of NaN, is below both cutoffs: an even count, so NaN goes right.
        again = f.tests[out & ~never]
        self.ask(again, first, 1)

    def split(self, f: RankedFeature) -> None:
        sides = (False, True) if f.mixed else (None,)
        for side in sides:
            splits = f.to_left == side if f.mixed else np.ones(len(f.tests), bool)
            missing = (0 if side else len(f.edges)) if f.mixed else f.missing
            first = self.number(f, missing)
            cutoff = f.rank[splits] % EDGES_PER_COLUMN + 1
            self.ask(f.tests[splits], first + f.segment[splits], cutoff)

    def number(self, f: RankedFeature, missing: int) -> int:
        """Add the columns of a feature; return the first."""
        first = len(self.columns)
        # A byte counts 255 edges, so a feature of more has several columns.
        for before, edges in f.parts():
            # In each column, NaN lies right of as many edges as it would as a number of its rank.
            code = min(max(missing - before, 0), len(edges))
            self.columns.append((f.number, code, edges, -1, 0))
        return first

    def categories(self, feature: int, codes: npt.NDArray[np.uint8]) -> int:
        """Add a column of categories; return its number."""
        place = sum(map(len, self.lookup))
        self.columns.append((feature, 0, np.zeros(0, self.dtype), len(codes) - 1, place))
        self.lookup.append(codes)
        return len(self.columns) - 1

    def finish(self) -> tuple[CodeColumns, Cutoffs]:
        test, column, cutoff = (np.concatenate(parts) for parts in zip(*self.cutoffs, strict=True))
        numbers = np.array([(c[0], c[1], c[3], c[4]) for c in self.columns], np.int32)
        feature, missing, last, first = np.ascontiguousarray(numbers.T)
        edges = _edge_table([c[2] for c in self.columns], self.dtype)
        columns = CodeColumns(feature, missing, edges, last, first, np.concatenate(self.lookup))
        return columns, Cutoffs.of(test, column, cutoff, self.forest.n_tests)


def _edge_table(edges: list[npt.NDArray[Any]], dtype: str) -> npt.NDArray[Any]:
    # No value lies right of infinity, so padding counts for none.
    table = np.full((-(-len(edges) // LANES), EDGES_PER_COLUMN + 1, LANES), np.inf, dtype)
    for column, edges_of_column in enumerate(edges):
        table[column // LANES, : len(edges_of_column), column % LANES] = edges_of_column
    return table


def _add_sets(writer: _Writer) -> None:
    sets = find_sets(writer.forest)
    numbers = np.zeros(sets.count + 1, np.int64)
    done = 0
    for group in sets.groups:
        for outside in (~group.goes_left.T).astype(np.uint8):
            numbers[done] = writer.categories(group.feature, outside[group.class_of])
            done += 1
    tests = np.flatnonzero(writer.forest.on_category)
    writer.ask(tests, numbers[sets.of_test[tests]], 1)


def _add_classes(writer: _Writer) -> None:
    """Add a column for each group of sets, and the cutoffs of each set's tests."""
    sets = find_sets(writer.forest)
    for group, first in zip(sets.groups, sets.start[:-1], strict=True):
        column = writer.categories(group.feature, group.class_of)
        tests = np.flatnonzero(sets.of_test >= first)
        tests = tests[sets.of_test[tests] < first + group.goes_left.shape[1]]
        which, cutoff = _boundaries(group)
        order = np.argsort(which, kind="stable")
        count = np.bincount(which, minlength=group.goes_left.shape[1])
        begin = np.cumsum(count) - count
        each = sets.of_test[tests] - first
        turn = np.arange(count[each].sum()) - np.repeat(
            np.cumsum(count[each]) - count[each], count[each]
        )
        picked = order[np.repeat(begin[each], count[each]) + turn]
        writer.ask(np.repeat(tests, count[each]), column, cutoff[picked])


def _boundaries(group: SetGroup) -> tuple[Ints, Ints]:
    """Find where classes of a set begin or end: set and cutoff of each.

    An empty set has the cutoff that no code is below.
    """
    n_classes, n_sets = group.goes_left.shape
    bounded = np.zeros((n_classes + 1, n_sets), bool)
    # One class more, in no set, so that a set that holds the last class ends too.
    bounded[:-1] = group.goes_left
    place, which = np.nonzero(bounded[1:] ^ bounded[:-1])
    empty = np.setdiff1d(np.arange(n_sets), which)
    return np.append(which, empty), np.append(place + 1, np.full(len(empty), NONE))


THREADS = 256
ROWS = 8 * THREADS // 32
"""Rows of a block's first turn: 8 a warp, so that few rows are spread over many blocks."""
SHARED_BYTES = 228 << 10
"""Shared memory of a multiprocessor of an H100: blocks that fit it stay, and take more turns."""


def bin_values(columns: CodeColumns, n_features: int) -> PlannedKernels:
    """Return the kernel that writes ``"codes"``."""
    dtype = columns.edges.dtype
    passes = len(columns.edges)
    categories = int((columns.last >= 0).any())
    edge_bytes = columns.edges[0].nbytes
    launch = Launch(
        CudaKernel("bin", (("INPUT", NAMES[dtype.name]), ("CATEGORIES", categories))),
        (
            *("x", "n", n_features, len(columns)),
            *("feature", "missing", "last", "first_category", "edges", "lookup", "codes"),
        ),
        Grid(ROWS, passes, per_processor=SHARED_BYTES // (edge_bytes + 1024)),
        THREADS,
        edge_bytes,
    )
    tables = {
        "feature": columns.feature,
        "missing": columns.missing,
        "last": columns.last,
        "first_category": columns.first,
        "edges": columns.edges,
        "lookup": columns.lookup,
    }
    codes = Buffer(np.dtype(np.uint8).name, 1, GROUP, GROUP * len(columns))
    plan = LaunchPlan((launch,), (("codes", codes),), tuple(tables))
    return PlannedKernels(plan, tables)
