"""Sizes of what is drawn, in pixels, and text cut to a width."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from hbconv.picture.scene import Box, Cluster

__all__ = [
    "BAND_GAP",
    "BOLD",
    "BOX_GAP",
    "CLUSTER_GAP",
    "DETAIL",
    "HEADING",
    "INSET",
    "LAYER_GAP",
    "MARGIN",
    "MOST",
    "PADDING",
    "SMALL",
    "TITLE",
    "Size",
    "cut",
    "size_of_box",
    "size_of_header",
    "width_of",
    "written_count",
    "written_detail",
    "written_share",
    "written_title",
]

TITLE, DETAIL, SMALL, HEADING = 12.5, 10.5, 9.5, 11.5
"""Sizes of the fonts."""
MARGIN, PADDING = 16.0, 10.0
BOX_GAP, CLUSTER_GAP = 14.0, 22.0
LAYER_GAP, BAND_GAP = 30.0, 40.0
"""Room between layers: for lines, and for the types that are written next to them."""
MOST = 190.0
"""Widest text in a box."""
INSET = 11.0
"""Between the sides of a box and its text."""
BOLD = 1.1
"""How much wider bold text is."""
LEAST_SHARE = 0.02
"""Share of the time from which on it is written."""


@dataclass(frozen=True)
class Size:
    """Width and height."""

    width: float
    height: float


def written_title(box: Box) -> str:
    """Return the heading of a box, cut to fit."""
    return cut(box.title, TITLE, MOST)


def written_detail(box: Box) -> str:
    """Return the line below the heading, cut to fit."""
    return cut(box.detail, DETAIL, MOST)


def written_count(box: Box) -> str:
    """Return how many members a box represents; "" for one."""
    return f"× {box.count}" if box.count > 1 else ""


def written_share(box: Box) -> str:
    """Return the share of the predicted time; "" where it is small."""
    return f"{box.share:.0%}" if box.share >= LEAST_SHARE else ""


def size_of_box(box: Box) -> Size:
    """Return the size of a box for its texts; the share of time is next to the heading."""
    beside = [text for text in (written_count(box), written_share(box)) if text]
    title = BOLD * (width_of(written_title(box), TITLE) + width_of("".join(beside), DETAIL))
    detail = width_of(written_detail(box), DETAIL)
    width = max(title + 9.0 * len(beside), detail, 44.0) + 2 * INSET
    return Size(width, 42.0 if box.detail else 28.0)


def size_of_header(cluster: Cluster) -> Size:
    """Return the room for the heading of a cluster, and none where it has no frame."""
    if not cluster.title:
        return Size(0.0, 0.0)
    title = BOLD * width_of(cut(cluster.title, HEADING, MOST), HEADING)
    path = width_of(cut(cluster.path, SMALL, MOST), SMALL)
    return Size(max(title, path) + 2 * PADDING, 32.0 if cluster.path else 20.0)


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


def _share(character: str) -> float:
    if character in _SHARES:
        return _SHARES[character]
    # Wide letters are squares, and accents take no room of their own.
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if unicodedata.combining(character):
        return 0.0
    return 0.7 if character.isupper() else 0.63
