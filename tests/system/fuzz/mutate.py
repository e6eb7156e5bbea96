"""Damage: bytes, JSON documents, texts of numbers and arrays, changed at random by a seeded
generator.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["HOSTILE", "mutate_array", "mutate_bytes", "mutate_json", "mutate_text"]

Rng = np.random.Generator

HOSTILE: tuple[Any, ...] = (
    0, 1, -1, 2, 3, 7, 100, 255, 65_536, 2**24, 10**9, 2**31 - 1, -(2**31), 2**31, 2**32, 2**63 - 1,
    -(2**63), 2**70, 10**400,
    0.0, -0.0, 0.5, 1e-300, 1e300, -1.5, float("nan"), float("inf"), float("-inf"),
    None, True, False, "", "a", "x" * 5000, "\x00", "é日本", "float64", "-1", "nan", [], {}, [[]],
    [None], {"a": 1},
)  # fmt: skip
"""Values where others are expected."""

TOKENS = (
    "-1",
    "0",
    "1",
    "999999999",
    "99999999999999999999",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "",
    "x",
    "é",
    "\x00",
    "1 2 3",
    "=",
    "\n",
    "0x10",
)
"""What may stand where a number does."""

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
)


def mutate_bytes(data: bytes, rng: Rng) -> bytes:
    """Flip, overwrite, cut, repeat, move or insert bytes at one to four places."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        out = _damaged(out, rng) if out else out
    return bytes(out)


def _damaged(out: bytearray, rng: Rng) -> bytearray:
    at, size = int(rng.integers(len(out))), int(rng.choice([1, 2, 4, 8, 64, 1000]))
    kind = rng.choice(["flip", "overwrite", "cut", "truncate", "repeat", "insert", "move"])
    if kind == "flip":
        out[at] ^= 1 << int(rng.integers(8))
    elif kind == "overwrite":
        out[at : at + size] = bytes([int(rng.choice([0, 255, 127, 128, 10, 32]))]) * len(
            out[at : at + size]
        )
    elif kind == "cut":
        del out[at : at + size]
    elif kind == "truncate":
        del out[at:]
    elif kind == "repeat":
        out[at:at] = out[at : at + size]
    elif kind == "insert":
        out[at:at] = rng.bytes(size)
    else:
        to = int(rng.integers(len(out)))
        out[to : to + size] = out[at : at + size]
    return out


