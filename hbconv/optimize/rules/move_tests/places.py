"""Places: for each column that a forest reads, the earliest column its tests can be written on.

A test on a function of an ordered column changes sides at one place, its switch. The switch is
bisected within pieces: runs of values in which the function is monotone by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import numpy.typing as npt

from hbconv.containers import Node
from hbconv.optimize.rules.move_tests.evaluator import (
    DistinctTests,
    Evaluator,
    Function,
    Keys,
    Lineage,
    Ref,
    codes_of,
    describe,
    dtype_of,
    guess_origin,
    keys_of,
    values_of,
)

__all__ = ["CategorySets", "Destination", "Switches", "find_places"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

# 32 neighbours, which rounding may send astray, then distances that grow fourfold.
OFFSETS = np.unique(np.append(np.arange(32), 4 ** np.arange(3, 31, dtype=np.int64)))
"""Distances from a switch at which an inexact function is looked at, in values of the dtype."""


REACHES = (0, 2, 32, 1 << 12, 1 << 30)
"""Distances from a guess at which one looks for the switch, in values of the dtype."""
BLOCK = 1 << 18
"""Tests that are bisected at once, for memory: each takes some 100 bytes then."""


class CannotMove(Exception):  # noqa: N818
    """A column stays computed; the text says why."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """Keys of one column between which its tests change sides.

    Parameters
    ----------
    place : int
        Of the column in the evaluator.
    dtype : str
        Of its cut.
    tests : int array
        The distinct tests on the column.
    low, high : int array
        A test changes sides once between these keys; where they are equal it never does.
    guess : int array
        A key between them where it may be.
    left_first : bool array
        Whether the least value goes left.
    nan_left : bool array
        Where NaN of the cut goes.
    numbers : (int, int) or None
        Keys of the least and the largest value at which the function is a number, where all others
        must become NaN.
    """

    place: int
    dtype: str
    tests: Ints
    low: Keys
    high: Keys
    guess: Keys
    left_first: Bools
    nan_left: Bools
    numbers: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Switches:
    """The tests on one column as thresholds on its cut, ``value <= threshold``.

    ``mirrored`` tests go right where that holds. ``default_left`` describes the test as it was.
    """

    threshold: npt.NDArray[np.float64]
    mirrored: Bools
    default_left: Bools
    numbers: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of the pieces of one column, and its values there.

    Parameters
    ----------
    place : int
        Of the column in the evaluator.
    dtype : str
        Of its cut.
    keys : int array
    values : float array
    at_nan : float array
        Its value where the cut is NaN, or nothing if the cut holds no NaN.
    """

    place: int
    dtype: str
    keys: Keys
    values: npt.NDArray[np.float64]
    at_nan: npt.NDArray[np.float64]


def find_ends(
    evaluator: Evaluator, pieces: Mapping[int, Keys], dtypes: Mapping[int, str]
) -> list[Ends]:
    """Evaluate columns at the ends of their pieces and at NaN, all together.

    An evaluation computes all columns of a node, so one for each column would be quadratic.
    """
    if not pieces:
        return []
    # Only floats hold NaN.
    missing = {p: keys_of([np.nan], dtypes[p]) for p in pieces if dtypes[p][0] == "f"}
    parts = [*pieces.items(), *missing.items()]
    which = np.concatenate([np.full(len(keys), p) for p, keys in parts])
    keys = np.concatenate([keys for _, keys in parts])
    parts_values = np.split(
        evaluator.at(which, keys), np.cumsum([len(keys) for _, keys in parts])[:-1]
    )
    nans = dict(zip(missing, parts_values[len(pieces) :], strict=True))
    return [
        Ends(p, dtypes[p], pieces[p], values, nans.get(p, np.empty(0)))
        for p, values in zip(pieces, parts_values, strict=False)
    ]


