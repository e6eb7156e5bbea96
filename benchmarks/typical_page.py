"""Write the page and the picture of ``typical.py``.

    python benchmarks/typical_page.py docs/figures/typical.json docs

writes them anew from stored figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench_page import line, lines_of, told
from plots import INK, OWN, PEER, SOFT_INK, metadata, pyplot
from typical_models import WORKLOADS

__all__ = ["write"]

GOAL = 3.0
"""Times as fast as the fastest of source and peers that hbconv aims at."""
OWN_NAME = "hbconv tvm"
REFITTED = "sklearnex"
"""The peer that fits anew: its forests have other trees, so their answers are not compared."""
HEAD = """\
# Typical workloads

    nice -n -5 taskset -c 0 python benchmarks/typical.py --folder build/typical --write docs

Models as users fit them, beside their source library and all peers that read them.
Contenders take turns in one process, from rows as users hold them to the answer.
A figure is the least processor time of a call.
Short calls are made many at a time, and the same rows are asked again.
So caches are warm, and large forests take longer in cold ones.
Answers are compared with the source's in the same run.
hbconv's labels are equal, and its values within the [tolerance](../fidelity.md#what-is-promised).
A peer whose answers are wrong counts for nothing.
"""
LEFT_OUT = """\
## What is left out

- A contender whose call is predicted to take more than 4 seconds, by its call of fewer rows.
- lleaves and tl2cgen take minutes to compile 1,000 trees; [trees](trees.md) has them.
- oneDAL's converter, YDF's reader and skl2onnx take minutes for forests of two million nodes.

scikit-learn-intelex fits anew: its forests do the same work with other trees.
skl2onnx, faiss and hnswlib compute in float32.
"""

OTHER_LIMITS = """\
Other limits:

- **catboost**: a row reads a leaf of each tree at a computed place, and lignum reads the same ones.
- **extra-trees**: nodes come from the outer caches, and each read waits for the one before.
- **neighbours**: of 20 columns hardly a block of points is too far, so all are scored, as by faiss.
- **One row**: a call from Python takes a microsecond, and pandas takes most of the time of a frame.
"""

Figure = dict[str, Any]
Stored = Mapping[str, Any]
Cells = dict[tuple[str, int], dict[str, Figure]]


def main() -> None:
    """Write the page and the picture of a file."""
    figures, docs = map(Path, sys.argv[1:])
    write(docs, json.loads(figures.read_text(encoding="utf-8")))


def write(docs: Path, stored: Stored) -> None:
    """Write the figures, the picture and the page into the folder of the docs."""
    text = json.dumps(stored, indent=1, default=str)
    (docs / "figures" / "typical.json").write_text(text + "\n", encoding="utf-8")
    picture = docs / "figures" / "typical.svg"
    draw(stored).savefig(picture, metadata=metadata(picture))
    page = docs / "performance" / "typical.md"
    page.write_text("\n".join(lines_of_page(stored)) + "\n", encoding="utf-8")


def cells_of(stored: Stored) -> Cells:
    """Put the contenders of each workload and number of rows together, but for wrong ones."""
    found: Cells = {}
    for figure in stored["figures"]:
        if not figure["wrong"] or figure["contender"] == REFITTED:
            cell = found.setdefault((figure["model"], figure["rows"]), {})
            cell[figure["contender"]] = figure
    return found


def fastest(cell: Mapping[str, Figure], *, with_source: bool = True) -> Figure | None:
    """Return the fastest that is not hbconv's, or None."""
    others = [
        figure
        for name, figure in cell.items()
        if not name.startswith("hbconv") and (with_source or name != "source")
    ]
    return min(others, key=lambda figure: figure["median"], default=None)


def times_the_fastest(cell: Mapping[str, Figure], name: str = OWN_NAME) -> float | None:
    """Return how many times as fast as the fastest of source and peers hbconv is."""
    other = fastest(cell)
    own = cell.get(name)
    return other["median"] / own["median"] if other and own else None


