"""JSON documents: short ones by one call, long ones by pieces, and many floats into arrays.

While the reader works, no other thread of Python does, nor the loop that answers probes. And what
it makes takes up to 50 times the bytes of the document. So a long list is cut at its own commas,
and each piece is turned into what it is for before the next one is read. Long lists of responses
are written by pieces too.

Where a list is cut needs no trust: if each piece is a list by itself, they are one list together.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from hbconv.errors import InputError, shown
from hbconv.serve.http.messages import LONG_BYTES

try:
    import simdjson
except ImportError:  # Python 3.14 has no wheel of it: orjson reads all documents.
    simdjson = None  # type: ignore[assignment]

__all__ = [
    "HOLE",
    "PIECE_VALUES",
    "LongList",
    "LongLists",
    "cut_pieces",
    "fill_holes",
    "has_floats",
    "read_document",
    "read_float_json",
    "read_json",
    "read_long_json",
    "require_few_lists",
    "write_by_pieces",
]

_BARE = re.compile(rb"[\s\[:,](?:NaN|-?Infinity)\b")
"""What Python's json writes and JSON does not have."""
NEAR = 30
"""Characters before and behind what is wrong, which are quoted."""

PIECE_BYTES = 64 << 10
"""orjson makes lists within lists of so many bytes in about 3 ms."""
MOST_VALUE_BYTES = 1 << 20
"""Size of an element of a list, and of all of an object but its long lists."""
MOST_SPACE_BYTES = 1024
"""White space around a document, or a long list in it."""
ENDS = 20
"""Bytes at each end of what is no list and no object, which are quoted."""
_SPACE = b" \t\n\r"
_NAME = re.compile(rb'[ \t\n\r]*"([^"\\]{0,99})"[ \t\n\r]*:[ \t\n\r]*(?=[\[{])')
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_IS_MARK = _STEPS != 0
_IS_MARK[[_QUOTE, _BACKSLASH, _COMMA]] = True
MANY_BYTES = 8 << 10
"""Shorter documents are read as fast with an object for each number."""
SAMPLE_BYTES = 4 << 10
MOST_BYTES = 8 << 20
"""Each thread keeps the memory to read a document of this size, which has some times this size."""
_FLOATS = frozenset({"FP16", "FP32", "FP64"})
_kept = threading.local()

LongLists = Mapping[str, "LongLists"]
"""Names of lists that may be long, and of objects that hold such lists, with the names of these."""

PIECE_VALUES = 1 << 14
"""Values that are read or written by one call."""
_MARK = b"\0"
HOLE = orjson.Fragment(_MARK)
"""Stands in a document for a list that is written by pieces. JSON holds no such byte."""


def read_document(data: bytes | bytearray, lists: LongLists) -> Any:
    """Read a request whole; of a long one the lists of some names are left unread: ``LongList``.

    Raises
    ------
    InputError
        It is no JSON, or takes too much beside the list.
    """
    return read_long_json(memoryview(data), lists) if len(data) > LONG_BYTES else read_json(data)


