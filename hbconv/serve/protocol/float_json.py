"""JSON of many floats: its lists become arrays without an object for each number."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import simdjson

__all__ = ["has_floats", "read_float_json"]

LONG_BYTES = 8 << 10
"""Shorter documents are read as fast with an object for each number."""
SAMPLE_BYTES = 4 << 10
MOST_BYTES = 8 << 20
"""Each thread keeps the memory to read a document of this size, which has some times this size."""
_FLOATS = frozenset({"FP16", "FP32", "FP64"})
_own = threading.local()


def has_floats(data: bytes | bytearray) -> bool:
    """Tell whether a document is read with less time and memory to arrays, by a part of it.

    The ordinary reader makes no object for an int up to 256.

    Examples
    --------
    >>> has_floats(b"0.5," * 5000), has_floats(b"1234567," * 5000), has_floats(b"7, " * 5000)
    (True, True, False)
    """
    if not LONG_BYTES < len(data) <= MOST_BYTES:
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
    if not hasattr(_own, "parser"):
        _own.parser = simdjson.Parser(MOST_BYTES)
    try:
        return _read(_own.parser.parse(data), data.count(b"["))
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError):
        return None


def _read(document: Any, lists: int) -> Any:
    """Read a document, in which so many lists begin; texts may seem to begin some, too."""
    inputs = document["inputs"]
    flat = [document.get("outputs"), *(one[name] for one in inputs for name in ("shape", "data"))]
    if lists != 1 + sum(isinstance(value, simdjson.Array) for value in flat):
        return None
    return _plain(document) | {"inputs": [_plain(one) | {"data": _floats(one)} for one in inputs]}


def _plain(found: Any) -> dict[str, Any]:
    """Return all of an object but its long lists."""
    names = [*found.keys()]
    if len(set(names)) < len(names):
        raise ValueError("A name is there twice, and each reader takes another one.")
    return {name: _as_python(found[name]) for name in names if name not in ("inputs", "data")}


def _as_python(value: Any) -> Any:
    if isinstance(value, simdjson.Object):
        return value.as_dict()
    return value.as_list() if isinstance(value, simdjson.Array) else value


def _floats(one: Any) -> npt.NDArray[np.float64]:
    if one["datatype"] not in _FLOATS:
        raise TypeError("A float does not hold all ints.")
    return np.frombuffer(one["data"].as_buffer(of_type="d"))
