"""Places: for each column that a forest reads, the earliest column its tests can be written on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt

from hbconv.containers import Node
from hbconv.optimize.rules.move_tests.distinct_tests import DistinctTests, keys_of
from hbconv.optimize.rules.move_tests.evaluator import (
    Evaluator,
    Function,
    Lineage,
    Ref,
    codes_of,
    describe,
    dtype_of,
)
from hbconv.optimize.rules.move_tests.switches import (
    Bracket,
    CannotMove,
    Switches,
    find_bracket,
    find_ends,
    find_pieces,
    find_switches,
)

__all__ = ["CategorySets", "Destination", "find_places"]

ORDERED = ("float32", "float64", "int32", "int64")
MOST_CODES = 1 << 16
"""Most values of a column of codes that a function is evaluated at."""


@dataclass(frozen=True, eq=False)
class CategorySets:
    """The tests on one column as sets of the codes of its cut: bool, shape (n, codes)."""

    least: int
    goes_left: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Destination:
    """Where the tests on a column go.

    Parameters
    ----------
    column : int
        Column of the forest.
    cut : Ref
        What the tests read now.
    written : Switches, CategorySets or None
        The tests; None where they stay as they are, since the column is read as it is.
    function : Function or None
        From the cut to the column, where the cut is ordered.
    refusals : tuple of str
        Why the tests were not written on an earlier column.
    """

    column: int
    cut: Ref
    written: Switches | CategorySets | None = None
    function: Function | None = None
    refusals: tuple[str, ...] = ()


def find_places(lineage: Lineage, x: Node, tests: DistinctTests) -> list[Destination]:
    """Find the places of all columns, from the earliest candidates on.

    All columns are tried at once, each at its first candidate. Those that are refused are tried at
    their next one, and stay where they are in the end.
    """
    refusals: dict[int, tuple[str, ...]] = {int(c): () for c in np.unique(tests.column)}
    places: dict[int, Destination] = {}
    for level in count(1):
        chains = {c: lineage.chain((x, c)) for c in refusals if c not in places}
        kept = [c for c, chain in chains.items() if level >= len(chain)]
        places |= {c: Destination(c, (x, c), refusals=refusals[c]) for c in kept}
        tried = {c: chain[-level] for c, chain in chains.items() if c not in places}
        if not tried:
            break
        for column, result in _try(lineage, x, tried, tests).items():
            if isinstance(result, Destination):
                places[column] = replace(result, refusals=refusals[column])
            else:
                refusals[column] += (str(result),)
    return [places[column] for column in sorted(places)]


def _try(
    lineage: Lineage, x: Node, tried: Mapping[int, Ref], tests: DistinctTests
) -> dict[int, Destination | CannotMove]:
    """Write the tests on some columns on one candidate each, or say why not."""
    found: dict[int, Destination | CannotMove] = {}
    codes = {c: cut for c, cut in tried.items() if codes_of(cut) is not None}
    ordered = {c: cut for c, cut in tried.items() if c not in codes}
    for column, cut in ordered.items():
        if dtype_of(cut) not in ORDERED:
            found[column] = CannotMove(f"it is made of values of {dtype_of(cut)}")
        elif (tests.table[tests.column == column] >= 0).any():
            found[column] = CannotMove("it is tested for categories")
    ordered = {c: cut for c, cut in ordered.items() if c not in found}
    if codes:
        found |= _enumerate(lineage, x, codes, tests)
    if ordered:
        found |= _bisect(lineage, x, ordered, tests)
    return found


def _enumerate(
    lineage: Lineage, x: Node, cuts: Mapping[int, Ref], tests: DistinctTests
) -> dict[int, Destination | CannotMove]:
    """Decide the tests at every code."""
    evaluator = Evaluator(lineage, [(x, c) for c in cuts], list(cuts.values()))
    found: dict[int, Destination | CannotMove] = {}
    for place, (column, cut) in enumerate(cuts.items()):
        least, largest = codes_of(cut) or (0, 0)
        if largest >= MOST_CODES:
            found[column] = CannotMove(f"it has {largest} codes")
            continue
        keys = np.arange(least, largest + 1, dtype=np.int64)
        keys = keys_of(keys, dtype_of(cut))
        own = np.flatnonzero(tests.column == column)
        values = evaluator.at(np.full(len(keys), place), keys)
        decided = tests.decide(own[:, None], values[None])
        found[column] = Destination(column, cut, CategorySets(least, decided))
    return found


def _bisect(
    lineage: Lineage, x: Node, cuts: Mapping[int, Ref], tests: DistinctTests
) -> dict[int, Destination | CannotMove]:
    """Find the switches of tests on ordered columns."""
    columns = list(cuts)
    functions = [describe(lineage, (x, c), cut) for c, cut in cuts.items()]
    pieces = find_pieces(lineage, functions, list(cuts.values()))
    evaluator = Evaluator(lineage, [(x, c) for c in columns], list(cuts.values()))
    found: dict[int, Destination | CannotMove] = {}
    known = {
        place: ends
        for place, ends in enumerate(pieces)
        if ends is not None and functions[place].is_monotone
    }
    unknown = CannotMove("it is not known to be monotone")
    found |= {c: unknown for place, c in enumerate(columns) if place not in known}
    dtypes = {place: dtype_of(cuts[columns[place]]) for place in known}
    brackets: dict[int, Bracket] = {}
    for ends in find_ends(evaluator, known, dtypes):
        column = columns[ends.place]
        own = np.flatnonzero(tests.column == column)
        try:
            brackets[ends.place] = find_bracket(ends, tests, own)
        except CannotMove as refusal:
            found[column] = refusal
    inexact = [not functions[place].is_exact for place in brackets]
    switches = find_switches(evaluator, list(brackets.values()), inexact, tests)
    for place, written in zip(brackets, switches, strict=True):
        column = columns[place]
        found[column] = (
            written
            if isinstance(written, CannotMove)
            else Destination(column, cuts[column], written, functions[place])
        )
    return found
