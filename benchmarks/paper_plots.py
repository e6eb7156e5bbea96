"""Draw the ratios of ``paper.py``: a panel for each table and figure, beside the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plots import INK, OWN, OWN_SOFT, PEER, SOFT_INK, pyplot

__all__ = ["draw"]

Figure = dict[str, Any]

COLUMNS = 2
TICKS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
COLORS = (OWN, OWN_SOFT, SOFT_INK, "#b08968", "#7f9cb5")


def draw(figures: Sequence[Figure]) -> Any:
    """Return the picture: a dot for each ratio, on a logarithmic axis; a ring if published."""
    plt = pyplot()
    ratios = [f for f in figures if f.get("gain")]
    parts = list(dict.fromkeys(f["part"] for f in ratios))
    lines = -(-len(parts) // COLUMNS)
    picture, panels = plt.subplots(
        lines, COLUMNS, figsize=(10, 2.8 * lines), squeeze=False, layout="constrained"
    )
    for panel, part in zip(panels.flat, parts, strict=False):
        fill(panel, [f for f in ratios if f["part"] == part])
        panel.set_title(part, fontsize=9, loc="left", color=INK)
    for panel in list(panels.flat)[len(parts) :]:
        panel.set_visible(False)
    return picture


def fill(panel: Any, figures: Sequence[Figure]) -> None:
    """Draw one table: a line for each model, a colour for each contender."""
    names = list(dict.fromkeys(f["name"] for f in figures))
    contenders = list(dict.fromkeys(f["contender"] for f in figures))
    for contender, color in zip(contenders, COLORS, strict=False):
        own = [f for f in figures if f["contender"] == contender]
        places = [names.index(f["name"]) for f in own]
        panel.plot([f["gain"] for f in own], places, "o", color=color, ms=4, label=contender)
        known = [
            (f["published"], p) for f, p in zip(own, places, strict=True) if f.get("published")
        ]
        if known:
            style = {"mfc": "none", "color": color, "ms": 5, "ls": ""}
            panel.plot(
                *zip(*known, strict=True), marker="o", label=f"{contender}, published", **style
            )
    panel.set_xscale("log")
    least, most = min(1.0, *(f["gain"] for f in figures)), max(f["gain"] for f in figures)
    panel.set_xlim(least / 1.1, most * 1.1)
    panel.set_xticks([tick for tick in TICKS if least / 1.1 <= tick <= most * 1.1])
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.minorticks_off()
    panel.tick_params(axis="x", labelsize=6.5)
    panel.set_xlabel("times as fast", fontsize=6.5, color=INK)
    panel.axvline(1, color=PEER, linewidth=0.8, zorder=0)
    shown = [name.removeprefix(f"{figures[0]['part'].split(', ')[0]}, ") for name in names]
    panel.set_yticks(range(len(names)), shown, color=INK, fontsize=6.5)
    panel.invert_yaxis()
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.tick_params(axis="y", length=0)
    panel.legend(fontsize=6, frameon=False, loc="lower right")
