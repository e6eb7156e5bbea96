"""JSON of answers by pieces: long lists are written a little at a time, as long ones are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

__all__ = ["HOLE", "PIECE_VALUES", "filled", "written_by_pieces"]

PIECE_VALUES = 1 << 14
"""Values that are written by one call."""
_MARK = b"\0"
HOLE = orjson.Fragment(_MARK)
"""Stands in a document for a list that is written by pieces. JSON holds no such byte."""


def written_by_pieces(
    count: int, width: int, values: Callable[[slice], Sequence[Any]]
) -> Iterator[bytes]:
    """Write the values of some rows, each of so many values, as a list."""
    step = max(PIECE_VALUES // max(width, 1), 1)
    comma = b"["
    for start in range(0, count, step):
        yield comma + orjson.dumps(values(slice(start, start + step)), default=str)[1:-1]
        comma = b","
    yield b"]" if count else b"[]"


def filled(document: Any, lists: Sequence[Iterable[bytes]]) -> list[bytes]:
    """Return a document in parts, with lists in the place of its holes."""
    if not lists:
        return [orjson.dumps(document, default=str)]
    first, *others = orjson.dumps(document, default=str).split(_MARK)
    parts = [first]
    for found, after in zip(lists, others, strict=True):
        parts.extend(found)
        parts.append(after)
    return parts
