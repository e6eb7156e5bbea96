"""Cut the text of CSV and JSON lines files into blocks of whole records, and count them.

pyarrow reads block after block. What it makes of a block is held against the count, so that no row
is lost. A file that ends inside a quote or a compressed block is refused with the row where that
began.

pyarrow takes several objects of a line for rows, and ends the process over a row that is ``null``
and over values that are nested thousands deep. So lines are looked at before it reads them.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

import numpy as np

from hbconv.errors import InputError

__all__ = [
    "Block",
    "csv_blocks",
    "csv_schema",
    "json_blocks",
    "json_schema",
    "lines_of",
    "read_records",
    "without_times",
]

BLOCK_BYTES = 4 << 20
"""Bytes of text that are parsed at a time."""
RECORD_BYTES = 16 << 20
"""Bytes that a record may have. A quote that nobody closes takes no more memory than this."""
QUOTE = ord('"')
KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t]*:')
"""A name in a line of JSON."""
BLANK = {"csv": b"\r\n", "json": b" \t\r\n"}
"""Letters of lines that hold no record."""


@dataclass(frozen=True)
class Block:
    """Some whole records of a file, as UTF-8.

    Parameters
    ----------
    text : bytes
        Ends with a line.
    first : int
        Records of the file before these. The header of CSV is one, and an empty line is none.
    count : int
        Records in it.
    longest : int
        Bytes of the longest one.
    is_cut : bool
        Whether the file ends with the last one, without a line's end.
    """

    text: bytes
    first: int
    count: int
    longest: int
    is_cut: bool = False

    @property
    def parse_bytes(self) -> int:
        """Bytes that a thread of pyarrow parses at a time: no record is in three such pieces."""
        return max(1 << 20, self.longest + 2)


def read_records(shard: Any) -> Iterator[Block]:
    """Read a file from its start, in blocks of whole records.

    Parameters
    ----------
    shard : Shard
        Of format csv or json.

    Raises
    ------
    InputError
        The text is of another encoding, or it cannot be decompressed. Or it ends inside a quote, or
        a record exceeds ``RECORD_BYTES``. The message names the row, and the column if it is known.
    """
    cutter = _Cutter(shard.name, shard.kind, shard.separator)
    for data in _decode(shard, cutter):
        block = cutter.take(data)
        if block.count:
            yield block
        if len(cutter.rest) > RECORD_BYTES:
            is_open = cutter.find_open_quote() is not None
            error = cutter.quote_error if is_open else cutter.error
            raise error(f"The row exceeds {RECORD_BYTES >> 20} MB.")
    if cutter.rest.strip(BLANK[shard.kind]):
        if cutter.find_open_quote() is not None:
            raise cutter.quote_error("The file ends before it closes a quote.")
        size = len(cutter.rest)
        yield Block(cutter.rest + b"\n", cutter.done, 1, size, is_cut=True)


@dataclass
class _Cutter:
    """Cuts text into whole records.

    Parameters
    ----------
    name, kind, separator : str
        Of the file.
    done : int
        Records that were handed on.
    rest : bytes
        What was read of the next one.
    head : bytes
        The first text that was handed on.
    """

    name: str
    kind: str
    separator: str = ","
    done: int = 0
    rest: bytes = b""
    head: bytes = b""

    def take(self, data: bytes) -> Block:
        """Return the records that end in some more text."""
        text = self.rest + data
        # To count apart from the parser costs 2 ms of the processor for a megabyte of CSV.
        comma = self.separator.encode()
        ends = _csv_ends(text, comma) if self.kind == "csv" else _line_ends(text)
        cut = int(ends[-1]) + 1 if ends.size else 0
        # A size counts the end of its line, so that of an empty line is 1.
        sizes = np.diff(ends, prepend=-1)
        count = int(np.count_nonzero(sizes > 1))
        if self.kind == "json":
            count = sum(1 for line in text[:cut].split(b"\n") if line.strip(BLANK["json"]))
        block = Block(text[:cut], self.done, count, int(sizes.max(initial=0)))
        self.head = self.head or block.text
        self.rest = text[cut:]
        self.done += count
        return block

    def find_open_quote(self) -> int | None:
        """Return where a quote opens in the rest that is not closed in it, or None."""
        if self.kind != "csv":
            return None
        fields = _quoted(self.separator.encode()).finditer(self.rest)
        return next((field.start() for field in fields if not field[1]), None)

    def error(self, reason: str) -> InputError:
        """Return an error about the record that is begun, and the column that it has reached."""
        return InputError(f"{self.name}, {self._row()}{self._column()}: {reason}")

    def quote_error(self, reason: str) -> InputError:
        """Return the error about a quote that is not closed, at the column where it opens."""
        self.rest = self.rest[: self.find_open_quote()]
        return self.error(
            f"{reason} A quote opens here that nobody closes. Close it, or write a quote that "
            "belongs to the text twice, and the text in quotes."
        )

    def _row(self) -> str:
        if self.kind == "json":
            return f"row {self.done + 1:,}"
        return f"row {self.done:,}" if self.done else "header"

    def _column(self) -> str:
        if self.kind == "json":
            keys = KEY.findall(self.rest)
            return f", column {keys[-1].decode(errors='replace')!r}" if keys else ""
        text = io.StringIO(self.head.decode(errors="replace"), newline="")
        names = next(filter(None, csv.reader(text, delimiter=self.separator)), [])
        comma = self.separator.encode()
        place = _mask_quotes(self.rest, comma).count(comma)
        return f", column {names[place]!r}" if place < len(names) else ""


def _line_ends(text: bytes) -> Any:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == 10)


@cache
def _quoted(comma: bytes) -> re.Pattern[bytes]:
    """Return the expression of a field in quotes, where fields are separated by a letter.

    A quote opens one at the start of a field alone, as in pandas and pyarrow.
    """
    return re.compile(rb'"(?<![^' + re.escape(comma) + rb'\r\n]")[^"]*+(?:""[^"]*+)*+("|\Z)')


def _csv_ends(text: bytes, comma: bytes) -> Any:
    """Return the places where lines end outside quotes.

    1. Where each second quote opens a field, an even number of quotes precedes such an end.
       A quote within a field is written twice, so it counts as none.
    2. Other quotes are letters of their field. Then all that is in quotes is masked first.
    """
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == QUOTE)
    opening = quotes[::2]
    # What precedes a quote that opens a field, or that is the second of two within one.
    before = np.frombuffer(comma + b'\r\n"', np.uint8)
    if not np.isin(letters[opening[opening > 0] - 1], before).all():  # 2.
        return _csv_ends(_mask_quotes(text, comma).replace(b'"', b"_"), comma)
    ends = _line_ends(text)
    if b"\r" in text:
        ends = np.flatnonzero((letters == 10) | (letters == 13))
    return ends[np.searchsorted(quotes, ends) % 2 == 0]  # 1.


def _mask_quotes(text: bytes, comma: bytes) -> bytes:
    r"""Write quotes for all that is in quotes.

    >>> _mask_quotes(b'1,"a,""b\n",5" of,"c', b",").replace(b'"', b'#')
    b'1,########,5# of,##'
    """
    return _quoted(comma).sub(lambda field: b'"' * len(field[0]), text)


def _decode(shard: Any, cutter: _Cutter) -> Iterator[bytes]:
    """Read a file's text as UTF-8, without the mark that may stand before it."""
    decoder = codecs.getincrementaldecoder(shard.encoding)()
    is_utf8 = codecs.lookup(shard.encoding).name == "utf-8"
    mark = codecs.BOM_UTF8
    with shard.stream() as source:
        while True:
            data = _read(source, cutter)
            text = _text(decoder, data, shard.encoding, cutter)
            whole = data if is_utf8 else text.encode()
            if whole:
                yield whole.removeprefix(mark)
                mark = b""
            if not data:
                return


