"""Cut the text of CSV and JSON lines files into blocks of whole records, and count them.

What a parser makes of a block is held against the count. A file that ends inside a quote or a
compressed block is refused with the row where that began.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.errors import InputError

__all__ = ["Block", "read_records"]

BLOCK_BYTES = 4 << 20
"""Bytes of text that are parsed at a time."""
RECORD_BYTES = 16 << 20
"""Bytes that a record may have. A quote that nobody closes takes no more memory than this."""
QUOTED = re.compile(rb'"(?<![^,\r\n]")[^"]*+(?:""[^"]*+)*+("|\Z)')
"""A field in quotes. A quote opens one at the start of a field alone, as in pandas and pyarrow."""
QUOTE = ord('"')
BEFORE_FIELDS = np.frombuffer(b',\r\n"', np.uint8)
"""What stands before a quote that opens a field, or that goes on with one as the second of two."""
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
    cutter = _Cutter(shard.name, shard.kind)
    for data in _decoded(shard, cutter):
        block = cutter.take(data)
        if block.count:
            yield block
        if len(cutter.rest) > RECORD_BYTES:
            is_open = cutter.opened() is not None
            error = cutter.quote_error if is_open else cutter.error
            raise error(f"The row exceeds {RECORD_BYTES >> 20} MB.")
    if cutter.rest.strip(BLANK[shard.kind]):
        if cutter.opened() is not None:
            raise cutter.quote_error("The file ends before it closes a quote.")
        size = len(cutter.rest)
        yield Block(cutter.rest + b"\n", cutter.done, 1, size, is_cut=True)


@dataclass
class _Cutter:
    """Cuts text into whole records.

    Parameters
    ----------
    name, kind : str
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
    done: int = 0
    rest: bytes = b""
    head: bytes = b""

    def take(self, data: bytes) -> Block:
        """Return the records that end in some more text."""
        text = self.rest + data
        ends = _csv_ends(text) if self.kind == "csv" else _line_ends(text)
        cut = int(ends[-1]) + 1 if ends.size else 0
        sizes = np.diff(ends, prepend=-1)
        count = int(np.count_nonzero(sizes > 1))
        if self.kind == "json":
            count = sum(1 for line in text[:cut].split(b"\n") if line.strip(BLANK["json"]))
        block = Block(text[:cut], self.done, count, int(sizes.max(initial=0)))
        self.head = self.head or block.text
        self.rest = text[cut:]
        self.done += count
        return block

    def opened(self) -> int | None:
        """Return where a quote opens in the rest that is not closed in it, or None."""
        if self.kind != "csv":
            return None
        return next((q.start() for q in QUOTED.finditer(self.rest) if not q[1]), None)

    def error(self, reason: str) -> InputError:
        """Return an error about the record that is begun, and the column that it has reached."""
        return InputError(f"{self.name}, {self._row()}{self._column()}: {reason}")

    def quote_error(self, reason: str) -> InputError:
        """Return the error about a quote that is not closed, at the column where it opens."""
        self.rest = self.rest[: self.opened()]
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
        names = next(filter(None, csv.reader(text)), [])
        place = _masked(self.rest).count(b",")
        return f", column {names[place]!r}" if place < len(names) else ""


def _line_ends(text: bytes) -> Any:
    return np.flatnonzero(np.frombuffer(text, np.uint8) == 10)


def _csv_ends(text: bytes) -> Any:
    """Return the places where lines end outside quotes.

    1. Where each second quote opens a field, an even number of quotes stands before such an end.
       A quote within a field is written twice, so it counts as none.
    2. Other quotes are letters of their field. Then all that stands in quotes is masked first.
    """
    letters = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(letters == QUOTE)
    opening = quotes[::2]
    if not np.isin(letters[opening[opening > 0] - 1], BEFORE_FIELDS).all():  # 2.
        return _csv_ends(_masked(text).replace(b'"', b"_"))
    ends = _line_ends(text)
    if b"\r" in text:
        ends = np.flatnonzero((letters == 10) | (letters == 13))
    return ends[np.searchsorted(quotes, ends) % 2 == 0]  # 1.


def _masked(text: bytes) -> bytes:
    r"""Write quotes for all that stands in quotes.

    >>> _masked(b'1,"a,""b\n",5" of,"c').replace(b'"', b'#')
    b'1,########,5# of,##'
    """
    return QUOTED.sub(lambda field: b'"' * len(field[0]), text)


def _decoded(shard: Any, cutter: _Cutter) -> Iterator[bytes]:
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