def mutate_text(text: str, rng: Rng) -> str:
    """Replace, remove or exchange a few numbers or lines of a text."""
    if rng.random() < 0.3:
        lines = text.split("\n")
        one, other = (int(i) for i in rng.integers(len(lines), size=2))
        lines[one : one + 1] = [
            [],
            [lines[other]],
            [lines[one], lines[one]],
            [lines[one][: len(lines[one]) // 2]],
        ][rng.integers(4)]
        return "\n".join(lines)
    for _ in range(rng.integers(1, 4)):
        found = list(re.finditer(r"[-+.\w]+", text))
        if found:
            start, end = found[rng.integers(len(found))].span()
            other = found[rng.integers(len(found))].group()
            text = (
                text[:start]
                + str(rng.choice([str(rng.choice(np.array(TOKENS, object))), other]))
                + text[end:]
            )
    return text


def mutate_json(document: Any, rng: Rng) -> Any:
    """Change one place of a document: another value, none, twice, one from elsewhere in it, or
    one of the same key.
    """
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places:
        return document
    owner, key = places[rng.integers(len(places))]
    kind = rng.choice(["hostile", "near", "elsewhere", "alike", "alike", "remove", "twice", "deep"])
    if kind == "hostile":
        owner[key] = HOSTILE[rng.integers(len(HOSTILE))]
    elif kind == "near":
        owner[key] = _near(owner[key], rng)
    elif kind in ("elsewhere", "alike"):
        others = [
            (o, k) for o, k in places if kind == "elsewhere" or (k == key and o is not owner)
        ] or places
        other, place = others[rng.integers(len(others))]
        owner[key] = copy.deepcopy(other[place])
    elif kind == "remove":
        del owner[key]
    elif kind == "twice":
        _repeat(owner, key, rng)
    else:
        owner[key] = _nested(owner[key], int(rng.choice([2, 50, 3000])), rng)
    return document


def _places(document: Any) -> Any:
    """Yield each container and key under which something stands."""
    pending = [document]
    while pending:
        owner = pending.pop()
        keys = (
            list(owner)
            if isinstance(owner, dict)
            else range(len(owner))
            if isinstance(owner, list)
            else ()
        )
        for key in keys:
            yield owner, key
            pending.append(owner[key])


def _near(value: Any, rng: Rng) -> Any:
    """Return a value of the same type, a little off."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + int(rng.choice([-2, -1, 1, 2])) if rng.random() < 0.7 else -value
    if isinstance(value, str):
        return str(rng.choice([value[:-1], value + "x", value.upper(), value * 2]))
    if isinstance(value, list):
        return value[: len(value) // 2] if rng.random() < 0.5 else list(reversed(value))
    return value


def _repeat(owner: Any, key: Any, rng: Rng) -> None:
    """Put what stands there beside itself too; a list may come many times."""
    if isinstance(owner, list):
        owner[key:key] = [owner[key]] * int(rng.choice([1, 2, 100]))
    elif isinstance(owner[key], list):
        owner[key] = owner[key] * int(rng.choice([2, 3, 50]))
    else:
        owner[f"{key}2"] = owner[key]


def _nested(value: Any, depth: int, rng: Rng) -> Any:
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"tuple": [value]}
    return value


def mutate_array(array: npt.NDArray[Any], rng: Rng) -> npt.NDArray[Any]:
    """Change a number (of records: in one field) or all, the length, the shape, the order or
    the dtype.
    """
    array = array.copy()
    kind = rng.choice(
        [
            "one",
            "one",
            "one",
            "some",
            "all",
            "shorter",
            "longer",
            "shape",
            "dtype",
            "order",
            "empty",
        ]
    )
    if kind in ("one", "some", "all") and array.size:
        at = {
            "one": rng.integers(array.size),
            "some": rng.integers(array.size, size=5),
            "all": slice(None),
        }[str(kind)]
        part = array[str(rng.choice(array.dtype.names))] if array.dtype.names else array
        part.reshape(-1)[at] = _number(part, rng)
    elif kind == "shorter":
        array = array[: len(array) // 2] if array.ndim else array
    elif kind == "longer":
        array = np.concatenate([array, array]) if array.ndim else array[None]
    elif kind == "shape":
        array = [array.reshape(-1), array[None], array[..., None], array.T][rng.integers(4)]
    elif kind == "dtype" and not array.dtype.names:
        with np.errstate(all="ignore"):
            array = array.astype(str(rng.choice(DTYPES)))
    elif kind == "order":
        array = array[::-1] if array.ndim else array
    elif kind == "empty":
        array = array[:0] if array.ndim else array
    return np.array(array, order="C")


def _number(array: npt.NDArray[Any], rng: Rng) -> Any:
    """Return a number that the array can hold: one of its own, a neighbour of one, or an
    extreme.
    """
    own = array.reshape(-1)[rng.integers(array.size)]
    if array.dtype.kind == "b":
        return not own
    if array.dtype.kind == "f":
        return rng.choice(
            np.array(
                [own, -own, 0.0, np.nan, np.inf, -np.inf, 0.5, np.finfo(array.dtype).max],
                array.dtype,
            )
        )
    info = np.iinfo(array.dtype)
    near = [
        int(own),
        max(int(own) - 1, info.min),
        min(int(own) + 1, info.max),
        0,
        1,
        max(-1, info.min),
        max(-int(array.size), info.min),
        100,
    ]
    return [*near, info.max, info.min][rng.integers(len(near) + 2)]