def read_json(data: bytes | bytearray) -> Any:
    """Read JSON, or a part of it; it is bounded in depth by its reader.

    An error quotes the text around what is wrong: a line and a column would be those in the part.

    Raises
    ------
    InputError
        It is no JSON, or no UTF-8.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        near = error.doc[max(error.pos - NEAR, 0) : error.pos + NEAR]
        why = f"{error.msg}, near {shown(near)}" if near else error.msg
        hint = (
            ' Write "NaN" in quotes, or null; "Infinity" in quotes, too.'
            if _BARE.search(data)
            else ""
        )
        raise InputError(f"The request is no JSON: {why}.{hint}") from error


@dataclass(frozen=True)
class LongList:
    """A list of JSON that is not read yet.

    Parameters
    ----------
    text : memoryview
        With its brackets.
    """

    text: memoryview

    def pieces(self) -> Iterator[list[Any]]:
        """Read it, some elements at a time.

        Raises
        ------
        InputError
            It is no JSON, or an element is too long.
        """
        count = 0
        for span in _cut_spans(self.text):
            if len(span) > MOST_VALUE_BYTES:
                raise InputError(
                    f"Element {count} of a list takes {len(span):,} bytes of JSON, and the server "
                    f"takes {MOST_VALUE_BYTES:,}."
                )
            piece = _read(b"[%b]", span, len(self.text))
            yield piece
            count += len(piece)

    def objects(self, lists: LongLists) -> Iterator[Any]:
        """Read its elements, but the long lists of some names in each of them.

        Raises
        ------
        InputError
            It is no JSON, or an element takes too much beside the list.
        """
        for span in _cut_spans(self.text):
            if len(span) <= PIECE_BYTES:
                yield from _read(b"[%b]", span, len(self.text))
            else:
                yield read_long_json(span, lists)


def cut_pieces(values: list[Any] | LongList) -> Iterator[list[Any]]:
    """Return a list by pieces; a short one is one piece."""
    return values.pieces() if isinstance(values, LongList) else iter((values,))


def read_long_json(text: memoryview, lists: LongLists) -> dict[str, Any] | LongList:
    """Read an object, but its long lists of some names; or leave a list unread.

    A long object of such a name is read in the same way, by the names within it.

    Raises
    ------
    InputError
        It is no JSON, or takes too much beside the list.
    """
    text = _trim(text)
    if text[0] == ord("["):
        return LongList(text)
    document: dict[str, Any] = {}
    count = 0
    for span in _cut_spans(text):
        is_long = len(span) > PIECE_BYTES
        named = _NAME.match(span) if is_long else None
        name = named[1].decode("utf-8", "replace") if named is not None else ""
        if named is not None and name in lists:
            document[name] = read_long_json(span[named.end() :], lists[name])
            continue
        count += len(span)
        if count > MOST_VALUE_BYTES:
            raise InputError(
                f"The request takes {count:,} bytes of JSON beside its data or more, and the "
                f"server takes {MOST_VALUE_BYTES:,}."
            )
        document |= _read(b"{%b}", span, len(text))
    return document


def _trim(text: memoryview) -> memoryview:
    """Return a list or an object without the white space around it."""
    first, last = bytes(text[:MOST_SPACE_BYTES]), bytes(text[-MOST_SPACE_BYTES:])
    start = len(first) - len(first.lstrip(_SPACE))
    stop = len(text) - len(last) + len(last.rstrip(_SPACE))
    trimmed = text[start:stop]
    if len(trimmed) < 2 or bytes((trimmed[0], trimmed[-1])) not in (b"[]", b"{}"):
        ends = f"{shown(bytes(trimmed[:ENDS]))} and ends with {shown(bytes(trimmed[-ENDS:]))}"
        raise InputError(
            "The request is no JSON: it is no list and no object, or is cut off. "
            f"It begins with {ends}."
        )
    return trimmed


def _read(form: bytes, span: memoryview, whole: int) -> Any:
    """Read a part of a list or an object of so many bytes."""
    values = read_json(form % span)
    # Only all of the list may hold nothing: an empty part is what is between two commas.
    if not values and len(span) < whole - 2:
        raise InputError("The request is no JSON: a comma stands where a value is expected.")
    return values


def _cut_spans(text: memoryview) -> Iterator[memoryview]:
    """Cut a list or an object at its commas: a part of more than a piece is one element."""
    start = 1
    for commas in _find_commas(text):
        first, last = int(commas[0]), int(commas[-1])
        if last - start > PIECE_BYTES:
            yield text[start:first]
            start = first + 1
        if last >= start:
            yield text[start:last]
            start = last + 1
    yield text[start:-1]


def _find_commas(text: memoryview) -> Iterator[npt.NDArray[np.int64]]:
    """Find the commas between the elements, some places at a time.

    1. Marks are quotes, backslashes, commas and brackets.
    2. A quote behind an odd number of backslashes is none.
    3. A mark is within a text behind an odd number of quotes.
    4. Brackets outside of texts tell the depth.
    """
    depth, in_text, backslashes = 0, 0, 0
    for start in range(0, len(text), PIECE_BYTES):
        data = np.frombuffer(text[start : start + PIECE_BYTES], np.uint8)
        places = np.flatnonzero(_IS_MARK[data])  # 1
        marks = data[places]
        quotes = marks == _QUOTE
        before = _count_backslashes(data, backslashes)
        quotes &= before[places] % 2 == 0  # 2
        backslashes = int(before[-1]) % 2
        if not len(places):
            continue
        within = (np.cumsum(quotes) + in_text) % 2  # 3
        depths = np.cumsum(np.where(within, 0, _STEPS[marks])) + depth  # 4
        depth, in_text = int(depths[-1]), int(within[-1])
        commas = places[(marks == _COMMA) & (within == 0) & (depths == 1)]
        if len(commas):
            yield commas + start


def _count_backslashes(data: npt.NDArray[np.uint8], carried: int) -> npt.NDArray[np.int64]:
    """Count the backslashes in a row before each byte and the end, where some were there before."""
    places = np.arange(len(data))
    other = np.where(data == _BACKSLASH, -1 - carried, places)
    last = np.maximum.accumulate(np.concatenate(([-1 - carried], other)))
    return np.arange(len(data) + 1) - 1 - last


def require_few_lists(data: bytes | bytearray, most: int) -> None:
    """Refuse a document of many lists and objects, each of which takes up to 250 bytes of memory.

    Raises
    ------
    InputError
        There are too many.
    """
    parts = (
        np.frombuffer(data, np.uint8, min(MOST_VALUE_BYTES, len(data) - start), start)
        for start in range(0, len(data), MOST_VALUE_BYTES)
    )
    count = sum(int(np.count_nonzero(_STEPS[part] > 0)) for part in parts)
    if count > most:
        raise InputError(
            f"The request has {count:,} lists and objects, and the server takes {most:,}."
        )


def has_floats(data: bytes | bytearray) -> bool:
    """Tell whether a document is read with less time and memory to arrays, by a part of it.

    The ordinary reader makes no object for an int up to 256. Without simdjson it reads them all.

    Examples
    --------
    >>> has_floats(b"0.5," * 5000), has_floats(b"1234567," * 5000), has_floats(b"7, " * 5000)
    (True, True, False)
    """
    if simdjson is None or not MANY_BYTES < len(data) <= MOST_BYTES:
        return False
    middle = len(data) // 2
    sample = data[middle : middle + SAMPLE_BYTES]
    numbers = sample.count(b",") + 1
    return 3 * sample.count(b".") >= numbers or len(sample) > 5 * numbers


def read_float_json(data: bytes | bytearray) -> Any:
    """Read a request of the Open Inference Protocol, if all its data are flat lists of floats.

    Returns None for every other document, which is to be read in the ordinary way. The reader
    refuses a list of anything but numbers, and lists within lists show by their brackets.

    Examples
    --------
    >>> body = b'{"inputs": [{"datatype": "FP64", "shape": [3], "data": [1, 0.5, 2]}]}'
    >>> read_float_json(body)["inputs"][0]["data"]
    array([1. , 0.5, 2. ])
    >>> read_float_json(body.replace(b"0.5", b"[0.5]"))
    """
    if not hasattr(_kept, "parser"):
        _kept.parser = simdjson.Parser(MOST_BYTES)
    try:
        return _read_floats(_kept.parser.parse(data), data.count(b"["))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return None


def _read_floats(document: Any, lists: int) -> Any:
    """Read a document, in which so many lists begin; texts may seem to begin some, too."""
    inputs = document["inputs"]
    flat = [document.get("outputs"), *(item[name] for item in inputs for name in ("shape", "data"))]
    if lists != 1 + sum(isinstance(value, simdjson.Array) for value in flat):
        return None
    tensors = [_read_plain(item) | {"data": _read_data(item)} for item in inputs]
    return _read_plain(document) | {"inputs": tensors}


def _read_plain(document: Any) -> dict[str, Any]:
    """Return all of an object but its long lists."""
    names = [*document.keys()]
    if len(set(names)) < len(names):
        raise ValueError("A name is there twice, and each reader takes another one.")
    return {name: _as_python(document[name]) for name in names if name not in ("inputs", "data")}


def _as_python(value: Any) -> Any:
    if isinstance(value, simdjson.Object):
        return value.as_dict()
    return value.as_list() if isinstance(value, simdjson.Array) else value


def _read_data(tensor: Any) -> npt.NDArray[np.float64]:
    if tensor["datatype"] not in _FLOATS:
        raise TypeError("A float does not hold all ints.")
    return np.frombuffer(tensor["data"].as_buffer(of_type="d"))


def write_by_pieces(
    count: int, width: int, values: Callable[[slice], Sequence[Any]]
) -> Iterator[bytes]:
    """Write the values of some rows, each of ``width`` values, as a list."""
    step = max(PIECE_VALUES // max(width, 1), 1)
    comma = b"["
    for start in range(0, count, step):
        yield comma + orjson.dumps(values(slice(start, start + step)), default=str)[1:-1]
        comma = b","
    yield b"]" if count else b"[]"


def fill_holes(document: Any, lists: Sequence[Iterable[bytes]]) -> list[bytes]:
    """Return a document in parts, with lists in the place of its holes."""
    if not lists:
        return [orjson.dumps(document, default=str)]
    first, *others = orjson.dumps(document, default=str).split(_MARK)
    parts = [first]
    for pieces, after in zip(lists, others, strict=True):
        parts.extend(pieces)
        parts.append(after)
    return parts
