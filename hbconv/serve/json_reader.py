"""JSON as Python values, by one call to its reader."""

from __future__ import annotations

import re
from typing import Any

import orjson

from hbconv.errors import InputError

__all__ = ["read_json"]

_BARE = re.compile(rb"[\s\[:,](?:NaN|-?Infinity)\b")
"""What Python's json writes and JSON does not have."""


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
        hint = ' Write null for NaN, and "Infinity" as a text.' if _BARE.search(data) else ""
        raise InputError(f"The request is no JSON: {error}.{hint}") from error
