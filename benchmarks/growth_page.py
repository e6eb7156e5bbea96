"""Write the page and the picture of ``growth.py``.

    python benchmarks/growth_page.py docs/figures/growth.json docs

writes them anew from stored figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench_page import line
from plots import INK, OWN, PEER, SOFT_INK, metadata, pyplot

__all__ = ["draw", "lines_of_page", "write"]

QUANTITIES = {
    "batch_ns": "ns a row of many",
    "row_us": "us for one row",
    "convert_s": "seconds to convert",
    "file_mb": "MB saved",
}
"""Figures that are drawn, a column of panels each."""
HEAD = """\
# Costs that grow

    nice -n -5 taskset -c 0 python benchmarks/growth.py --write docs

Along each line one size of a model grows, and all others stay.
Each size has a process of its own, without cached code.
Times are processor time; those of calls are the least of some.
Answers are compared with the source's in the same run.
The source's time is that of one call.
Other work on a machine shares its caches, so quote ratios.
"""

Figure = dict[str, Any]
Stored = Mapping[str, Any]


def main() -> None:
    """Write the page and the picture of a file."""
    figures, docs = map(Path, sys.argv[1:])
    stored = json.loads(figures.read_text(encoding="utf-8"))
    write(docs, stored, stored["about"])


def write(docs: Path, stored: Stored, about: Mapping[str, Sequence[str]]) -> None:
    """Write the figures, the picture and the page into the folder of the docs."""
    whole = {**stored, "about": dict(about)}
    text = json.dumps(whole, indent=1, default=str)
    (docs / "figures" / "growth.json").write_text(text + "\n", encoding="utf-8")
    picture = docs / "figures" / "growth.svg"
    draw(whole).savefig(picture, metadata=metadata(picture))
    page = docs / "performance" / "growth.md"
    page.write_text("\n".join(lines_of_page(whole)) + "\n", encoding="utf-8")


def by_axis(stored: Stored) -> dict[str, list[Figure]]:
    """Return the figures of each axis, by size."""
    found: dict[str, list[Figure]] = {}
    for figure in sorted(stored["figures"], key=lambda each: each["size"]):
        found.setdefault(figure["axis"], []).append(figure)
    return {name: found[name] for name in stored["about"] if name in found}


def lines_of_page(stored: Stored) -> Iterator[str]:
    """Return the lines of the page: the picture, then a table for each axis."""
    machine = stored["machine"]
    yield HEAD
    yield f"Machine: {', '.join([machine['processor'], *machine.get('vectors', ())])}."
    yield ""
    yield "![Costs by size, on logarithmic axes](../figures/growth.svg)"
    for name, figures in by_axis(stored).items():
        yield ""
        yield f"## {name.capitalize()}"
        yield ""
        size, reason = stored["about"][name]
        yield f"Size: {size}."
        yield reason
        yield ""
        yield from _table(figures)


def _table(figures: list[Figure]) -> Iterator[str]:
    yield line("size", "convert", "peak above", "file", "one row", "many rows", "source")
    yield line(*["---:"] * 7)
    for figure in figures:
        yield line(
            f"{figure['size']:,}",
            f"{figure['convert_s']:.2f} s",
            f"{figure['peak_mib']:,.0f} MiB",
            f"{figure['file_mb']:.2f} MB",
            f"{figure['row_us']:,.1f} us",
            f"{figure['batch_ns']:,.0f} ns",
            f"{figure['source_ns']:,.0f} ns",
        )


def draw(stored: Stored) -> Any:
    """Draw a row of panels for each axis, a panel for each quantity, on logarithmic axes.

    Panels of a quantity share their scale, so steepness and height can be compared.
    """
    plt = pyplot()
    axes = by_axis(stored)
    picture, panels = plt.subplots(
        len(axes), len(QUANTITIES), figsize=(7.5, 1.1 * len(axes)), layout="constrained",
        squeeze=False, sharey="col",
    )  # fmt: skip
    for panel, title in zip(panels[0], QUANTITIES.values(), strict=True):
        panel.set_title(title, loc="left", color=INK, fontsize=8)
    for row, (name, figures) in zip(panels, axes.items(), strict=True):
        for panel, quantity in zip(row, QUANTITIES, strict=True):
            _fill(panel, figures, quantity)
        row[0].set_ylabel(name, color=INK, fontsize=8)
    return picture


def _fill(panel: Any, figures: list[Figure], quantity: str) -> None:
    """Draw a line over the sizes, and one of the source where it is timed too."""
    sizes = [figure["size"] for figure in figures]
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_xticks(sizes, [_short(size) for size in sizes])
    panel.tick_params(axis="both", labelsize=6, colors=SOFT_INK)
    panel.minorticks_off()
    if quantity == "batch_ns":
        panel.plot(sizes, [figure["source_ns"] for figure in figures], color=PEER, marker=".")
    panel.plot(sizes, [figure[quantity] for figure in figures], color=OWN, marker=".")


def _short(size: int) -> str:
    """Write a size as briefly as a tick allows.

    Examples
    --------
    >>> _short(20), _short(10_000), _short(10_000_000)
    ('20', '10k', '10M')
    """
    if size < 1000:
        return str(size)
    return f"{size // 1000}k" if size < 1_000_000 else f"{size // 1_000_000}M"


if __name__ == "__main__":
    main()
