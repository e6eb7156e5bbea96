"""Write the page of ``estimators.py``: what is slower than its source, and where.

python benchmarks/estimators_page.py FIGURES.json docs/performance/estimators.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["lines_of"]

CAUSES = {
    "FeatureHasher": "its source hashes names in a compiled loop, and to read names and values in "
    "Python takes most of that time",
}
"""Why estimators are slower than their source on tvm, where they are."""

Cell = tuple[str, int]
"""A contender, and how many rows it answers at once."""


def main() -> None:
    """Read the figures of a run, and write the page."""
    figures, page = map(Path, sys.argv[1:])
    stored = json.loads(figures.read_text(encoding="utf-8"))
    page.write_text("\n".join(lines_of(stored)) + "\n", encoding="utf-8")


def lines_of(stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the page."""
    timed = [figure for figure in stored["figures"] if "times" in figure]
    cells = list(dict.fromkeys(_cell(f) for f in timed if f["contender"] != "source"))
    by_model: dict[str, dict[Cell, dict[str, Any]]] = {}
    for figure in timed:
        by_model.setdefault(figure["model"], {})[_cell(figure)] = figure
    facts = stored["machine"]
    yield "# Every estimator beside its source"
    yield ""
    yield "`benchmarks/estimators.py` times each estimator that hbconv converts, on every backend."
    yield "Models are small: they are the tests', fitted to a few hundred rows."
    yield "So what a call costs counts for much, and other pages have models of real size."
    yield ""
    yield "Times are the processor's: 2.0 is twice as fast as the source, 0.5 half as fast."
    yield f"Measured on one core: {facts['processor']}, {', '.join(facts['vectors'])}."
    yield stored.get("note", "The machine did nothing else.")
    yield "`torch` is plain operators, as `native=False` gives: else torch takes the kernel of tvm."
    yield ""
    yield "| contender | rows | estimators | slower | median |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for cell in cells:
        own = [found[cell]["times"] for found in by_model.values() if cell in found]
        slower = sum(times < 1 for times in own)
        yield f"| {cell[0]} | {cell[1]:,} | {len(own)} | {slower} | {median(own):.1f} |"
    yield ""
    yield "## Slower than the source"
    yield ""
    yield "Each is slower than its source on one backend at least; what is slower is in bold."
    yield "`source` has the microseconds of the source's call."
    yield ""
    yield from _causes(by_model)
    yield from _table(by_model, cells)


def _causes(by_model: Mapping[str, Mapping[Cell, Mapping[str, Any]]]) -> Iterator[str]:
    """Yield why estimators are slower on tvm, as far as that is known."""
    slower = {model.rpartition(".")[2] for model, found in by_model.items() if _least(found)[0] < 1}
    known = [f"- `{name}` on tvm: {CAUSES[name]}." for name in sorted(slower & CAUSES.keys())]
    yield from [*known, ""] if known else []


def _table(
    by_model: Mapping[str, Mapping[Cell, Mapping[str, Any]]], cells: Sequence[Cell]
) -> Iterator[str]:
    """Yield a row for each estimator that is slower somewhere, the slowest on tvm first."""
    sizes = sorted({rows for _, rows in cells})
    heads = [f"source, {rows:,}" for rows in sizes] + [f"{name}, {n:,}" for name, n in cells]
    yield "| estimator | method | " + " | ".join(heads) + " |"
    yield "| --- | --- |" + " ---: |" * len(heads)
    slower = {
        model: found
        for model, found in by_model.items()
        if any(found[cell]["times"] < 1 for cell in cells if cell in found)
    }
    for model in sorted(slower, key=lambda model: _least(slower[model])):
        found = slower[model]
        source = [found["source", rows]["median"] * 1e6 for rows in sizes]
        method = next(iter(found.values()))["method"]
        shown = [f"{micros:,.0f}" for micros in source] + [
            _shown(found.get(cell)) for cell in cells
        ]
        yield f"| `{model}` | `{method}` | " + " | ".join(shown) + " |"


def _least(found: Mapping[Cell, Mapping[str, Any]]) -> tuple[float, float]:
    """Return the least figure on tvm, and that of all."""
    on_tvm = [f["times"] for (name, _), f in found.items() if name.startswith("tvm")]
    return min(on_tvm, default=9.0), min(figure["times"] for figure in found.values())


def _shown(figure: Mapping[str, Any] | None) -> str:
    if figure is None:
        return ""
    times = f"{figure['times']:.2g}" if figure["times"] < 100 else f"{figure['times']:.0f}"
    return f"**{times}**" if figure["times"] < 1 else times


def _cell(figure: Mapping[str, Any]) -> Cell:
    return figure["contender"], figure["rows"]


if __name__ == "__main__":
    main()
