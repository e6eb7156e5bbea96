"""Run the short form of all benchmarks, store the run, write its page, and say what got slower.

    python benchmarks/bench.py [--only trees text ...] [--folder build/bench] [--dry]

``make bench`` does it in about ten minutes. Each machine has one stored run,
``docs/performance/NAME.json``, and the page shows all of them. Each figure is compared as the ratio
to the first contender of its run, so a slower machine changes nothing. A figure got slower if its
ratio is a tenth less, and its range from quartile to quartile lies below that of the stored run.

Run it alone on the machine: what else runs there widens the ranges, and hides changes. A stored run
that began while more than ``BUSY`` programs ran is not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from bench_page import PROGRAMS, Figure, Loss, Range, Run, groups, losses, ratios, write_page
from timing import machine, versions

BENCHMARKS = Path(__file__).parent
PAGES = BENCHMARKS.parent / "docs" / "performance"
FITTING = {"trees", "threads", "converting", "typical"}
"""Programs that keep the models they fit in ``--folder``."""
BUSY = 1.5
"""Load average at the start above which other programs took much of the machine."""
NOISE = 0.1
"""Share by which figures of equal runs may differ, beyond the spread of their calls."""


def main() -> None:
    """Run the benchmarks; the exit status is 1 if one of them fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--folder", type=Path, default=Path("build", "bench"))
    parser.add_argument("--dry", action="store_true", help="compare alone, and write nothing")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    found = {name: figures for name in chosen.only if (figures := run(name, chosen.folder))}
    facts = machine()
    path = PAGES / f"{slug(facts)}.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"figures": {}}
    is_busy = before.get("load", 0.0) > BUSY
    slower = list(compare({} if is_busy else before["figures"], found))
    print(
        "\n".join(["", *(losses(slower) if slower else ["Nothing got slower beyond the spread."])])
    )
    if not chosen.dry:
        whole = {
            "date": date.today().isoformat(),
            "load": round(load, 1),
            "machine": facts,
            "versions": versions(),
            "slower": slower,
            "figures": before["figures"] | found,
        }
        PAGES.mkdir(exist_ok=True)
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        write_page(PAGES)
    sys.exit(len(found) < len(chosen.only))


def run(name: str, folder: Path) -> list[Figure]:
    """Run a program on the last core, or on all cores; return no figures if it fails."""
    written = folder / f"{name}.json"
    command = [sys.executable, BENCHMARKS / f"{name}.py", "--short", "--json", written]
    command += ["--folder", folder] if name in FITTING else []
    print(f"\n=== {name} ===", flush=True)
    began = time.perf_counter()
    with subprocess.Popen(command) as process:
        if name != "threads" and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
    print(f"=== {name} took {time.perf_counter() - began:.0f} s", flush=True)
    if process.returncode:
        print(f"=== {name} FAILED", flush=True)
        return []
    return [short(figure) for figure in json.loads(written.read_text())["figures"]]


def short(figure: Figure) -> Figure:
    """Keep what is compared and shown."""
    kept = {key: figure[key] for key in ("model", "rows", "contender")}
    numbers = {
        key: float(f"{figure[key]:.4g}") for key in ("median", "lower", "upper") if key in figure
    }
    return kept | numbers | ({"wrong": True} if figure.get("wrong") else {})


def slug(facts: Run) -> str:
    """Name a machine by its processor, its widest vectors and its cores.

    Examples
    --------
    >>> slug({"processor": "AMD EPYC 9B45", "vectors": ["avx2", "avx512f"], "cores": 2})
    'amd-epyc-9b45-avx512f-2-cores'
    """
    vectors = [name for name in facts["vectors"] if name != "avx512vbmi"][-1:]
    parts = [facts["processor"], *vectors, f"{facts['cores']} cores"]
    return re.sub(r"[^a-z0-9]+", "-", " ".join(parts).lower()).strip("-")


def compare(before: dict[str, list[Figure]], now: dict[str, list[Figure]]) -> Iterator[Loss]:
    """Yield each figure of hbconv that got slower beyond the spread."""
    for name, figures in now.items():
        stored = groups(before.get(name, []))
        for (model, rows), here in groups(figures).items():
            then = stored.get((model, rows), here)
            old = ratios(then) if then[0]["contender"] == here[0]["contender"] else {}
            for contender, new in ratios(here).items():
                known = old.get(contender, new)
                if contender.startswith("hbconv") and is_below(new, known):
                    yield {
                        "program": name,
                        "model": model,
                        "rows": rows,
                        "contender": contender,
                        "before": float(f"{known[1]:.3g}"),
                        "now": float(f"{new[1]:.3g}"),
                    }


def is_below(new: Range, then: Range) -> bool:
    """Whether a ratio is less than before, beyond the spread of calls and of runs.

    Examples
    --------
    >>> is_below((8.0, 8.5, 8.9), (9.5, 10.0, 10.5)), is_below((8.8, 9.1, 9.3), (9.5, 10.0, 10.5))
    (True, False)
    """
    return new[2] < then[0] and new[1] < (1 - NOISE) * then[1]


if __name__ == "__main__":
    main()
