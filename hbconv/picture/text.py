"""How wide text is when it is drawn, and text cut to a width."""

from __future__ import annotations

import unicodedata

__all__ = ["cut", "shorten", "width_of"]

_SHARES = {
    **dict.fromkeys("iljI'|", 0.29),
    **dict.fromkeys("ftr.,:;()[]{}!`/ ", 0.4),
    **dict.fromkeys("csxzvykJ_", 0.56),
    **dict.fromkeys("wWM@%…", 0.92),
    "m": 0.98,
}
"""Widths of characters, as shares of the size of the font: those of DejaVu Sans, a wide one."""


def width_of(text: str, size: float) -> float:
    """Return about how many pixels a text takes in a sans-serif font of a size.

    Examples
    --------
    >>> width_of("iii", 10) < width_of("aaa", 10) < width_of("日本語", 10)
    True
    """
    return size * sum(map(_share, text))


def cut(text: str, size: float, most: float) -> str:
    """Return the text, or as much of its beginning as fits, and an ellipsis.

    Examples
    --------
    >>> cut("petal length (cm)", 10, 60)
    'petal len…'
    """
    room = most / size
    taken = 0.0
    kept = 0
    for i, character in enumerate(text, start=1):
        taken += _share(character)
        if taken > room:
            return text[:kept].rstrip() + "…"
        if taken + _share("…") <= room:
            kept = i
    return text


def shorten(text: str, most: int) -> str:
    """Return a text of so many characters at most, on one line, without control characters."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _share(character: str) -> float:
    if character in _SHARES:
        return _SHARES[character]
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if unicodedata.combining(character):
        return 0.0
    return 0.7 if character.isupper() else 0.63
