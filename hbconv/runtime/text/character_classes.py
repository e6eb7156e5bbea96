"""Classes of characters as tables over all of Unicode, as ``re`` and ``unicodedata`` tell them."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["SPACES", "all_characters", "combining", "members", "runs_of"]

Class = npt.NDArray[np.bool_]

SPACES = r"\s"

_RUNS = re.compile(
    r"(?P<flags>(?:\(\?[aiu]+\))?)"
    r"(?P<opens>(?:\\b)?)(?P<one>\\[wWdDsS]|\[(?:\\.|[^\\\]])+\])(?P<more>(?P=one)*)"
    r"(?:\+|\{(?P<least>\d+),\})(?P<closes>(?:\\b)?)"
)


@lru_cache(maxsize=64)
def runs_of(pattern: str) -> tuple[str, int] | None:
    r"""Return the class, and the least length, whose longest runs are what a pattern finds.

    None for all other patterns.

    Examples
    --------
    >>> runs_of(r"(?u)\b\w\w+\b"), runs_of("[a-z]{3,}"), runs_of("[a-z]+ly")
    (('(?u)\\w', 2), ('[a-z]', 3), None)
    """
    found = _RUNS.fullmatch(pattern)
    if found is None or ((found["opens"] or found["closes"]) and found["one"] != r"\w"):
        return None
    least = int(found["least"] or 1) + len(found["more"]) // len(found["one"])
    return (found["flags"] + found["one"], least) if least else None


@cache
def members(one: str) -> Class:
    r"""Return whether each character is in a class.

    Parameters
    ----------
    one : str
        A pattern of one character.

    Examples
    --------
    >>> members(r"\w")[[ord("é"), ord("-")]].tolist()
    [True, False]
    """
    inside = np.zeros(sys.maxunicode + 1, bool)
    for run in re.finditer(f"{one}+", all_characters()):
        inside[run.start() : run.end()] = True
    inside.flags.writeable = False
    return inside


@cache
def combining() -> Class:
    """Return whether each character combines with the one before, as accents do."""
    return np.fromiter(map(unicodedata.combining, all_characters()), np.uint8) > 0


def all_characters() -> str:
    """Return every character in order, halves of surrogate pairs too."""
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