def lines_of_page(stored: Stored) -> Iterator[str]:
    """Yield the lines of the page."""
    machine = stored["machine"]
    threads = stored["options"]["threads"]
    yield from HEAD.splitlines()
    yield ""
    yield (
        f"Commit {stored['commit']}, {stored['date']}: {machine['processor']}, "
        f"{', '.join(machine['vectors'])}, {threads} thread{'s' * (int(threads) > 1)}."
    )
    load = f"{stored['load']} on {machine['cores']} cores"
    yield f"The machine was shared: its load average was {load}."
    yield "So ratios within a line hold, and lines are not to be compared closely."
    if "note" in stored:
        yield stored["note"]
    missing = sorted(WORKLOADS.keys() - {figure["model"] for figure in stored["figures"]})
    if missing:
        yield f"Not in this run: {', '.join(missing)}."
    yield ""
    yield from lines_of(*stored["versions"])
    yield line(*stored["versions"].values())
    yield ""
    what = "Bars: times as fast as the fastest of source and peers, for each workload"
    yield f"![{what}](../figures/typical.svg)"
    yield ""
    yield from _counts(stored)
    yield ""
    yield from _limits(stored)
    yield ""
    yield from _tables(stored)
    yield ""
    yield from LEFT_OUT.splitlines()


def _counts(stored: Stored) -> Iterator[str]:
    """Yield how often the goal is reached, and where hbconv is slower."""
    cells = cells_of(stored)
    ratios = {key: ratio for key, cell in cells.items() if (ratio := times_the_fastest(cell))}
    slower = {key: ratio for key, ratio in ratios.items() if ratio < 1}
    between = {key: ratio for key, ratio in ratios.items() if 1 <= ratio < GOAL}
    reached = len(ratios) - len(slower) - len(between)
    yield "## Against the fastest of source and peers"
    yield ""
    yield from lines_of("", f"{GOAL:.0f} times or more", f"1 to {GOAL:.0f} times", "slower")
    yield line("workloads and numbers of rows", str(reached), str(len(between)), str(len(slower)))
    for title, found in (("Slower", slower), (f"Below {GOAL:.0f} times", between)):
        if found:
            yield ""
            yield f"{title}:"
            yield ""
            for (model, rows), ratio in sorted(found.items(), key=lambda item: item[1]):
                peer = fastest(cells[model, rows])
                name = peer["contender"] if peer else ""
                plural = "s" * (rows > 1)
                yield f"- {model}, {rows:,} row{plural}: {ratio:.2g} times {_shown(name)}"


def _limits(stored: Stored) -> Iterator[str]:
    """Yield what a row cannot take less than, where products and exponentials are most of it."""
    cells = cells_of(stored)
    limits = stored["limits"]
    yield "## What limits them"
    yield ""
    yield f"A product of float64 takes {told(limits['product'])} in the matrix product of numpy."
    yield f"An exponential takes {told(limits['exponential'])} in hbconv's own kernel."
    yield "No row takes less than the sum of its own, and peers of float32 need half of it:"
    yield ""
    yield from lines_of("workload", "products", "exponentials", "limit", "hbconv", "fastest peer")
    for name, (products, exponentials) in limits["work"].items():
        rows = max(rows for model, rows in cells if model == name)
        cell = cells[name, rows]
        limit = products * limits["product"] + exponentials * limits["exponential"]
        peer = fastest(cell)
        told_times = [told(limit), _time(cell.get(OWN_NAME)), _time(peer)]
        yield line(name, f"{products:,}", f"{exponentials:,}", *told_times)
    yield ""
    yield from OTHER_LIMITS.splitlines()


