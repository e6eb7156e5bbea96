"""JSON by pieces: a long document is read a little at a time, so no call to its reader is long.

While the reader works, no other thread of Python does, nor the loop that answers probes. And what
it makes takes up to 50 times the bytes of the document. So a long list is cut at its own commas,
and each piece is turned into what it is for before the next one is read.

Where it is cut needs no trust: if each piece is a list by itself, they are one list together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, shown
from hbconv.serve.protocol.json_reader import read_part

__all__ = ["PIECE_BYTES", "LongList", "pieces_of", "read_long_json", "require_few_lists"]

PIECE_BYTES = 64 << 10
"""orjson makes lists within lists of so many bytes in about 3 ms."""
MOST_VALUE_BYTES = 1 << 20
"""Size of an element of a list, and of all of an object but its long lists."""
MOST_SPACE_BYTES = 1024
"""White space around a document, or a long list in it."""
ENDS = 20
"""Bytes at each end of what is no list and no object, which are quoted."""
_SPACE = b" \t\n\r"
_NAME = re.compile(rb'[ \t\n\r]*"([^"\\]{0,99})"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1
_IS_MARK = _STEPS != 0
_IS_MARK[[_QUOTE, _BACKSLASH, _COMMA]] = True


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
        for span in _spans(self.text):
            if len(span) > MOST_VALUE_BYTES:
                raise InputError(
                    f"Element {count} of a list takes {len(span):,} bytes of JSON, and the server "
                    f"takes {MOST_VALUE_BYTES:,}."
                )
            found = _read(b"[%b]", span, len(self.text))
            yield found
            count += len(found)

    def objects(self, name: str) -> Iterator[Any]:
        """Read its elements, but the long list of some name in each of them.

        Raises
        ------
        InputError
            It is no JSON, or an element takes too much beside the list.
        """
        for span in _spans(self.text):
            if len(span) <= PIECE_BYTES:
                yield from _read(b"[%b]", span, len(self.text))
            else:
                yield read_long_json(span, name)


def pieces_of(values: list[Any] | LongList) -> Iterator[list[Any]]:
    """Return a list by pieces; a short one is one piece."""
    return values.pieces() if isinstance(values, LongList) else iter((values,))


def read_long_json(text: memoryview, name: str) -> dict[str, Any] | LongList:
    """Read an object, but its long list of some name; or leave a list unread.

    Raises
    ------
    InputError
        It is no JSON, or takes too much beside the list.
    """
    text = _trimmed(text)
    if text[0] == ord("["):
        return LongList(text)
    found: dict[str, Any] = {}
    count = 0
    for span in _spans(text):
        is_long = len(span) > PIECE_BYTES
        named = _NAME.match(span) if is_long else None
        if named is not None and named[1] == name.encode():
            found[name] = LongList(_trimmed(span[named.end() :]))
            continue
        count += len(span)
        if count > MOST_VALUE_BYTES:
            raise InputError(
                f"The request takes {count:,} bytes of JSON beside its data or more, and the "
                f"server takes {MOST_VALUE_BYTES:,}."
            )
        found |= _read(b"{%b}", span, len(text))
    return found


def _trimmed(text: memoryview) -> memoryview:
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
    found = read_part(form % span)
    if not found and len(span) < whole - 2:
        raise InputError("The request is no JSON: a comma stands where a value is expected.")
    return found


def _spans(text: memoryview) -> Iterator[memoryview]:
    """Cut a list or an object at its commas: a part of more than a piece is one element."""
    start = 1
    for commas in _commas(text):
        first, last = int(commas[0]), int(commas[-1])
        if last - start > PIECE_BYTES:
            yield text[start:first]
            start = first + 1
        if last >= start:
            yield text[start:last]
            start = last + 1
    yield text[start:-1]


def _commas(text: memoryview) -> Iterator[npt.NDArray[np.int64]]:
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
        before = _backslashes_before(data, backslashes)
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


def _backslashes_before(data: npt.NDArray[np.uint8], carried: int) -> npt.NDArray[np.int64]:
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