def find_bracket(
    column: Ends, tests: DistinctTests, chosen: Ints, guess: npt.NDArray[np.float64]
) -> Bracket:
    """Find where the tests on a column change sides, from both ends of each of its pieces.

    1. Decide the tests at the ends.
    2. If NaN next to numbers is what turns a test twice, look at the numbers alone.
    3. Between the two ends at which a test turns, it turns once.

    Raises
    ------
    CannotMove
        A test changes sides more than once.
    """
    ends = column.keys
    values = column.values  # 1
    missing = np.isnan(values)
    # Both ends of a piece must agree, or the function has an end inside it.
    if (missing[::2] != missing[1::2]).any():
        raise CannotMove("it becomes NaN between two numbers")
    decided = tests.decide(chosen[:, None], values[None])
    numbers = None
    # NaN on both sides of the numbers turns a test twice, while numbers alone turn it once.
    if _turns(decided).sum(axis=1).max(initial=0) > 1 and np.isnan(column.at_nan).any():
        kept = np.flatnonzero(~missing)  # 2
        if len(kept) and np.diff(kept).max(initial=1) == 1:
            numbers = (int(ends[kept[0]]), int(ends[kept[-1]]))
            ends = ends[kept]
            decided = decided[:, kept]
    turns = _turns(decided)
    if turns.sum(axis=1).max(initial=0) > 1:
        raise CannotMove("a test changes sides more than once")
    turning = turns.any(axis=1)  # 3
    first = np.argmax(turns, axis=1)
    last = len(ends) - 1
    low = ends[np.where(turning, first, last)]
    high = ends[np.where(turning, first + 1, last)]
    nan_left = np.zeros(len(chosen), bool)
    if len(column.at_nan):
        nan_left = tests.decide(chosen, column.at_nan)
    return Bracket(
        column.place,
        column.dtype,
        chosen,
        low,
        high,
        _guessed_keys(guess, column.dtype, low, high),
        decided[:, 0],
        nan_left,
        numbers,
    )


def _guessed_keys(guess: npt.NDArray[np.float64], dtype: str, low: Keys, high: Keys) -> Keys:
    # A float may be no value of a column of ints.
    if not dtype.startswith("float"):
        return low
    with np.errstate(over="ignore", under="ignore"):
        return keys_of(guess, dtype).clip(low, high)


def _turns(decided: Bools) -> Bools:
    turns: Bools = decided[:, 1:] != decided[:, :-1]
    return turns


