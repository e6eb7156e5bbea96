"""Objects given in place of an estimator: where they hold one, and what to give instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["say_instead"]

_DEEPEST = 3
_SHOWN = 3
"""Largest number of estimators that a message lists."""
_MOST_ITEMS = 1000


def say_instead(value: object, has_parser: Callable[[type], bool]) -> str:
    """Say what to give instead of a value that is no estimator; empty where nothing is known.

    Examples
    --------
    >>> say_instead({"model": 0.5, "names": ["a"]}, lambda cls: cls is float)
    "Give what it holds at ['model'] (float)."
    """
    if hasattr(type(value), "read"):
        return "Give its bytes: what read() returns."
    found = list(islice(_estimators(value, "", has_parser, _DEEPEST), _SHOWN + 1))
    if not found:
        return ""
    said = [f"{place} ({name})" for place, name in found[:_SHOWN]]
    more = ", ..." if len(found) > _SHOWN else ""
    return f"Give what it holds at {' or '.join(said)}{more}."


def _estimators(
    value: object, place: str, has_parser: Callable[[type], bool], depth: int
) -> Iterator[tuple[str, str]]:
    """Yield the place and class of each estimator in a container."""
    for key, item in islice(_items(value), _MOST_ITEMS):
        if has_parser(type(item)):
            yield f"{place}{key}", type(item).__name__
        elif depth > 1:
            yield from _estimators(item, f"{place}{key}", has_parser, depth - 1)


def _items(value: Any) -> Iterator[tuple[str, object]]:
    """Yield what a mapping, a sequence or an object of attributes holds."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1:
        yield from _items(value.tolist())
    elif not isinstance(value, type):
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())
