"""Column reader: columns of a frame or of records go straight to the inputs of a program.

The first frame of a kind is read as all tables are. Frames of one kind have the same columns,
stored alike, so the positions of columns, dtypes and conversions are settled then. What is left is
to read the columns, to encode them and to write them side by side. The functions that do so are
those of the ordinary reading, so that a row has one answer among any others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.containers import Codes, Hashed, Output
from hbconv.containers.guard import Guard
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.containers.vocabulary import DateCodes
from hbconv.lower import CodesFeed, Feed, columns_read
from hbconv.runtime.call.memory import Call, Memory, Scan, remember, writes_bits_of
from hbconv.runtime.checks import are_within
from hbconv.runtime.inputs.arrays import object_numbers
from hbconv.runtime.inputs.arrow_columns import PLAIN, Data, fill_nulls, find_na
from hbconv.runtime.inputs.places import find_places, finds_silently
from hbconv.runtime.inputs.stored_columns import Form, Read, find_reader, stored_columns
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.outputs.answers import decoder
from hbconv.runtime.program import Program
from hbconv.runtime.text.categories import Categories, Text, encode
from hbconv.runtime.text.text_hash import encode_hashed

__all__ = ["ColumnCells", "ColumnPlan", "ColumnReader"]

SOME = range(2, 1025)
"""Rows that take less time to answer than a table does to be read."""
MAPPINGS = frozenset(("records", "columns"))
MOST_EXACT_SQUARE = float(MOST_EXACT_INT) ** 2

ColumnsKind = tuple[str, tuple[Any, ...], tuple[Form, ...], int]
"""The library, names of the columns, how each is stored, and the number of rows."""
Matrix = npt.NDArray[Any]
Columns = tuple[Any, ...]
Write = Callable[[Columns], None]
Writer = Callable[[Matrix], Write]
"""Makes what writes some columns to a matrix."""
Look = Callable[[Columns], object]
"""Raises ValueError for columns that must be read as a table."""


class ColumnCells(NamedTuple):
    """The columns of a frame, or of records, of some rows.

    Parameters
    ----------
    library : str
        Or "records" and "columns", which are mappings.
    names : tuple
    forms : tuple of Form
        How the frame stores each column: all that the ordinary reading asks of it but its values.
    rows : int
    values : tuple
        The columns.
    """

    library: str
    names: tuple[Any, ...]
    forms: tuple[Form, ...]
    rows: int
    values: Columns

    @property
    def none_is_value(self) -> bool:
        """Whether None differs from other missing values, as in pandas."""
        return self.library == "pandas"

    @property
    def ordered(self) -> bool:
        """Columns of a frame have an order; those of a mapping have none."""
        return self.library not in MAPPINGS

    @property
    def kind(self) -> ColumnsKind:
        """What frames have in common that are answered by one call."""
        return self.library, self.names, self.forms, self.rows

    @property
    def layout(self) -> Any:
        """What frames of any number of rows have in common that are read alike."""
        return self.library, self.names, self.forms

    @property
    def unread(self) -> Any:
        """What is remembered of frames that must be read as tables."""
        return self.layout


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """How frames of one kind reach their program: what writes their columns, and looks at them."""

    program: Program
    method: str
    output: Output
    writers: Mapping[str, Writer]
    looks: tuple[tuple[Feed, Writer], ...]
    looks_for_na: tuple[Look, ...]

    def bind(self, memory: Memory, kind: ColumnsKind) -> Call | None:
        """Return a call in the memory that this thread has for so many rows; None for too many."""
        *_, rows = kind
        size = next((size for size in self.program.artifact.sizes if rows <= size), None)
        if size is None:
            return None
        buffers = memory.bind(self.program.artifact, size)
        inputs = {name: array[:rows] for name, array in buffers.bound.inputs.items()}
        writes = [writer(inputs[name]) for name, writer in self.writers.items()]
        guard = self.program.guard
        looks = [_look(guard, feed, writer, rows) for feed, writer in self.looks]
        flags = buffers.flags(guard, rows)
        scan = Scan() if flags is None else Scan(flags.any)
        values = buffers.bound.outputs[self.method][:rows]
        call = buffers.call(
            rows, values, [*self.looks_for_na, *looks, *writes], decoder(self.output), scan
        )
        remember(memory.calls, kind, call)
        return call


class ColumnReader:
    """Reads frames of some rows, and plans how others of their kind are read.

    Parameters
    ----------
    reads : Reads
    method : str
    output : Output
    rows : range
        Numbers of rows that are read.
    """

    def __init__(self, reads: Reads, method: str, output: Output, rows: range = SOME) -> None:
        self._reads = reads
        self._method = method
        self._output = output
        self._rows = rows

    def read(self, x: Any) -> ColumnCells | None:
        """Return the columns of a frame of so many rows; None of everything else."""
        try:
            stored = stored_columns(x, self._rows)
        except Exception:  # a library's own: the ordinary reading tells what is wrong
            return None
        return None if stored is None else ColumnCells(*stored)

    def plan(
        self, cells: ColumnCells, find_program: Callable[[], tuple[Program, Table]]
    ) -> ColumnPlan | None:
        """Plan for frames of a kind by one of them; None where they must be read as tables.

        ``find_program`` returns the program that answers the rows, and the rows in its dtypes.
        """
        if not finds_silently(cells, self._reads):
            return None
        program, table = find_program()
        if program.host.sparse_widths or not program.can_be_bound:
            return None
        places = find_places(cells, self._reads)
        fed = table.inputs(program.host.feeds)
        writers = {feed.name: self._writer(feed, cells, places) for feed in program.host.feeds}
        found = {name: writer for name, writer in writers.items() if writer is not None}
        looks = self._looks(program, cells, places)
        looks_for_na = self._looks_for_na(program, cells, places)
        if not found or len(found) < len(writers) or looks is None or looks_for_na is None:
            return None
        if not all(
            writes_bits_of(writer, cells.values, fed[name]) for name, writer in found.items()
        ):
            return None
        return ColumnPlan(program, self._method, self._output, found, looks, tuple(looks_for_na))

    def _looks_for_na(
        self, program: Program, cells: ColumnCells, places: Mapping[int, int]
    ) -> list[Look] | None:
        """Return what raises ValueError where the source model refuses ``pandas.NA``.

        Writers look at what they read. A column that the source compares with its missing value
        and that no answer depends on has no writer. None if nothing can tell.
        """
        read = {column for feed in program.host.feeds for column in columns_read(feed)}
        others = [
            places[i]
            for i in self._reads.without_na.keys() - read
            if i in places and cells.forms[places[i]] not in PLAIN
        ]
        readers = [(find_reader(cells.library, cells.forms[place]), place) for place in others]
        looks: list[Look] = [
            _without_na(read, place) for read, place in readers if read is not None
        ]
        return looks if len(looks) == len(others) else None

    def _looks(
        self, program: Program, cells: ColumnCells, places: Mapping[int, int]
    ) -> tuple[tuple[Feed, Writer], ...] | None:
        """Return what writes the numbers that the host looks at; None if nothing can tell."""
        if not program.guard.looks_at_rows:
            return ()
        looks = []
        for feed in program.check.feeds:
            writer = self._writer(feed, cells, places) if isinstance(feed, Feed) else None
            if writer is None or not isinstance(feed, Feed):
                return None
            looks.append((feed, writer))
        return tuple(looks)

    def _writer(self, feed: Any, cells: ColumnCells, places: Mapping[int, int]) -> Writer | None:
        """Return the writer of an input; None if such columns must be read the ordinary way."""
        if isinstance(feed, CodesFeed):
            codes = [self._codes(leaf, cells, places[leaf.column]) for leaf in feed.leaves]
            return _side_by_side([one for one in codes if one is not None], len(codes))
        if not isinstance(feed, Feed) or not self._reads.numbers.issuperset(feed.columns):
            return None
        numbers = [self._numbers(i, feed.dtype, cells, places[i]) for i in feed.columns]
        return _side_by_side([one for one in numbers if one is not None], len(numbers))

    def _numbers(self, column: int, dtype: str, cells: ColumnCells, place: int) -> Writer | None:
        read = find_reader(cells.library, cells.forms[place])
        if read is None or has_categories(cells.forms[place]):
            return None
        data = read(cells.values[place])
        if not isinstance(data, np.ndarray):
            return None
        if data.dtype.kind == "O":
            # What a text or None among objects means takes a look at each of them.
            odd = column in self._reads.objects | self._reads.textless
            return None if odd else _write_objects(read, place)
        if data.dtype not in PLAIN or (data.dtype == np.uint64 and dtype == "int64"):
            return None
        is_large = data.dtype.kind in "iu" and data.dtype.itemsize == 8 and dtype != "int64"
        return (_write_large if is_large else _write_numbers)(read, place)

    def _codes(self, leaf: Codes, cells: ColumnCells, place: int) -> Writer | None:
        vocabulary = leaf.vocabulary
        read = find_reader(cells.library, cells.forms[place])
        if read is None or isinstance(vocabulary, DateCodes):
            return None
        data = read(cells.values[place])
        holds_numbers = has_categories(cells.forms[place]) and not isinstance(data, Categories)
        if holds_numbers or not _are_coded(data):
            return None
        where = self._reads.where(leaf.column)
        texts = self._texts(leaf.column, read, cells, place)
        if isinstance(vocabulary, Hashed):
            return _write_codes(lambda values: encode_hashed(texts(values), vocabulary, where))
        return _write_codes(lambda values: encode(texts(values), vocabulary, where))

    def _texts(
        self, column: int, read: Read, cells: ColumnCells, place: int
    ) -> Callable[[Columns], Any]:
        """Return what reads a column of texts, and its nulls as the model knows them."""
        if not cells.none_is_value:
            missing = self._reads.missing[column]
            return lambda values: fill_nulls(read(values[place]), missing)
        if column not in self._reads.without_na:
            return lambda values: read(values[place])

        return _without_na(read, place)


def _without_na(read: Read, place: int) -> Callable[[Columns], Data]:
    """Return what reads a column, and raises ValueError where it holds ``pandas.NA``."""

    def read_without_na(values: Columns) -> Data:
        data = read(values[place])
        if find_na(data) is not None:
            raise ValueError(data)
        return data

    return read_without_na


def has_categories(form: Form) -> bool:
    """Whether a column holds categories: what those of numbers become depends on the missing."""
    return "Categorical" in str(form)


def _are_coded(data: Any) -> bool:
    """Whether a column holds what has codes: texts, as such or as objects, and whole numbers."""
    return isinstance(data, Text | Categories) or (
        isinstance(data, np.ndarray) and data.dtype.kind in "Oiu"
    )


def _look(guard: Guard, feed: Feed, writer: Writer, rows: int) -> Look:
    """Return what raises ValueError for rows that need a check."""
    matrix = np.zeros((rows, len(feed.columns)), feed.dtype)
    write = writer(matrix)
    strict = [i for i, column in enumerate(feed.columns) if column in guard.without_nan]

    def look(values: Columns) -> None:
        write(values)
        if not are_within(matrix, guard.bound, strict):
            raise ValueError(values)

    return look


def _side_by_side(writers: list[Writer], columns: int) -> Writer | None:
    """Write each column of a matrix by a writer of its own; None if one has none."""
    if not writers or len(writers) < columns:
        return None

    def write_to(matrix: Matrix) -> Write:
        writes = [writer(matrix[:, place]) for place, writer in enumerate(writers)]

        def write(values: Columns) -> None:
            for write_column in writes:
                write_column(values)

        return write

    return write_to


def _write_numbers(read: Read, place: int) -> Writer:
    def write_to(column: Matrix) -> Write:
        def write(values: Columns) -> None:
            column[...] = read(values[place])

        return write

    return write_to


def _write_objects(read: Callable[[Any], Any], place: int) -> Writer:
    def write_to(column: Matrix) -> Write:
        def write(values: Columns) -> None:
            column[...] = object_numbers(read(values[place]), "")

        return write

    return write_to


def _write_large(read: Read, place: int) -> Writer:
    """Refuse ints beyond those that float64 holds: what they become depends on the program."""
    write_numbers = _write_numbers(read, place)

    def write_to(column: Matrix) -> Write:
        write_column = write_numbers(column)

        def write(values: Columns) -> None:
            write_column(values)
            # No int beyond 2**53, which floats may round, has a square below 2**106.
            if not np.vdot(column, column) < MOST_EXACT_SQUARE:
                raise OverflowError(values)

        return write

    return write_to


def _write_codes(codes_of: Callable[[Columns], npt.NDArray[np.int32]]) -> Writer:
    def write_to(column: Matrix) -> Write:
        def write(values: Columns) -> None:
            column[...] = codes_of(values)

        return write

    return write_to
