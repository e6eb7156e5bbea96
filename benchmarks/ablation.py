"""Time pipelines with all rules of the optimizer, with each rule left out, and with none.

    taskset -c 0 python benchmarks/ablation.py [--pipelines 01 PCA ...] [--backends tvm torch onnx]
        [--rows 20000] [--folder DIR] [--json FILE] [--against EARLIER.json] [--as-is]

A figure is the least processor time of calls by turns, in one process on one thread: of the
compiled program alone (kernel) and of the user's call (predict). A rule that changes nothing is
not timed. The program ends with 1 where some rule makes a pipeline more than 1.1 times slower.
Doubtful figures are measured again, longer.

``--as-is`` times each pipeline as it is converted by default, which any earlier commit can do.
``--against`` compares with the file of such a run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from timing import machine, versions
from variants import Variant, effective_rules, every_rule, fitted_before, time_variants

from hbconv_datasets.pipelines import PIPELINES, STRESS, PipelineCase

SLOWER = 1.1
"""A rule that makes a pipeline so many times slower is a defect."""
REPEATS = 2
"""Times a doubtful figure is measured again, each twice as long as the one before."""
WHOLE = "all rules"
NONE = "no rule"
KINDS = ("kernel", "predict")

Figure = dict[str, Any]
Times = dict[str, dict[str, float]]


def measured(
    case: PipelineCase, backend: str, chosen: argparse.Namespace
) -> tuple[Times, list[Figure]]:
    """Time one pipeline on one backend, and measure again what looks slower by a rule."""
    fitted = fitted_before(case, chosen.folder, chosen.fit_rows, chosen.trees)
    X = fitted.rows(chosen.rows)
    variants = compiled(fitted, backend, X, as_is=chosen.as_is)
    times = time_variants(variants, X, chosen.seconds)
    seconds = chosen.seconds
    for _ in range(REPEATS):
        if not list(slower(times)):
            break
        seconds *= 2
        times = least(times, time_variants(variants, X, seconds))
    return times, [figure(case, backend, chosen.rows, name, times[name]) for name in times]


def compiled(fitted: Any, backend: str, X: Any, *, as_is: bool) -> dict[str, Variant]:
    """Compile with all rules, without each that matters, and without any."""
    variants = {WHOLE: Variant.of(fitted, backend)}
    if as_is:
        return variants
    for name in effective_rules(variants[WHOLE], X[:2]):
        variants[f"without {name}"] = Variant.of(fitted, backend, [name])
    if len(variants) > 1:
        variants[NONE] = Variant.of(fitted, backend, every_rule())
    return variants


def slower(times: Times) -> Iterator[tuple[str, str, float]]:
    """Yield each variant that beats all rules together, with the kind of call and the ratio."""
    for name, found in times.items():
        for kind in KINDS:
            ratio = times[WHOLE][kind] / found[kind]
            if ratio > SLOWER:
                yield name, kind, ratio


def least(first: Times, second: Times) -> Times:
    """Return the lesser of two measurements, by variant and kind."""
    return {
        name: {kind: min(first[name][kind], second[name][kind]) for kind in KINDS} for name in first
    }


def figure(
    case: PipelineCase, backend: str, rows: int, name: str, found: Mapping[str, float]
) -> Figure:
    """Describe one variant."""
    return {"pipeline": case.name, "backend": backend, "rows": rows, "rules": name, **found}


def show(case: PipelineCase, backend: str, rows: int, times: Times) -> None:
    """Print the time of a row with all rules, and how many times slower each variant is."""
    whole = times[WHOLE]
    nanoseconds = ", ".join(f"{kind} {whole[kind] / rows * 1e9:,.0f}" for kind in KINDS)
    print(f"{case.name} on {backend}: {nanoseconds} ns a row", flush=True)
    for name, found in times.items():
        if name != WHOLE:
            ratios = ", ".join(f"{kind} {found[kind] / whole[kind]:.2f}x" for kind in KINDS)
            print(f"    {name:<36} {ratios}", flush=True)


def compare(now: Sequence[Figure], earlier: Sequence[Figure]) -> dict[str, dict[str, float]]:
    """Return the gain over an earlier run: geometric mean and least, by backend and kind."""
    before = {(f["pipeline"], f["backend"], f["rows"]): f for f in earlier if f["rules"] == WHOLE}
    gains: dict[str, list[tuple[float, str]]] = {}
    for found in now:
        old = before.get((found["pipeline"], found["backend"], found["rows"]))
        if old is None or found["rules"] != WHOLE:
            continue
        for kind in KINDS:
            gain = (old[kind] / found[kind], found["pipeline"])
            gains.setdefault(f"{found['backend']} {kind}", []).append(gain)
    return {name: summary(found) for name, found in gains.items()}


def summary(gains: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """Return the geometric mean of gains, and those that are losses."""
    return {
        "pipelines": len(gains),
        "geometric mean": geometric_mean(gain for gain, _ in gains),
        "least": min(gains),
        "most": max(gains),
        "slower": sorted(gain for gain in gains if gain[0] < 1 / SLOWER),
    }


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--pipelines", nargs="+", default=[""], help="starts of their names")
    options.add_argument("--backends", nargs="+", default=["tvm", "torch", "onnx"])
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--fit-rows", type=int, default=4_000)
    options.add_argument("--trees", type=int, default=100)
    options.add_argument("--seconds", type=float, default=0.5, help="time spent on each figure")
    options.add_argument("--folder", type=Path, help="keep fitted models here")
    options.add_argument("--as-is", action="store_true", help="leave no rule out")
    options.add_argument("--against", type=Path, help="figures of an earlier run")
    options.add_argument("--json", type=Path)
    return options


def save(figures: Sequence[Figure], chosen: argparse.Namespace) -> None:
    """Write the figures so far."""
    facts = {"machine": machine(), "versions": versions(), "options": vars(chosen)}
    text = json.dumps({**facts, "figures": figures}, indent=1, default=str)
    chosen.json.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Run the benchmark."""
    chosen = parser().parse_args()
    cases = [c for c in (*PIPELINES, *STRESS) if c.name.startswith(tuple(chosen.pipelines))]
    figures: list[Figure] = []
    worse: list[str] = []
    for case in cases:
        for backend in chosen.backends:
            times, found = measured(case, backend, chosen)
            figures += found
            worse += [f"{case.name} on {backend}, {n}, {k}: {r:.2f}x" for n, k, r in slower(times)]
            show(case, backend, chosen.rows, times)
            if chosen.json:
                save(figures, chosen)
    if chosen.against:
        earlier = json.loads(chosen.against.read_text(encoding="utf-8"))["figures"]
        print(json.dumps(compare(figures, earlier), indent=1))
    print("\n".join(["faster without rules:", *worse] if worse else ["no rule makes any slower"]))
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main())