def _read(source: Any, cutter: _Cutter) -> bytes:
    try:
        return bytes(source.read(BLOCK_BYTES))
    except OSError as error:
        raise cutter.error(f"The file is cut off or damaged here: {error}.") from error


def _text(decoder: Any, data: bytes, encoding: str, cutter: _Cutter) -> str:
    """Decode some bytes, or refuse the first that are no text of an encoding."""
    state = decoder.getstate()
    try:
        return str(decoder.decode(data, final=not data))
    except UnicodeDecodeError as error:
        # Decoded again up to the bad bytes, so that the message can name row and column.
        decoder.setstate(state)
        good = decoder.decode(data[: max(error.start - len(state[0]), 0)])
        cutter.take(good.encode())
        held = error.object[error.start : error.end].hex(" ")
        begin = cutter.head or error.object
        raise cutter.error(f"The bytes {held} are no text in {encoding}.{_hint(begin)}") from error


def _hint(data: bytes) -> str:
    name = "such as latin-1"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "which seems to be utf-16"
    return f" Write the file as UTF-8, or give hbconv score its --encoding, {name}."


MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for missing values in CSV files: those of ``pandas.read_csv``."""

Unfit = Callable[[Any], str] | None


def csv_schema(shard: Any) -> Any:
    """Return names and types of the columns of a file's first block, or None if it has no lines."""
    block = next(read_records(shard), None)
    return None if block is None else _table(shard, block, None, {}, lambda _: "skip").schema


