"""Measure the peak memory of scoring beside the peers: in one call, and by batches.

    python benchmarks/memory.py [--models lightgbm-31 ...] [--rows 1000000] [--batch 10000]
        [--folder DIR] [--json FILE]

Each contender runs in a process of its own, with the rows in memory and a place for the answers.
The figure is how far the resident memory of the process grows above that while it scores:
temporaries, and an answer in one piece. This needs Linux, which reports the peak and resets it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from models import SUBJECTS
from peers import TREE_PEERS, Contender, Setting, contenders
from timing import in_new_process, machine, use_threads, versions


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", nargs="+", default=["lightgbm-31"], choices=SUBJECTS, metavar="NAME"
    )
    parser.add_argument(
        "--peers", nargs="+", default=list(TREE_PEERS), choices=TREE_PEERS, metavar="NAME"
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument(
        "--compile-limit",
        type=float,
        default=60.0,
        help="seconds that a peer may compile for; 0 takes what was compiled before",
    )
    parser.add_argument(
        "--folder", type=Path, help="keep fitted models, and what peers compile of them, here"
    )
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        figures = list(measure(chosen, folder))
    if chosen.json:
        facts = {
            "machine": machine(),
            "versions": versions(),
            "options": vars(chosen),
            "figures": figures,
        }
        chosen.json.write_text(json.dumps(facts, indent=1, default=str), encoding="utf-8")


def measure(chosen: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any]]:
    """Measure each contender, and print a line for each."""
    for model in chosen.models:
        SUBJECTS[model].fitted(folder)
        print(
            f"\n{model}: {SUBJECTS[model].about}; MiB at the peak for {chosen.rows:,} rows",
            f"in one call, and by {chosen.batch:,}",
        )
        for peer in chosen.peers:
            found = [
                in_new_process(score, model, peer, folder, chosen.rows, batch, chosen.compile_limit)
                for batch in (chosen.rows, chosen.batch)
            ]
            refused = [f"left out: {reason}" for reason in found if isinstance(reason, str)]
            print(
                f"  {peer:<20} "
                + (refused[0] if refused else " ".join(f"{size:>10,.1f}" for size in found)),
                flush=True,
            )
            if not refused:
                yield {
                    "model": model,
                    "contender": peer,
                    "rows": chosen.rows,
                    "batch": chosen.batch,
                    "whole": found[0],
                    "batches": found[1],
                }


def score(
    model: str, peer: str, folder: Path, rows: int, batch: int, compile_limit: float
) -> float | str:
    """Score by batches; return the growth at the peak in MiB, or the reason of a refusal."""
    use_threads(1)
    fitted = SUBJECTS[model].fitted(folder)
    (found,) = contenders(Setting(fitted, 1, compile_limit), [peer])
    if not isinstance(found, Contender):
        return found[1]
    x = fitted.rows(rows)
    answers = np.ones((rows, *np.shape(found.call(x[:5]))[1:]))

    def by_batches() -> None:
        for start in range(0, rows, batch):
            answers[start : start + batch] = found.call(x[start : start + batch])

    return growth(by_batches)


def growth(run: Any) -> float:
    """Return the largest growth of resident memory while a function runs, in MiB."""
    ctypes.CDLL(None).malloc_trim(0)  # freed memory must not hide what is taken now
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the resident memory
    before = resident("VmRSS")
    run()
    return (resident("VmHWM") - before) / 1024


def resident(field: str) -> int:
    """Read a size from the system's description of this process, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    main()