def _tables(stored: Stored) -> Iterator[str]:
    """Yield a table for each kind of workload."""
    cells = cells_of(stored)
    own = list(
        dict.fromkeys(
            figure["contender"]
            for figure in stored["figures"]
            if figure["contender"].startswith("hbconv")
        )
    )
    yield "## Times"
    yield ""
    yield "Each time is that of a row."
    for kind in dict.fromkeys(workload.kind for workload in WORKLOADS.values()):
        yield ""
        yield f"### {kind.capitalize()}"
        yield ""
        for name, workload in WORKLOADS.items():
            if workload.kind == kind:
                yield f"- **{name}**: {workload.about}; `{workload.method}`"
        yield ""
        yield from lines_of("workload", "rows", "source", *own, "fastest peer", "source", "peer")
        for name, workload in WORKLOADS.items():
            if workload.kind == kind:
                found = sorted(rows for model, rows in cells if model == name)
                yield from (_row(name, rows, cells[name, rows], own) for rows in found)


def _row(model: str, rows: int, cell: Mapping[str, Figure], own: list[str]) -> str:
    """Write a line of a table: times, and how many times as fast as source and peer."""
    peer = fastest(cell, with_source=False)
    named = f"{_shown(peer['contender'])} {_time(peer)}" if peer else "-"
    ratios = [_times(cell.get("source"), cell), _times(peer, cell)]
    times = [_time(cell.get(name)) for name in ("source", *own)]
    return line(model, f"{rows:,}", *times, named, *ratios)


def _time(figure: Figure | None) -> str:
    return told(figure["median"] / figure["rows"]) if figure else "-"


def _times(other: Figure | None, cell: Mapping[str, Figure]) -> str:
    """Write how many times as fast as another hbconv is; bold where it is slower."""
    if other is None or OWN_NAME not in cell:
        return "-"
    ratio = other["median"] / cell[OWN_NAME]["median"]
    text = f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"
    return f"**{text}**" if ratio < 1 else text


def _shown(name: str) -> str:
    return {"sklearnex": "scikit-learn-intelex", "source": "the source"}.get(name, name)


def draw(stored: Stored) -> Any:
    """Draw a bar for each workload: times the fastest of source and peers.

    It is the geometric mean over the numbers of rows, so no number of rows outweighs the others.
    A point of the README is as large as one of the picture.
    """
    plt = pyplot()
    cells = cells_of(stored)
    found = {
        name: [
            ratio
            for (model, _), cell in cells.items()
            if model == name and (ratio := times_the_fastest(cell))
        ]
        for name in WORKLOADS
    }
    means = {name: geometric_mean(ratios) for name, ratios in found.items() if ratios}
    picture, panel = plt.subplots(figsize=(5.5, 0.6 + 0.22 * len(means)), layout="constrained")
    _fill(panel, means)
    panel.set_title("times as fast as the fastest alternative", loc="left", color=INK, fontsize=10)
    return picture


def _fill(panel: Any, means: Mapping[str, float]) -> None:
    """Draw the bars from 1, the longest first, on a logarithmic axis, each with its ratio."""
    ordered = sorted(means, key=means.__getitem__, reverse=True)
    panel.set_xscale("log")
    panel.set_yticks(range(len(ordered)), ordered, color=INK, fontsize=10)
    panel.tick_params(axis="both", which="both", length=0)
    panel.set_xticks([], minor=True)
    panel.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"], color=SOFT_INK)
    panel.spines[:].set_visible(False)
    for place, name in enumerate(ordered):
        ratio = means[name]
        panel.barh(place, ratio - 1, left=1, color=OWN if ratio >= 1 else PEER, height=0.7)
        text = f" {ratio:.0f}" if ratio >= 10 else f" {ratio:.1f}"
        panel.text(max(ratio, 1), place, text, va="center", fontsize=10, color=INK)
    panel.axvline(1, color=SOFT_INK, linewidth=0.6)
    panel.set_xlim(0.5, 2 * max(means.values()))
    panel.invert_yaxis()


if __name__ == "__main__":
    main()