def csv_blocks(shard: Any, schema: Any, unfit: Unfit) -> Iterator[Any]:
    """Read some columns of a file, with types that are given, as record batches.

    Parameters
    ----------
    shard : Shard
    schema : pyarrow.Schema
    unfit : callable, optional
        Asked what to do with a row of too many or too few values: "skip" or "error". The number
        that it gets counts the header.

    Raises
    ------
    InputError
        The file ends inside a row, or is no text; or rows are lost.
    """
    names = [shard.stored_name(name) for name in shard.schema.names if name not in shard.keys]
    columns = {
        "column_types": schema,
        "include_columns": schema.names,
        "null_values": MISSING,
        "strings_can_be_null": True,
    }
    for block in read_records(shard):
        uneven = _Uneven(shard.name, block, unfit)
        table = _table(shard, block, names, columns, unfit and uneven)
        uneven.require_all(table.num_rows)
        yield from table.to_batches()


def _table(shard: Any, block: Block, names: Any, columns: dict[str, Any], unfit: Unfit) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    # Without threads pyarrow knows the number of a row that does not fit.
    options = csv.ReadOptions(
        use_threads=unfit is None,
        block_size=block.parse_bytes,
        column_names=names if block.first else None,
    )
    return csv.read_csv(
        pa.BufferReader(block.text),
        read_options=options,
        parse_options=csv.ParseOptions(
            delimiter=shard.separator, newlines_in_values=True, invalid_row_handler=unfit
        ),
        convert_options=csv.ConvertOptions(**columns),
    )


class _Uneven:
    """Asks what to do with the rows of a block that do not fit the header, and counts them."""

    def __init__(self, name: str, block: Block, unfit: Unfit) -> None:
        self.name = name
        self.block = block
        self.unfit = unfit
        self.count = 0
        self.cut = ""

    def __call__(self, row: Any) -> str:
        assert self.unfit is not None  # noqa: S101  (else pyarrow is not told of this)
        self.count += 1
        number = self.block.first + row.number
        is_last = self.block.is_cut and row.number == self.block.count
        if is_last and row.actual_columns < row.expected_columns:
            self.cut = (
                f"{self.name}, row {number - 1:,}: The file ends inside this row, which has "
                f"{row.actual_columns} values of {row.expected_columns}. Write it whole, or end it "
                "with a line, and it is a row like others."
            )
        return self.unfit(row._replace(number=number))

    def require_all(self, rows: int) -> None:
        """Require that all rows of the block were read, but for those that were skipped."""
        if self.cut:
            raise InputError(self.cut)
        held = self.block.count - (self.block.first == 0)
        if rows + self.count != held:
            raise InputError(
                f"{self.name}, rows {self.block.first or 1:,} and later: {rows + self.count:,} of "
                f"{held:,} rows can be read. Write the file again."
            )


