"""The tables of docs/gpu.md: what was predicted, and what was measured beside the fastest peer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

__all__ = ["beside_peers", "show", "write"]

Figure = dict[str, Any]


def show(title: str, figures: list[Figure]) -> None:
    """Print a table."""
    print(f"\n{title}\n{table(figures)}")


def table(figures: list[Figure]) -> str:
    """Write figures as a table of a page."""
    head = list(figures[0])
    rows = [[f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()] for row in figures]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def beside_peers(measured: Iterable[Figure]) -> Iterator[Figure]:
    """Name for each model and number of rows the fastest kernel, and the fastest peer.

    Kernels are told from peers by their times on the device's own clock.
    """
    by_size = sorted(measured, key=_size)
    for (model, count), found in groupby(by_size, key=_size):
        figures = sorted(found, key=lambda figure: figure["microseconds"])
        own = [figure for figure in figures if figure["device microseconds"] != ""]
        others = [figure for figure in figures if figure["device microseconds"] == ""]
        for figure in own[:1] or others:
            peer = others[0] if own and others else None
            yield {
                "model": model,
                "rows": count,
                "fastest kernel": figure["kernel"],
                "microseconds": figure["microseconds"],
                "quartiles": figure["quartiles"],
                "rows a second": figure["rows a second"],
                "fastest peer": peer["kernel"] if peer else "",
                "its microseconds": peer["microseconds"] if peer else "",
                "times as fast": (
                    f"{peer['microseconds'] / figure['microseconds']:.1f}" if peer else ""
                ),
            }


def _size(figure: Figure) -> tuple[str, int]:
    return figure["model"], figure["rows"]


def write(page: Path, figures: dict[str, Any]) -> None:
    """Replace the tables of a page; measurements only where there are some."""
    text = page.read_text()
    if figures["predicted"]:
        text = _replaced(text, "predicted", table(figures["predicted"]))
    if figures["measured"]:
        measured = table(list(beside_peers(figures["measured"])))
        text = _replaced(text, "measured", f"{figures['device']}.\n\n{measured}")
    page.write_text(text)


def _replaced(text: str, title: str, content: str) -> str:
    """Put content between a title's marks."""
    head, opening, rest = text.partition(f"<!-- {title} -->\n")
    _, closing, tail = rest.partition(f"<!-- end of {title} -->")
    return f"{head}{opening}\n{content}\n\n{closing}{tail}"
