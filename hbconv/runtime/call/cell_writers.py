"""Cell writers: the cells of a row into the inputs of a program, as the ordinary reading does.

A writer is made for one kind of row. A value that the kind does not settle makes it raise one of
``memory.UNUSUAL``: the row must then be read the ordinary way.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from types import NoneType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.containers import Codes, Hashed
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.containers.vocabulary import DateCodes
from hbconv.lower import AnyFeed, CodesFeed, EntriesFeed, Feed
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.text.text_hash import encode_hashed

__all__ = [
    "NUMBERS",
    "SCALARS",
    "CellWriter",
    "Values",
    "Write",
    "make_look",
    "make_writers",
    "writes",
]

Values = tuple[Any, ...]
Write = Callable[[Values], None]
Lookup = Callable[[Any], int]

LARGE = frozenset((int, np.int64, np.uint64))
"""Types of ints that float64 may not hold."""
INTS = LARGE | {np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32}
FLOATS = frozenset((float, np.float16, np.float32, np.float64))
NUMBERS = INTS | FLOATS | {bool, np.bool_}
SCALARS = NUMBERS | {str, NoneType}
"""Types of values in records that are read fast."""
COMPARABLE = NUMBERS - {np.float16} | {NoneType}
"""Types compared with a bound: float16 rounds it, to infinity even."""
MOST_HASHED = 4096
"""Texts of a column of which the hashes are remembered."""
LONGEST_HASHED = 256
"""Characters of a text that is remembered: clients choose the texts."""
_FORMATS = {"float32": "f", "float64": "d", "int64": "q", "int32": "i"}


class CellWriter(Protocol):
    """Writes some cells as one input of a program."""

    def into(self, row: npt.NDArray[Any]) -> Write:
        """Return a function that writes cells to an array of one row."""


def writes(writer: CellWriter, values: Values, fed: npt.NDArray[Any]) -> bool:
    """Whether it writes the very bits of an input that was read the ordinary way."""
    row = np.zeros_like(fed)
    writer.into(row)(values)
    return row.tobytes() == fed.tobytes()


class ArrayWriter:
    """Writes the cell at one place, which is an array.

    Parameters
    ----------
    place : int
    """

    def __init__(self, place: int) -> None:
        self._place = place

    def into(self, row: npt.NDArray[Any]) -> Write:
        """Return a function that writes the cell to an array of one row."""
        place = self._place

        def write(values: Values) -> None:
            row[...] = values[place]

        return write


class NumbersWriter:
    """Writes some cells side by side, as one input of a program.

    Parameters
    ----------
    dtype : str
    take : callable
        Takes the numbers to be written from the cells.
    size : int
        How many there are.
    """

    def __init__(self, dtype: str, take: Callable[[Values], Sequence[Any]], size: int) -> None:
        self._pack = struct.Struct(f"={size}{_FORMATS[dtype]}").pack_into
        self._take = take

    def into(self, row: npt.NDArray[Any]) -> Write:
        """Return a function that writes cells to an array of one row."""
        pack, take, memory = self._pack, self._take, memoryview(row.data).cast("B")

        def write(values: Values) -> None:
            pack(memory, 0, *take(values))

        return write


def make_writers(
    feeds: Sequence[AnyFeed],
    places: Mapping[int, int],
    types: Sequence[type],
    fed: Mapping[str, npt.NDArray[Any]],
    reads: Reads,
) -> dict[str, CellWriter]:
    """Return the writer of each input; none if such rows must be read the ordinary way.

    Parameters
    ----------
    feeds : sequence of feeds
    places : mapping of int to int
        The place of each column of the schema among the cells.
    types : sequence of type
        Type of each cell.
    fed : mapping of str to ndarray of shape (1, n)
        The inputs as one row of this kind gives them.
    reads : Reads
    """
    found: dict[str, CellWriter] = {}
    for feed in feeds:
        if isinstance(feed, EntriesFeed):
            found |= _entries_writers(feed, len(types), reads)
            continue
        writer: CellWriter | None
        if isinstance(feed, CodesFeed):
            writer = _codes_writer(feed, places, types, fed[feed.name], reads)
        elif isinstance(feed, Feed) and feed.columns and reads.numbers.issuperset(feed.columns):
            writer = _numbers_writer(feed, [places[i] for i in feed.columns], types)
        else:
            writer = None
        if writer is None:
            return {}
        found[feed.name] = writer
    return found


def _entries_writers(feed: EntriesFeed, n_cells: int, reads: Reads) -> dict[str, CellWriter]:
    """Return the writers of tokens and weights, which stand behind the cells of the row."""
    assert feed.leaf is not None  # noqa: S101  (only matrices have entries of all columns)
    at = reads.entries.index((feed.leaf.column, feed.leaf.extractor))
    first = n_cells - 2 * (len(reads.entries) - at)
    return {name: ArrayWriter(first + i) for i, name in enumerate(feed.names)}


def _numbers_writer(feed: Feed, places: list[int], types: Sequence[type]) -> CellWriter | None:
    given = {types[place] for place in places}
    if not given <= NUMBERS | {NoneType}:
        return None
    take = _taker(places)
    if NoneType in given:
        take = partial(_with_nan, take)
    large = [place for place in places if types[place] in LARGE]
    if large:
        take = partial(_with_exact_ints, take, large)
    return NumbersWriter(feed.dtype, take, len(places))


def _taker(places: list[int]) -> Callable[[Values], Sequence[Any]]:
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))


def _with_nan(take: Callable[[Values], Sequence[Any]], values: Values) -> Sequence[Any]:
    return [np.nan if value is None else value for value in take(values)]


def _with_exact_ints(
    take: Callable[[Values], Sequence[Any]], large: list[int], values: Values
) -> Sequence[Any]:
    """Refuse ints beyond those that float64 holds: what they become depends on the program."""
    for place in large:
        _require_exact(values[place])
    return take(values)


def _require_exact(value: Any) -> None:
    if not -MOST_EXACT_INT <= value <= MOST_EXACT_INT:
        raise OverflowError(value)


def _codes_writer(
    feed: CodesFeed,
    places: Mapping[int, int],
    types: Sequence[type],
    fed: npt.NDArray[Any],
    reads: Reads,
) -> CellWriter | None:
    columns = [places[leaf.column] for leaf in feed.leaves]
    leaves = zip(feed.leaves, columns, fed[0].tolist(), strict=True)
    lookups = [_lookup(leaf, types[place], code, reads) for leaf, place, code in leaves]
    found = [lookup for lookup in lookups if lookup is not None]
    if len(found) < len(columns):
        return None
    pairs = list(zip(found, columns, strict=True))

    def take(values: Values) -> Sequence[int]:
        return [lookup(values[place]) for lookup, place in pairs]

    return NumbersWriter(feed.dtype, take, len(columns))


def _lookup(leaf: Codes, kind: type, code: int, reads: Reads) -> Lookup | None:
    """Return what finds the code of a value of one type, if the type settles how it is read.

    Parameters
    ----------
    code : int
        That of the value at hand.
    """
    if kind is NoneType:
        return {None: code}.__getitem__
    vocabulary = leaf.vocabulary
    if isinstance(vocabulary, DateCodes):
        return None
    if isinstance(vocabulary, Hashed):
        return _hashed(vocabulary, reads.where(leaf.column)) if kind in INTS | {str} else None
    if kind in FLOATS:
        return partial(_missing, vocabulary.nan)
    return vocabulary.codes.__getitem__ if kind is str else None


def _missing(code: int, value: Any) -> int:
    """Return the code of NaN: beside texts no other number is read by its type alone."""
    if value == value:
        raise KeyError(value)
    return code


def _hashed(hashes: Hashed, where: str) -> Lookup:
    def find(value: Any) -> int:
        if not isinstance(value, str):
            _require_exact(value)
        return int(encode_hashed(np.array([value], dtype=object), hashes, where)[0])

    remembered = lru_cache(MOST_HASHED)(find)

    def code(value: Any) -> int:
        is_long = isinstance(value, str) and len(value) > LONGEST_HASHED
        return find(value) if is_long else remembered(value)

    return code


def make_look(
    feeds: Sequence[Feed],
    places: Mapping[int, int],
    types: Sequence[type],
    bound: float,
    without_nan: frozenset[int],
) -> Write | None:
    """Return what takes only cells that need no check, and writes nothing; None if it cannot tell.

    Parameters
    ----------
    feeds : sequence of Feed
        The floats that checks read.
    places, types
        As of ``make_writers``.
    bound : float
        Largest magnitude of a cell.
    without_nan : frozenset of int
        Columns in which NaN is refused.
    """
    fed = {column: feed.dtype for feed in feeds for column in feed.columns}
    given = {column: types[places[column]] for column in fed}
    absent = {column for column, kind in given.items() if kind is NoneType}
    is_exact = all(
        dtype == "float64" or given[column] is np.float32 for column, dtype in fed.items()
    )
    if not is_exact or absent & without_nan or not COMPARABLE.issuperset(given.values()):
        return None
    looks = [
        (places[column], column in without_nan, _bound_of(kind, bound))
        for column, kind in given.items()
        if column not in absent
    ]

    def look(values: Values) -> None:
        for place, strict, most in looks:
            value = values[place]
            if not -most <= value <= most and (strict or value == value):
                raise ValueError(value)

    return look


def _bound_of(kind: type, bound: float) -> float:
    """Return a bound that values of a type are compared with as it is: numpy rounds it to float32.

    Examples
    --------
    >>> _bound_of(float, 0.1), _bound_of(np.float32, 0.1) < 0.1
    (0.1, True)
    """
    if kind is not np.float32:
        return bound
    rounded = np.float32(min(bound, float(np.finfo(np.float32).max)))
    return float(np.nextafter(rounded, np.float32(0)) if float(rounded) > bound else rounded)