def find_switches(
    evaluator: Evaluator, brackets: list[Bracket], inexact: list[bool], tests: DistinctTests
) -> list[Switches | CannotMove]:
    """Bisect blocks of tests of all brackets, and look around switches of inexact functions."""
    if not brackets:
        return []
    longest = max(len(b.tests) for b in brackets)
    size = max(1024, BLOCK // len(brackets))
    blocks = [slice(start, start + size) for start in range(0, longest, size)]
    found = [_switch_keys(evaluator, brackets, inexact, tests, block) for block in blocks]
    return [
        _switches(
            bracket,
            np.concatenate([keys for keys, _ in of_bracket]),
            any(again for _, again in of_bracket),
        )
        for bracket, of_bracket in zip(brackets, zip(*found, strict=True), strict=True)
    ]


def _switch_keys(
    evaluator: Evaluator,
    brackets: list[Bracket],
    inexact: list[bool],
    tests: DistinctTests,
    block: slice,
) -> list[tuple[Keys, bool]]:
    """Return the switches of a block of tests of each bracket, and whether one turns again."""
    counts = [len(b.tests[block]) for b in brackets]
    which = np.repeat([b.place for b in brackets], counts)
    chosen = np.concatenate([b.tests[block] for b in brackets])
    low = np.concatenate([b.low[block] for b in brackets])
    high = np.concatenate([b.high[block] for b in brackets])
    guess = np.concatenate([b.guess[block] for b in brackets])

    def decide(keys: Keys) -> Bools:
        return tests.decide(chosen, evaluator.at(which, keys))

    keys = bisect(decide, *narrow(decide, low, high, guess))
    checked = np.repeat(inexact, counts) & (high - low > 1)
    doubtful = np.zeros(len(chosen), bool)
    if checked.any():
        doubtful[checked] = _turns_again(
            evaluator,
            tests,
            which[checked],
            chosen[checked],
            keys[checked],
            (low[checked], high[checked]),
        )
    cuts = np.cumsum(counts)[:-1]
    parts = zip(np.split(keys, cuts), np.split(doubtful, cuts), strict=True)
    return [(keys_of_bracket, bool(again.any())) for keys_of_bracket, again in parts]


def _turns_again(
    evaluator: Evaluator,
    tests: DistinctTests,
    which: Ints,
    chosen: Ints,
    keys: Keys,
    limits: tuple[Keys, Keys],
) -> Bools:
    """Whether a value near or far on one side of a switch is decided as those on the other."""
    low, high = limits
    first = tests.decide(chosen, evaluator.at(which, keys))
    again = np.zeros(len(chosen), bool)
    for offset in OFFSETS:
        below = np.where(keys - low > offset, keys - offset, low)
        above = np.where(high - keys > offset + 1, keys + 1 + offset, high)
        again |= tests.decide(chosen, evaluator.at(which, below)) != first
        again |= tests.decide(chosen, evaluator.at(which, above)) == first
    return again


def _switches(bracket: Bracket, keys: Keys, turns_again: bool) -> Switches | CannotMove:
    """Return the tests in the values of the cut; a test that never turns has infinity."""
    if turns_again:
        return CannotMove("it is not monotone near a threshold")
    turning = bracket.low != bracket.high
    threshold = values_of(keys, bracket.dtype).astype(np.float64)
    after = values_of(np.where(turning, keys + 1, keys), bracket.dtype).astype(np.float64)
    # int64 beyond 2**53: no float64 threshold lies between the two values.
    if (turning & (after <= threshold)).any():
        return CannotMove("two of its values are one float")
    threshold = np.where(turning, threshold, np.inf)
    numbers = None
    if bracket.numbers is not None:
        low, high = values_of(np.array(bracket.numbers), bracket.dtype).tolist()
        numbers = (low, high)
    return Switches(threshold, ~bracket.left_first, bracket.nan_left, numbers)


def narrow(
    decide: Callable[[Keys], Bools], low: Keys, high: Keys, guess: Keys
) -> tuple[Keys, Keys]:
    """Move ``low`` and ``high`` nearer to where decisions change, by looks about guesses.

    A right guess takes 3 looks, where bisecting all floats takes 64. A wrong one costs a few.

    Examples
    --------
    >>> narrow(lambda keys: keys <= 5, np.array([-100]), np.array([100]), np.array([5]))
    (array([5]), array([6]))
    """
    first = decide(low)
    for reach in REACHES:
        if (_middle(low, high) - low <= reach).all():
            break
        for look in (np.maximum(guess - reach, low), np.minimum(guess + 1 + reach, high)):
            same = decide(look) == first
            low = np.where(same, np.maximum(low, look), low)
            high = np.where(same, high, np.minimum(high, look))
    return low, high


def bisect(decide: Callable[[Keys], Bools], low: Keys, high: Keys) -> Keys:
    """Return the last key from ``low`` on that is decided as ``low``, where ``high`` is not.

    There is one change between them. Where low equals high, that key is returned.

    Examples
    --------
    >>> bisect(lambda keys: keys <= 5, np.array([-100]), np.array([100]))
    array([5])
    """
    middle = _middle(low, high)
    if (middle == low).all():
        return low
    first = decide(low)
    while (middle != low).any():
        same = decide(middle) == first
        low = np.where(same, middle, low)
        high = np.where(same, high, middle)
        middle = _middle(low, high)
    return low


def _middle(low: Keys, high: Keys) -> Keys:
    # The sum of two keys may overflow int64, their halves cannot.
    middle: Keys = (low >> 1) + (high >> 1) + (low & high & 1)
    return middle


def find_pieces(
    lineage: Lineage, functions: Sequence[Function], cuts: Sequence[Ref]
) -> list[Keys | None]:
    """Return the first and the last key of each piece, alternating, for each function.

    A function breaks where a column on its way reaches one of some values. That column must itself
    be monotone and without breaks; otherwise the result is None.
    """
    wanted = [(ref, cut) for f, cut in zip(functions, cuts, strict=True) for ref, _ in f.breaks]
    ways = {pair: describe(lineage, *pair) for pair in dict.fromkeys(wanted)}
    plain = {pair for pair, way in ways.items() if _is_plain(way)}
    points = [
        (pair, _with_values_below(values))
        for f, cut in zip(functions, cuts, strict=True)
        for ref, values in f.breaks
        if (pair := (ref, cut)) in plain
    ]
    breaks_of = _places_of(lineage, points) if points else {}
    return [
        _ends(dtype_of(cut), [breaks_of[ref, cut] for ref, _ in f.breaks])
        if all((ref, cut) in plain for ref, _ in f.breaks)
        else None
        for f, cut in zip(functions, cuts, strict=True)
    ]


def _with_values_below(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    with np.errstate(over="ignore", under="ignore"):
        # The trend may break at a value or just below it, so both sides of it end a piece.
        return np.append(points, np.nextafter(points, -np.inf))


def _is_plain(way: Function) -> bool:
    return way.is_monotone and way.is_exact and not way.breaks


def _places_of(
    lineage: Lineage, points: Sequence[tuple[tuple[Ref, Ref], npt.NDArray[np.float64]]]
) -> dict[tuple[Ref, Ref], Keys]:
    """Return the last keys at which each column is on one side of each of its points."""
    pairs = list(dict.fromkeys(pair for pair, _ in points))
    evaluator = Evaluator(lineage, [ref for ref, _ in pairs], [cut for _, cut in pairs])
    which = np.concatenate([np.full(len(v), pairs.index(pair)) for pair, v in points])
    values = np.concatenate([v for _, v in points])
    limits = np.array([_limits(dtype_of(cut)) for _, cut in pairs], np.int64)

    def decide(keys: Keys) -> Bools:
        return evaluator.at(which, keys) <= values

    low = limits[which, 0]
    high = limits[which, 1]
    turns = decide(low) != decide(high)
    keys = bisect(decide, low, np.where(turns, high, low))
    return {pair: keys[turns & (which == place)] for place, pair in enumerate(pairs)}


def _limits(dtype: str) -> tuple[int, int]:
    """Return the keys of the least and of the largest finite value."""
    limits = np.finfo(dtype) if dtype.startswith("float") else np.iinfo(dtype)
    low, high = keys_of(np.array([limits.min, limits.max], dtype), dtype)
    return int(low), int(high)


def _ends(dtype: str, breaks: Sequence[Keys]) -> Keys:
    """Return the ends of the pieces between breaks; infinities are pieces of their own."""
    low, high = _limits(dtype)
    # Infinities have keys of their own, just beyond the finite ones.
    edges = [low - 1, high, high + 1] if dtype.startswith("float") else [high]
    lasts = np.unique(np.concatenate([np.array(edges, np.int64), *breaks]))
    firsts = np.append(edges[0] if dtype.startswith("float") else low, lasts[:-1] + 1)
    return np.stack([firsts, lasts], axis=1).ravel()


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
    # From the input on: the earlier the column, the more computation behind it is dropped.
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
    results: dict[int, Destination | CannotMove] = {}
    codes = {c: cut for c, cut in tried.items() if codes_of(cut) is not None}
    ordered = {c: cut for c, cut in tried.items() if c not in codes}
    for column, cut in ordered.items():
        if dtype_of(cut) not in ORDERED:
            results[column] = CannotMove(f"it is made of values of {dtype_of(cut)}")
        elif (tests.table[tests.of_column(column)] >= 0).any():
            results[column] = CannotMove("it is tested for categories")
    ordered = {c: cut for c, cut in ordered.items() if c not in results}
    if codes:
        results |= _enumerate(lineage, x, codes, tests)
    if ordered:
        results |= _bisect(lineage, x, ordered, tests)
    return results


def _enumerate(
    lineage: Lineage, x: Node, cuts: Mapping[int, Ref], tests: DistinctTests
) -> dict[int, Destination | CannotMove]:
    """Decide the tests at every code."""
    evaluator = Evaluator(lineage, [(x, c) for c in cuts], list(cuts.values()))
    results: dict[int, Destination | CannotMove] = {}
    for place, (column, cut) in enumerate(cuts.items()):
        least, largest = codes_of(cut) or (0, 0)
        # A function is evaluated at every code, and each test keeps a set of them all.
        if largest >= MOST_CODES:
            results[column] = CannotMove(f"it has {largest} codes")
            continue
        keys = np.arange(least, largest + 1, dtype=np.int64)
        keys = keys_of(keys, dtype_of(cut))
        chosen = tests.of_column(column)
        values = evaluator.at(np.full(len(keys), place), keys)
        decided = tests.decide(chosen[:, None], values[None])
        results[column] = Destination(column, cut, CategorySets(least, decided))
    return results


def _bisect(
    lineage: Lineage, x: Node, cuts: Mapping[int, Ref], tests: DistinctTests
) -> dict[int, Destination | CannotMove]:
    """Find the switches of tests on ordered columns."""
    columns = list(cuts)
    functions = [describe(lineage, (x, c), cut) for c, cut in cuts.items()]
    pieces = find_pieces(lineage, functions, list(cuts.values()))
    evaluator = Evaluator(lineage, [(x, c) for c in columns], list(cuts.values()))
    results: dict[int, Destination | CannotMove] = {}
    monotone = {
        place: ends
        for place, ends in enumerate(pieces)
        if ends is not None and functions[place].is_monotone
    }
    unknown = CannotMove("it is not known to be monotone")
    results |= {c: unknown for place, c in enumerate(columns) if place not in monotone}
    dtypes = {place: dtype_of(cuts[columns[place]]) for place in monotone}
    brackets: dict[int, Bracket] = {}
    for ends in find_ends(evaluator, monotone, dtypes):
        column = columns[ends.place]
        chosen = tests.of_column(column)
        guess = guess_origin(lineage, (x, column), cuts[column], tests.threshold[chosen])
        try:
            brackets[ends.place] = find_bracket(ends, tests, chosen, guess)
        except CannotMove as refusal:
            results[column] = refusal
    inexact = [not functions[place].is_exact for place in brackets]
    switches = find_switches(evaluator, list(brackets.values()), inexact, tests)
    for place, written in zip(brackets, switches, strict=True):
        column = columns[place]
        results[column] = (
            written
            if isinstance(written, CannotMove)
            else Destination(column, cuts[column], written, functions[place])
        )
    return results
