"""Time tree ensembles on one thread beside several, by turns in one process.

    python benchmarks/threads.py [--models lightgbm-31 ...] [--rows 20000 100000]
        [--threads 2] [--folder DIR] [--json FILE]

Run it on as many free cores as it has threads. Where something else runs on a core, medians tell
less than the fastest calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from models import SUBJECTS, Fitted
from results import figure, parse_options, save
from timing import interleaved

import hbconv


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = ["lightgbm-8", "lightgbm-31", "lightgbm-d8"]
    parser.add_argument("--models", nargs="+", default=models, choices=SUBJECTS, metavar="NAME")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--seconds", type=float, default=2.0, help="time spent on each figure")
    parser.add_argument("--folder", type=Path, help="where fitted models are kept")
    parser.add_argument("--json", type=Path)
    chosen = parse_options(
        parser, models=["lightgbm-8", "lightgbm-31"], rows=[100_000], seconds=0.5
    )
    with TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        fitted = [SUBJECTS[name].fitted(folder) for name in chosen.models]
    save([one for model in fitted for one in figures(model, chosen)], chosen)


def figures(fitted: Fitted, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare the answers of all numbers of threads, then time them."""
    calls = {}
    for threads in (1, *chosen.threads):
        model = hbconv.convert(fitted.model, backend="tvm", sample=fitted.rows(5), threads=threads)
        calls[f"hbconv, {threads} thread{'s' * (threads > 1)}"] = getattr(model, fitted.method)
    found = []
    for rows in chosen.rows:
        x = fitted.rows(rows)
        first, *others = (call(x) for call in calls.values())
        for other in others:
            np.testing.assert_array_equal(other, first)
        times = interleaved(calls, x, chosen.seconds)
        here = [figure(fitted.name, rows, name, seconds) for name, seconds in times.items()]
        for one in here:
            print(
                f"{fitted.name:<12} {rows:>9,} rows  {one['contender']:<18}",
                f"{one['median'] / rows * 1e9:8.0f} ns a row",
                f"{here[0]['median'] / one['median']:6.2f}x, fastest calls",
                f"{here[0]['fastest'] / one['fastest']:6.2f}x",
                flush=True,
            )
        found += here
    return found


if __name__ == "__main__":
    main()
