"""Row reader: a record, a table of one row or a text goes straight to the inputs of a program.

The first row of a kind is read as all tables are. Rows of one kind have the same columns, with
values of the same types, so the positions of columns, dtypes and conversions are settled then. A
row that the writers of its kind do not take, or that the program flags, is read as a table too. No
library of tables is imported here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.containers import Codes, Hashed, Output
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.containers.vocabulary import DateCodes
from hbconv.errors import InputError
from hbconv.lower import AnyFeed, CodesFeed, EntriesFeed, Feed
from hbconv.runtime.call.memory import Call, Memory, Scan, remember, writes_bits_of
from hbconv.runtime.inputs.dataframes import arrays_of_block, pandas_blocks, pandas_names
from hbconv.runtime.inputs.places import find_places, finds_silently
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.outputs.answers import row_decoder
from hbconv.runtime.program import Program
from hbconv.runtime.text.sparse_rows import EntryRows, padded_size
from hbconv.runtime.text.text_hash import LONGEST_HASHED, MOST_HASHED, encode_hashed
from hbconv.runtime.text.vectorize import extract

__all__ = ["CellPlan", "CellReader", "Kind", "RowCells"]

Form = np.dtype[Any] | type | str | tuple[type, str]
"""How a frame holds a column."""
Kind = tuple[tuple[Any, ...], tuple[Form, ...], bool, int, tuple[type, ...]]
"""Names and forms of the columns, whether they are ordered, the size, and types of the values."""
PANICKING = frozenset(("Date", "Datetime", "Duration", "List", "Array", "Struct"))
"""Types of polars that hold values which Python does not: polars panics where it makes a row."""

Values = tuple[Any, ...]
Write = Callable[[Values], None]
Writer = Callable[[npt.NDArray[Any]], Write]
"""Makes what writes some cells to one input of a program, an array of one row."""
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
_FORMATS = {"float32": "f", "float64": "d", "int64": "q", "int32": "i"}


class RowCells(NamedTuple):
    """The cells of one row.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    forms : tuple of Form
        How a table holds each column. A record has none: the type of a value is all.
    values : tuple
    ordered : bool
        The columns have an order: those of a mapping have none.
    size : int
        Entries that texts are padded to; two more values stand for each: tokens and weights.
    """

    names: tuple[Any, ...]
    forms: tuple[Form, ...]
    values: Values
    ordered: bool = False
    size: int = 0

    @property
    def kind(self) -> Kind:
        """What rows have in common that are read alike."""
        return self.names, self.forms, self.ordered, self.size, tuple(map(type, self.values))

    @property
    def layout(self) -> Kind:
        """What one plan reads: rows of a kind."""
        return self.kind

    @property
    def unread(self) -> Kind:
        """What is remembered of rows that must be read as tables, with texts of any size."""
        return self._replace(values=self.values[: len(self.names)], size=0).kind


@dataclass(frozen=True, eq=False)
class CellPlan:
    """How rows of one kind reach their program: what looks at their cells, and what writes them."""

    program: Program
    method: str
    output: Output
    writers: Mapping[str, Writer]
    looks: tuple[Write, ...]

    def bind(self, memory: Memory, kind: Kind) -> Call:
        """Return a call in the memory that this thread has for the program."""
        buffers = memory.bind(self.program.artifact, 1)
        inputs = buffers.bound.inputs
        writes = [*self.looks, *(w(inputs[name]) for name, w in self.writers.items())]
        flags = buffers.flags(self.program.guard, 1)
        scan = Scan() if flags is None else Scan(flags.item)  # faster than ``any``
        values = buffers.bound.outputs[self.method]
        call = buffers.call(1, values, writes, row_decoder(self.output), scan)
        remember(memory.calls, kind, call)
        return call


class CellReader:
    """Reads one row, and plans how others of its kind are read.

    Parameters
    ----------
    reads : Reads
    method : str
    output : Output
    """

    def __init__(self, reads: Reads, method: str, output: Output) -> None:
        plain = read_cells if reads.schema.named else read_objects
        self._read = read_text if reads.schema.conventions.items else plain
        self._reads = reads
        self._method = method
        self._output = output

    def read(self, x: Any, kinds: Container[Any]) -> RowCells | None:
        """Return the cells of one row, of texts their entries too; None of everything else.

        Kinds without entries are remembered only if they must be read as tables.
        """
        cells = self._read(x)
        if cells is None or not self._reads.entries:
            return cells
        return None if cells.kind in kinds else with_entries(cells, self._reads)

    def plan(
        self, cells: RowCells, find_program: Callable[[], tuple[Program, Table]]
    ) -> CellPlan | None:
        """Plan for rows of a kind by one of them; None where they must be read as tables.

        ``find_program`` returns the program that answers the row, and the row in its dtypes.
        """
        types = cells.kind[-1]
        may_be_columns = not cells.ordered and not SCALARS.issuperset(types[: len(cells.names)])
        if may_be_columns or not finds_silently(cells, self._reads):
            return None
        program, table = find_program()
        if program.host.sparse_widths or not program.can_be_bound:
            return None
        places = find_places(cells, self._reads)
        fed = table.inputs(program.host.feeds)
        writers = _make_writers(program.host.feeds, places, types, fed, self._reads)
        written = all(writes_bits_of(w, cells.values, fed[name]) for name, w in writers.items())
        looks = _make_looks(program, places, types)
        if not writers or not written or looks is None:
            return None
        return CellPlan(program, self._method, self._output, writers, looks)


def read_cells(x: Any) -> RowCells | None:
    """Return the cells of a record or of a table of one row; None of everything else.

    Examples
    --------
    >>> read_cells({"age": 30, "sex": "f"})
    RowCells(names=('age', 'sex'), forms=(), values=(30, 'f'), ordered=False, size=0)
    >>> read_cells([{"age": 30}]) == read_cells({"age": 30}) == read_cells({"age": [30]})
    True
    >>> read_cells([{"age": 30}, {"age": 31}])
    """
    if type(x) is list and len(x) == 1 and type(x[0]) is dict:
        x = x[0]
    if type(x) is dict:
        # Of several columns the first tells whether they are lists, arrays or values.
        cells = tuple(x.values())
        columns = _COLUMNS.get(type(cells[0])) if cells else None
        return RowCells(tuple(x), (), cells) if columns is None else columns(tuple(x), cells)
    read_frame = _FRAMES.get(type(x).__module__.partition(".")[0])
    return None if read_frame is None else _read(read_frame, x)


def _read(read_frame: Callable[[Any], RowCells | None], x: Any) -> RowCells | None:
    """Read a frame; None if Python cannot hold a value, perhaps of a column that no model reads."""
    try:
        return read_frame(x)
    except Exception:  # the library's own: the ordinary reading tells what is wrong
        return None


def _of_lists(names: tuple[Any, ...], columns: tuple[Any, ...]) -> RowCells | None:
    """Read lists of one value, which are read as the values of a record are."""
    if not all(type(column) is list and len(column) == 1 for column in columns):
        return None
    return RowCells(names, (), tuple([column[0] for column in columns]))


def _of_arrays(names: tuple[Any, ...], columns: tuple[Any, ...]) -> RowCells | None:
    if not all(type(column) is np.ndarray and column.shape == (1,) for column in columns):
        return None
    dtypes = tuple([column.dtype for column in columns])
    return RowCells(names, dtypes, tuple([column[0] for column in columns]))


def _of_pandas(x: Any) -> RowCells | None:
    cells = pandas_blocks(x, _read_block) if hasattr(x, "columns") and len(x) == 1 else None
    if not cells:
        return None
    forms, values = zip(*cells, strict=True)
    return RowCells(pandas_names(x), forms, values, ordered=True)


def _read_block(held: Any) -> list[tuple[Form, Any]]:
    """Return the form and the cell of each column of a block of one row."""
    if type(held) is not np.ndarray:
        return [(_form(array), _first(array)) for array in arrays_of_block(held)]
    # Python's floats are those of float64, and made in half the time.
    column = held[:, 0]
    cells = column.tolist() if held.dtype.char == "d" else list(column)
    return [(held.dtype, cell) for cell in cells]


def _first(array: Any) -> Any:
    """Return the value of an array of pandas; of a text pandas takes 3 us, and Arrow 0.8."""
    held = array.__arrow_array__() if type(array).__name__ == "ArrowStringArray" else None
    text = None if held is None else held[0].as_py()
    # What a missing text is depends on the dtype.
    return array[0] if text is None else text


def _form(array: Any) -> Form:
    """Return a dtype of numpy's, or the class of another array: pandas' dtypes hash slowly."""
    if type(array) is np.ndarray:
        return array.dtype  # type: ignore[no-any-return]
    if type(array).__name__ != "Categorical":
        return type(array)
    return type(array), str(array.categories.dtype)


def _of_polars(x: Any) -> RowCells | None:
    if getattr(x, "height", 0) != 1 or not hasattr(x, "row"):
        return None
    forms = tuple(map(type, x.dtypes))
    if any(form.__name__ in PANICKING for form in forms):
        return None
    return RowCells(tuple(x.columns), forms, x.row(0), ordered=True)


def _of_arrow(x: Any) -> RowCells | None:
    if getattr(x, "num_rows", 0) != 1:
        return None
    schema = x.schema
    values = tuple([column[0].as_py() for column in x.columns])
    return RowCells(tuple(schema.names), tuple(map(str, schema.types)), values, ordered=True)


_COLUMNS = {list: _of_lists, np.ndarray: _of_arrays}
_FRAMES = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_arrow}


def read_objects(x: Any) -> RowCells | None:
    """Return the cells of an array of objects of one row; None of everything else.

    Examples
    --------
    >>> read_objects(np.array([["f", 30]], dtype=object)).values
    ('f', 30)
    >>> read_objects(np.array(["f", 30], dtype=object))
    """
    if type(x) is not np.ndarray or x.ndim != 2 or len(x) != 1:
        return None
    values = tuple(x[0].tolist())
    return RowCells(tuple(range(len(values))), (x.dtype,), values, ordered=True)


def read_text(x: Any) -> RowCells | None:
    """Return a list of one text as a cell without a name; None of everything else.

    Examples
    --------
    >>> read_text(["The cat sat"]).values
    ('The cat sat',)
    >>> read_text(["The cat sat", "It sat"])
    """
    if type(x) is not list or len(x) != 1 or type(x[0]) is not str:
        return None
    return RowCells((0,), (), (x[0],))


def with_entries(cells: RowCells, reads: Reads) -> RowCells | None:
    """Add two cells for each column that is read as sparse rows: its tokens, and their weights.

    None if a cell holds no text, or one that the source refuses: the ordinary reading tells why.
    """
    entries = []
    for column, extractor in reads.entries:
        text = _value(cells, reads.schema.names[column] if reads.schema.named else column)
        if type(text) is not str:
            return None
        try:
            rows = extract(np.array([text], dtype=object), extractor, reads.where(column))
        except InputError:
            return None
        entries.append(EntryRows(*rows, extractor.width))
    size = padded_size(max(len(rows.tokens) for rows in entries))
    arrays = tuple([array for rows in entries for array in rows.padded(size)])
    return cells._replace(values=cells.values + arrays, size=size)


def _value(cells: RowCells, name: Any) -> Any:
    """Return the value under a name; None if no cell or several have it."""
    return cells.values[cells.names.index(name)] if cells.names.count(name) == 1 else None


def _write_array(position: int) -> Writer:
    """Write the cell at one position, which is an array."""

    def write_to(row: npt.NDArray[Any]) -> Write:
        def write(values: Values) -> None:
            row[...] = values[position]

        return write

    return write_to


def _write_numbers(dtype: str, take: Callable[[Values], Sequence[Any]], size: int) -> Writer:
    """Write so many numbers, which are taken from the cells, side by side."""
    # Packing is faster than an assignment to each entry of an array.
    pack = struct.Struct(f"={size}{_FORMATS[dtype]}").pack_into

    def write_to(row: npt.NDArray[Any]) -> Write:
        memory = memoryview(row.data).cast("B")

        def write(values: Values) -> None:
            pack(memory, 0, *take(values))

        return write

    return write_to


def _make_writers(
    feeds: Sequence[AnyFeed],
    places: Mapping[int, int],
    types: Sequence[type],
    fed: Mapping[str, npt.NDArray[Any]],
    reads: Reads,
) -> dict[str, Writer]:
    """Return the writer of each input; none if such rows must be read the ordinary way.

    Parameters
    ----------
    feeds : sequence of feeds
    places : mapping of int to int
        The position of each column of the schema among the cells.
    types : sequence of type
        Type of each cell.
    fed : mapping of str to ndarray of shape (1, n)
        The inputs as one row of this kind gives them.
    reads : Reads
    """
    writers: dict[str, Writer] = {}
    for feed in feeds:
        if isinstance(feed, EntriesFeed):
            writers |= _entries_writers(feed, len(types), reads)
            continue
        writer: Writer | None = None
        if isinstance(feed, CodesFeed):
            writer = _codes_writer(feed, places, types, fed[feed.name], reads)
        elif feed.columns and reads.numbers.issuperset(feed.columns):
            writer = _numbers_writer(feed, [places[i] for i in feed.columns], types)
        if writer is None:
            return {}
        writers[feed.name] = writer
    return writers


def _entries_writers(feed: EntriesFeed, n_cells: int, reads: Reads) -> dict[str, Writer]:
    """Return the writers of tokens and weights, which stand behind the cells of the row."""
    assert feed.leaf is not None  # noqa: S101  (only matrices have entries of all columns)
    at = reads.entries.index((feed.leaf.column, feed.leaf.extractor))
    first = n_cells - 2 * (len(reads.entries) - at)
    return {name: _write_array(first + i) for i, name in enumerate(feed.names)}


def _numbers_writer(feed: Feed, places: list[int], types: Sequence[type]) -> Writer | None:
    kinds = {types[place] for place in places}
    if not kinds <= NUMBERS | {NoneType}:
        return None
    # An itemgetter of one item returns the item alone, and that of a slice a tuple.
    single = itemgetter(slice(places[0], places[0] + 1))
    take: Callable[[Values], Sequence[Any]] = itemgetter(*places) if len(places) > 1 else single
    if NoneType in kinds:
        take = partial(_with_nan, take)
    large = [place for place in places if types[place] in LARGE]
    if large:
        take = partial(_with_exact_ints, take, large)
    return _write_numbers(feed.dtype, take, len(places))


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
) -> Writer | None:
    columns = [places[leaf.column] for leaf in feed.leaves]
    leaves = zip(feed.leaves, columns, fed[0].tolist(), strict=True)
    lookups = [_lookup(leaf, types[place], code, reads) for leaf, place, code in leaves]
    settled = [lookup for lookup in lookups if lookup is not None]
    if len(settled) < len(columns):
        return None
    pairs = list(zip(settled, columns, strict=True))

    def take(values: Values) -> Sequence[int]:
        return [lookup(values[place]) for lookup, place in pairs]

    return _write_numbers(feed.dtype, take, len(columns))


def _lookup(leaf: Codes, kind: type, code: int, reads: Reads) -> Lookup | None:
    """Return what finds the code of a value of one type, if the type settles how it is read.

    ``code`` is that of the value at hand.
    """
    # None has the code that the table gave it, whatever the vocabulary calls missing.
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


def _make_looks(
    program: Program, places: Mapping[int, int], types: tuple[type, ...]
) -> tuple[Write, ...] | None:
    """Return what raises ValueError for cells that need a check; None if nothing can tell.

    ``places`` and ``types`` are as of ``_make_writers``.
    """
    guard = program.guard
    if not guard.looks_at_rows:
        return ()
    feeds = [feed for feed in program.check.feeds if isinstance(feed, Feed)]
    if len(feeds) < len(program.check.feeds):
        return None
    fed = {column: feed.dtype for feed in feeds for column in feed.columns}
    kinds = {column: types[places[column]] for column in fed}
    absent = {column for column, kind in kinds.items() if kind is NoneType}
    is_exact = all(
        dtype == "float64" or kinds[column] is np.float32 for column, dtype in fed.items()
    )
    if not is_exact or absent & guard.without_nan or not COMPARABLE.issuperset(kinds.values()):
        return None
    limits = [
        (places[column], column in guard.without_nan, _bound_of(kind, guard.bound))
        for column, kind in kinds.items()
        if column not in absent
    ]

    def look(values: Values) -> None:
        for place, strict, most in limits:
            value = values[place]
            # NaN fails both comparisons; it is refused only in strict columns.
            if not -most <= value <= most and (strict or value == value):
                raise ValueError(value)

    return (look,)


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