NO_OBJECT = re.compile(rb"\n[ \t\r]*[^ \t\r\n{]")
"""The start of a line that holds no object; its first letter lets it be found quickly."""
NO_OBJECT_FIRST = re.compile(rb"[ \t\r\n]*[^ \t\r\n{]")
BEHIND_OBJECT = re.compile(rb"\}[ \t\r]*[^ \t\r\n,}\]]")
"""What follows an object in its line, or in a text."""
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')
DEEPEST = 200
"""Lists and objects that a value may stand in."""


def json_blocks(shard: Any, schema: Any = None) -> Iterator[Any]:
    """Read a file as record batches: all columns with types of their own, or those of a schema.

    Raises
    ------
    InputError
        A line is no JSON object; the message names its row.
    """
    from pyarrow import json as arrow_json

    parse = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    for block in read_records(shard):
        table = _json_table(shard, block, None if schema is None else parse)
        yield from (table if schema is None else table.select(schema.names)).to_batches()


def json_schema(shard: Any) -> Any:
    """Return names and types of the columns of a file's first block, or None if it has no lines."""
    batch = next(json_blocks(shard), None)
    return None if batch is None else batch.schema


def lines_of(shard: Any) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that hold an object, with the numbers of their rows."""
    for block in read_records(shard):
        yield from _lines(block)


def without_times(kind: Any) -> Any:
    """Return a type that leaves as text what pyarrow takes for dates and times.

    >>> import pyarrow as pa
    >>> without_times(pa.time32("s")), without_times(pa.list_(pa.timestamp("s")))
    (DataType(string), ListType(list<item: string>))
    """
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, without_times(field.type)) for field in kind])
    return kind


def _json_table(shard: Any, block: Block, parse: Any) -> Any:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    if _is_strange(block):
        _require_objects(shard, block)
    options = arrow_json.ReadOptions(block_size=block.parse_bytes)
    try:
        table = arrow_json.read_json(pa.BufferReader(block.text), options, parse)
    except pa.ArrowInvalid as error:
        _require_objects(shard, block)
        _refuse(shard, block, re.sub(r" in row \d+$", "", str(error)))
    if table.num_rows != block.count:
        _require_objects(shard, block)
        _refuse(shard, block, f"{table.num_rows:,} of {block.count:,} rows can be read")
    return table


def _refuse(shard: Any, block: Block, reason: str) -> NoReturn:
    rows = f"rows {block.first + 1:,} to {block.first + block.count:,}"
    raise InputError(f"{shard.name} cannot be read as json, {rows}: {reason:.300}.")


def _is_strange(block: Block) -> bool:
    """Whether a line may be something else than one object, or may be nested deeply."""
    text = block.text
    if NO_OBJECT_FIRST.match(text) or NO_OBJECT.search(text) or BEHIND_OBJECT.search(text):
        return True
    # Counting is quick and may count too many, within texts; lines are then looked at one by one.
    openers = text.count(b"[") + text.count(b"{")
    return openers > block.count + DEEPEST


def _require_objects(shard: Any, block: Block) -> None:
    for row, line in _lines(block):
        reason = _flaw(line)
        if reason:
            cut = (
                " The file ends inside this line." if block.is_cut and _is_last(block, row) else ""
            )
            raise InputError(
                f"{shard.name} cannot be read as json, row {row:,}: {reason}.{cut} "
                "Each line must hold one object."
            )


def _is_last(block: Block, row: int) -> bool:
    return row == block.first + block.count


def _lines(block: Block) -> Iterator[tuple[int, bytes]]:
    return enumerate(filter(bytes.strip, block.text.split(b"\n")), block.first + 1)


def _flaw(line: bytes) -> str:
    """Say why a line is not one JSON object that pyarrow may read; "" of others."""
    if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
        return f"it holds lists or objects within each other, more than {DEEPEST} deep"
    try:
        value = json.loads(line.decode())
    except ValueError as error:
        return str(error)
    return (
        "" if isinstance(value, dict) else f"it holds {json.dumps(value):.30}, which is no object"
    )


def _depth(line: bytes) -> int:
    depth = deepest = 0
    for token in TOKEN.finditer(line):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        deepest = max(deepest, depth)
    return deepest
