"""Texts of tree libraries by their grammar: each key, at any place, with a value that hurts.

What hbconv and the library both read, they answer alike; the library is asked in a child process.
"""

from __future__ import annotations

import json
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from fuzz.files import FILES, sized
from fuzz.mutate import mutate_bytes
from fuzz.runner import Subject
from fuzz.treelite_models import TREELITE

from attack_files.values import hostile

__all__ = ["TEXT_KEYS", "ubjson"]

Rng = np.random.Generator
Place = tuple[Any, Any]
"""A container, and the key or position of what it holds."""

LINES = ("drop", "twice", "swap", "empty")


def other_json(data: bytes, rng: Rng) -> bytes:
    """Change the value at one path, drop it, or take that of another place of the path."""
    document = json.loads(data)
    paths = sorted(_paths(document).items(), key=lambda item: item[0])
    _, places = paths[rng.integers(len(paths))]
    holder, key = places[rng.integers(len(places))]
    kind = rng.random()
    if kind < 0.1:
        del holder[key]
    elif kind < 0.25:
        other, place = places[rng.integers(len(places))]
        holder[key] = other[place]
    else:
        holder[key] = _as_written(holder[key], rng)
    return json.dumps(document).encode()


def _as_written(value: Any, rng: Rng) -> Any:
    """Return a hostile value; numbers in texts, as XGBoost writes them, stay texts."""
    if isinstance(value, str) and re.fullmatch(r"[-+.\dE]+", value) and rng.random() < 0.8:
        return str(hostile(float(value) if "." in value or "E" in value else int(value), rng))
    return hostile(value, rng)


def _paths(document: Any) -> dict[str, list[Place]]:
    """Return all places by their path, in which any position is ``#``."""
    found = defaultdict(list)
    waiting: list[tuple[str, Any]] = [("", document)]
    while waiting:
        path, held = waiting.pop()
        keys = list(held) if isinstance(held, dict) else range(len(held))
        for key in keys:
            below = f"{path}/{key if isinstance(held, dict) else '#'}"
            found[below].append((held, key))
            if isinstance(held[key], dict | list):
                waiting.append((below, held[key]))
    return found


def other_ubjson(data: bytes, rng: Rng) -> bytes:
    """Write a changed JSON as UBJSON."""
    return b"".join(ubjson(json.loads(other_json(data, rng))))


def ubjson(value: Any) -> Iterator[bytes]:
    """Write a document as UBJSON, part by part."""
    if value is None or isinstance(value, bool):
        yield {None: b"Z", True: b"T", False: b"F"}[value]
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        yield struct.pack(">cq", b"L", value)
    elif isinstance(value, int | float):
        yield struct.pack(">cd", b"D", float(value))
    elif isinstance(value, str):
        text = value.encode("utf-8", "surrogatepass")
        yield struct.pack(">ccq", b"S", b"L", len(text)) + text
    elif isinstance(value, dict):
        yield b"{"
        for key, held in value.items():
            text = key.encode("utf-8", "surrogatepass")
            yield struct.pack(">cq", b"L", len(text)) + text
            yield from ubjson(held)
        yield b"}"
    else:
        yield b"["
        for held in value:
            yield from ubjson(held)
        yield b"]"


def other_lightgbm(data: bytes, rng: Rng) -> bytes:
    """Change the value of one key, or the line: of the header, or of any tree."""
    lines = data.decode().split("\n")
    keys = defaultdict(list)
    for place, line in enumerate(lines):
        if "=" in line:
            keys[line.partition("=")[0]].append(place)
    named = sorted(keys.items())
    key, places = named[rng.integers(len(named))]
    place = int(rng.choice(places))
    if rng.random() < 0.2:
        _change_line(lines, place, str(rng.choice(LINES)), rng)
    else:
        lines[place] = f"{key}={_other_items(lines[place].partition('=')[2], rng)}"
    text = "\n".join(lines)
    return (sized(text) if rng.random() < 0.9 else text).encode("utf-8", "surrogatepass")


def _change_line(lines: list[str], place: int, kind: str, rng: Rng) -> None:
    other = int(rng.integers(len(lines)))
    if kind == "swap":
        lines[place], lines[other] = lines[other], lines[place]
    else:
        lines[place : place + 1] = {"drop": [], "twice": [lines[place]] * 2, "empty": [""]}[kind]


def _other_items(text: str, rng: Rng) -> str:
    """Change the list of a line, whose items are numbers mostly."""
    items: list[Any] = [_number(item) for item in text.split(" ")]
    changed = hostile(items[0] if len(items) == 1 else items, rng)
    return " ".join(map(str, changed)) if isinstance(changed, list) else str(changed)


def _number(text: str) -> Any:
    try:
        return float(text) if re.search(r"[.en]", text) else int(text)
    except ValueError:
        return text


def other_treelite(data: bytes, rng: Rng) -> bytes:
    """Change JSON by its paths, and a checkpoint anywhere."""
    return other_json(data, rng) if data[:1] == b"{" else mutate_bytes(data, rng)


def _named(name: str) -> Subject:
    return next(subject for subject in FILES if subject.name == name)


def _ubj_of_json() -> Subject:
    return replace(_named("ubj"), corpus=_named("xgboost").corpus)


TEXT_KEYS = tuple(
    replace(subject, name=f"{subject.name}_keys", mutate=mutate)
    for subject, mutate in (
        (_named("lightgbm"), other_lightgbm),
        (_named("xgboost"), other_json),
        (_ubj_of_json(), other_ubjson),
        (_named("catboost"), other_json),
        (TREELITE, other_treelite),
    )
)
