"""Time generated pipelines beside scikit-learn, and show the speed-up as a distribution.

    taskset -c 0 python benchmarks/pipelines.py [--count 140] [--rows 10000 1] [--only REGEX]
        [--json FILE]

The source and the compiled model answer the same rows by turns, in one process on one thread.
Figures are medians; the first calls are not counted. Everything is counted, from the user's array
or table to the answer.

Answers are compared first: at least 999 rows in 1,000 must agree. Where a tree stands behind a
product of matrices, the last bit of a sum can send a row to another leaf.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pipeline_space import Case, cases
from results import figure, parse_options, save

import hbconv

METHODS = ("predict", "predict_proba", "transform")
AGREE = 0.999
GOAL = 3.0


def figures(
    case: Case, sizes: list[int], seconds: float, backend: str = "auto"
) -> Iterator[dict[str, Any]]:
    """Fit and compile a pipeline, compare answers, and time each method for each batch size."""
    source = case.pipeline.fit(case.X, case.y)
    began = time.perf_counter()
    model = hbconv.convert(source, backend=backend, sample=case.X[:5])
    for method in (
        m
        for m in METHODS
        if m in model.methods and not (m == "transform" and "predict" in model.methods)
    ):
        theirs = getattr(source, method)
        ours = getattr(model, method)
        agree = agreement(theirs(case.rows), ours(case.rows))
        converted = time.perf_counter() - began
        for rows in sizes:
            times = in_turn(theirs, ours, case.rows[:rows], seconds)
            yield {
                "name": case.name,
                "method": method,
                "rows": rows,
                "agree": agree,
                "converted": converted,
                "times": times,
                "source": median(times[0]),
                "hbconv": median(times[1]),
                "speed_up": median(times[0]) / median(times[1]),
            }


def agreement(want: Any, got: Any) -> float:
    """Return the share of rows whose answers agree within the rounding of their dtype."""
    want = np.asarray(want)
    got = np.asarray(got)
    if want.dtype.kind != "f":
        return float(np.mean(want == got))
    scale = np.maximum(1.0, np.abs(want).reshape(len(want), -1).max(axis=1)).reshape(
        -1, *[1] * (want.ndim - 1)
    )
    near = np.abs(want - got) <= (1e-3 if want.dtype == np.float32 else 1e-6) * scale
    return float(np.mean(near.reshape(len(want), -1).all(axis=1)))


def in_turn(
    theirs: Callable[[Any], Any], ours: Callable[[Any], Any], rows: Any, seconds: float
) -> tuple[list[float], list[float]]:
    """Return the seconds of the calls of each, called by turns at least five times."""
    times: tuple[list[float], list[float]] = ([], [])
    calls = (theirs, ours)
    for call in calls:
        call(rows)
    while len(times[0]) < 5 or (sum(times[0]) < seconds and len(times[0]) < 200):
        for call, kept in zip(calls, times, strict=True):
            began = time.perf_counter()
            call(rows)
            kept.append(time.perf_counter() - began)
    return times


def report(found: list[dict[str, Any]]) -> None:
    """Print the distribution for each method and number of rows, and the slowest by name."""
    for method, rows in sorted({(f["method"], f["rows"]) for f in found}):
        some = sorted(
            (f for f in found if (f["method"], f["rows"]) == (method, rows)),
            key=lambda f: f["speed_up"],
        )
        gains = np.array([f["speed_up"] for f in some])
        shown = ", ".join(
            f"{q}%: {np.quantile(gains, q / 100):.1f}" for q in (0, 5, 10, 25, 50, 75, 90, 100)
        )
        print(
            f"\n{method}, {rows:,} rows, {len(some)} pipelines:",
            f"{np.mean(gains >= GOAL):.0%} at least {GOAL:g} times,",
            f"{np.sum(gains < 1)} slower; {shown}",
        )
        for f in (f for f in some if f["speed_up"] < GOAL):
            print(f"  {speed_up(f)}  {f['name']}")
    for f in found:
        if f["agree"] < AGREE:
            print(f"differs in {1 - f['agree']:.2%} of the rows: {f['method']} of {f['name']}")


def speed_up(figure: dict[str, Any]) -> str:
    """Print the ratio and both times of a figure."""
    times = f"{figure['source'] * 1e3:10.3f} -> {figure['hbconv'] * 1e3:10.3f} ms"
    return f"{figure['speed_up']:7.2f}x  {times}"


def of_both(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the figures of the source and of hbconv."""
    facts = {key: found[key] for key in ("agree", "converted")}
    for contender, times in zip(("source", "hbconv"), found["times"], strict=True):
        name = f"{found['name']}, {found['method']}"
        yield figure(name, found["rows"], contender, times) | facts


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--count", type=int, default=140)
    options.add_argument("--rows", type=int, nargs="+", default=[10_000, 1])
    options.add_argument("--only", default="", help="regular expression for the names of pipelines")
    options.add_argument("--backend", default="auto")
    options.add_argument("--seconds", type=float, default=0.5, help="time spent on each figure")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path)
    chosen = parse_options(options, count=24, seconds=0.1)
    warnings.simplefilter("ignore")  # Models need not converge.
    found: list[dict[str, Any]] = []
    for case in cases(chosen.count, max(chosen.rows), chosen.seed):
        if not re.search(chosen.only, case.name):
            continue
        for f in figures(case, chosen.rows, chosen.seconds, chosen.backend):
            found.append(f)
            print(
                f"{speed_up(f)}  {f['method']:<14}{f['rows']:>7,} rows  {f['name']}",
                flush=True,
            )
    report(found)
    save([one for f in found for one in of_both(f)], chosen)


if __name__ == "__main__":
    main()
