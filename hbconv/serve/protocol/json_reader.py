"""JSON as Python values, by one call to its reader for a document, or for a part of one."""

from __future__ import annotations

import re
from typing import Any

import orjson

from hbconv.errors import InputError, shown

__all__ = ["read_json", "read_part"]

_BARE = re.compile(rb"[\s\[:,](?:NaN|-?Infinity)\b")
"""What Python's json writes and JSON does not have."""
NEAR = 30
"""Characters before and behind what is wrong in a part, which are quoted."""


def read_json(data: bytes | bytearray) -> Any:
    """Read JSON; it is bounded in depth by its reader.

    Raises
    ------
    InputError
        It is no JSON, or no UTF-8.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _no_json(data, str(error)) from error


def read_part(data: bytes) -> Any:
    """Read a part of a document, in which lines and columns would tell of the part alone.

    Raises
    ------
    InputError
        It is no JSON, or no UTF-8.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        near = error.doc[max(error.pos - NEAR, 0) : error.pos + NEAR]
        raise _no_json(data, f"{error.msg}, near {shown(near)}" if near else error.msg) from error


def _no_json(data: bytes | bytearray, why: str) -> InputError:
    hint = ' Write null for NaN, and "Infinity" as a text.' if _BARE.search(data) else ""
    return InputError(f"The request is no JSON: {why}.{hint}")
