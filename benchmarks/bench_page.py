"""The page of all stored runs of ``bench.py``: a table for each benchmark, a picture of trees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["PROGRAMS", "Figure", "Loss", "Range", "Run", "groups", "losses", "ratios", "write_page"]

PROGRAMS = {
    "typical": "Typical workloads",
    "trees": "Trees beside their peers",
    "threads": "Threads",
    "converting": "Converting",
    "text": "Texts",
    "operators": "Operators",
    "pipelines": "Pipelines",
    "records": "One row in many forms",
}
"""What is run, each a program of its own, and the title of its table."""
UNCERTAIN = 0.05
"""Share by which a figure may be off that has no quartiles."""
WIDEST = 10
"""Contenders that a table holds side by side."""
QUANTILES = (0, 10, 25, 50, 75, 90, 100)

Figure = dict[str, Any]
Loss = dict[str, Any]
Run = dict[str, Any]
Range = tuple[float, float, float]


def write_page(folder: Path) -> None:
    """Write the page of all stored runs, and a picture of the trees of each."""
    lines = [
        "# Short benchmarks",
        "",
        "`make bench` writes this page ([how to use it](../develop/benchmarks.md#all-at-once)).",
        "Each time is that of a row, with how many times as fast as the first column it is.",
        "Machines drift, so quote ratios of one run.",
    ]
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        lines += ["", *section(stored)]
        if draw(stored["figures"].get("trees", []), path.with_suffix(".svg")):
            lines += ["", f"![Bars: times of all contenders, by rows]({path.stem}.svg)"]
    (folder / "bench.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def section(stored: Run) -> Iterator[str]:
    """Yield the lines of one run."""
    facts = stored["machine"]
    yield f"## {facts['processor']}, {stored['date']}"
    yield ""
    yield f"{facts['cores']} cores; {', '.join(facts['vectors'])}; Python {facts['python']}."
    yield f"The load average was {stored['load']} at the start."
    yield "On a machine where nothing else runs it is near 0."
    yield from ("", *lines_of(*stored["versions"]), line(*stored["versions"].values()))
    if stored["slower"]:
        yield from ("", "### What got slower", "", *losses(stored["slower"]))
    for name, title in PROGRAMS.items():
        if name in stored["figures"]:
            yield from ("", f"### {title}", "", f"    python benchmarks/{name}.py --short", "")
            yield from table(name, groups(stored["figures"][name]))


def losses(slower: list[Loss]) -> Iterator[str]:
    """Yield a table of what got slower: times as fast as the first contender, before and now."""
    yield from lines_of(*slower[0])
    for loss in slower:
        yield line(
            *(f"{value:,}" if isinstance(value, int) else str(value) for value in loss.values())
        )


def table(name: str, found: dict[tuple[str, int], list[Figure]]) -> Iterator[str]:
    """Yield a table: the quantiles of many pipelines, or all figures."""
    if name == "pipelines":
        yield from lines_of("rows", "pipelines", *(f"{q} %" for q in QUANTILES))
        for rows in sorted({rows for _, rows in found}):
            gains = [ratios(f)["hbconv"][1] for (_, count), f in found.items() if count == rows]
            spread = np.percentile(gains, QUANTILES)
            yield line(f"{rows:,}", str(len(gains)), *(f"{gain:.1f}x" for gain in spread))
        return
    names = list(dict.fromkeys(figure["contender"] for here in found.values() for figure in here))
    if len(names) > WIDEST:
        yield from lines_of("contender", *(f"{model}, {rows:,} rows" for model, rows in found))
        for contender in names:
            yield line(contender, *(cell(here, contender, names[0]) for here in found.values()))
        return
    yield from lines_of("model", "rows", *names)
    for (model, rows), here in found.items():
        yield line(model, f"{rows:,}", *(cell(here, contender, names[0]) for contender in names))


def line(*cells: str) -> str:
    """Write a line of a table."""
    return f"| {' | '.join(cells)} |"


def lines_of(*titles: str) -> tuple[str, str]:
    """Write the head of a table."""
    return line(*titles), line(*["---"] * len(titles))


def cell(here: list[Figure], contender: str, first: str) -> str:
    """Write the time of a row, and how many times as fast as the first contender it is."""
    found = next((figure for figure in here if figure["contender"] == contender), None)
    if found is None:
        return "-"
    shown = told(found["median"] / found["rows"])
    if found.get("wrong"):
        return f"{shown}, wrong"
    if contender == first or first == "yardstick" or here[0]["contender"] != first:
        return shown
    ratio = ratios(here)[contender][1]
    return f"{shown}, {ratio:,.0f}x" if ratio >= 100 else f"{shown}, {ratio:.3g}x"


def told(seconds: float) -> str:
    """Write seconds with three digits.

    Examples
    --------
    >>> told(4.512e-8), told(0.91)
    ('45.1 ns', '910 ms')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def draw(figures: list[Figure], picture: Path) -> bool:
    """Draw the trees; return whether there are any, and matplotlib to draw them with."""
    try:
        import plots

        plots.pyplot()
    except ModuleNotFoundError:
        return False
    models = list(dict.fromkeys(figure["model"] for figure in figures))
    rows = sorted({figure["rows"] for figure in figures})
    if models:
        plots.draw(figures, models, rows).savefig(picture, metadata=plots.metadata(picture))
    return bool(models)


def groups(figures: list[Figure]) -> dict[tuple[str, int], list[Figure]]:
    """Put the contenders of each model and number of rows together."""
    found: dict[tuple[str, int], list[Figure]] = {}
    for figure in figures:
        found.setdefault((figure["model"], figure["rows"]), []).append(figure)
    return found


def ratios(figures: list[Figure]) -> dict[str, Range]:
    """Return how many times as fast as the first each other is: least, median and most."""
    first, *others = (
        (
            figure.get("lower", figure["median"] * (1 - UNCERTAIN)),
            figure["median"],
            figure.get("upper", figure["median"] * (1 + UNCERTAIN)),
        )
        for figure in figures
    )
    return {
        figure["contender"]: (first[0] / other[2], first[1] / other[1], first[2] / other[0])
        for figure, other in zip(figures[1:], others, strict=True)
    }
