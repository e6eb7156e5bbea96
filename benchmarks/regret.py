"""Time every strategy on whole forests, and what the plan's choice loses: chosen over best.

    taskset -c 0 python benchmarks/regret.py --backend torch --json torch.jsonl
    python benchmarks/regret.py --again torch.jsonl

A case is a forest, a number of rows in a call, and a backend. Its strategies are called by turns as
whole ``tree_scores`` programs, and the least processor time of each counts. A strategy that took
many times the best with fewer rows is not called again: its time is scaled. ``--json`` appends a
line for each case, and a run goes on where the last one ended. ``--left-out`` takes forests that no
price was fitted to. ``--again`` times nothing: it asks the prices at hand to choose among the
timings of a file.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from regret_forests import FITTED_TO, LEFT_OUT, Shape, train

from hbconv.backends import find_backend
from hbconv.backends.base import Artifact
from hbconv.optimize.program_cost import strategy_costs
from hbconv.runtime.batching import answer_chunks, rows_per_chunk
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram
from hbconv.trees.forest import Forest

HOPELESS = 12.0
"""Times the best, at the number of rows before, from which a strategy is not called again."""
TURNS = 3
"""Least calls of each strategy."""


ROWS = (1, 30, 1000, 10_000, 100_000)

Call = Callable[[], None]


def main() -> None:
    """Time, or read timings back, and print the regret."""
    parser = argparse.ArgumentParser(description="Compare the plan's choice with the best.")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--only", type=int, nargs="+", help="positions of the forests to time")
    parser.add_argument("--left-out", action="store_true", help="forests of no fit")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds of the longest call")
    parser.add_argument(
        "--seconds", type=float, default=0.15, help="seconds for a strategy's calls"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="append a line for each case")
    parser.add_argument("--again", metavar="FILE", type=Path, help="choose among these timings")
    options = parser.parse_args()
    if options.again:
        known = [json.loads(line) for line in options.again.read_text().splitlines()]
        summarize([{**case, **choose(case)} for case in known])
        return
    done = options.json.read_text().splitlines() if options.json and options.json.exists() else []
    cases = [json.loads(line) for line in done]
    known_shapes = {str(Shape(**case["shape"])) for case in cases}
    for position, shape in enumerate(LEFT_OUT if options.left_out else FITTED_TO):
        if (options.only and position not in options.only) or str(shape) in known_shapes:
            continue
        for case in time_shape(shape, options):
            cases.append(case)
            print(show(case), flush=True)
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(case) + "\n")
    summarize(cases)


def time_shape(shape: Shape, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time the strategies of a forest, from few rows to many."""
    forest = train(shape)
    x = np.random.default_rng(1).standard_normal((max(options.rows), shape.columns))
    x = x.astype(shape.dtype)
    contenders = Contenders(forest, Target(options.backend), shape.dtype)
    before: dict[str, float] = {}
    for rows in sorted(options.rows):
        if before and min(before.values()) * rows > options.longest:
            return
        times = contenders.time(x[:rows], before, options)
        before = {name: seconds / rows for name, seconds in times.items()}
        case = {"backend": options.backend, "shape": asdict(shape), "rows": rows, "times": times}
        yield {**case, **choose(case)}


class Contenders:
    """The strategies of a forest, each compiled when it is first called."""

    def __init__(self, forest: Forest, target: Target, dtype: str) -> None:
        self.forest = forest
        self.target = target
        self.dtype = dtype
        self._compiled: dict[str, tuple[Artifact, int]] = {}

    def time(
        self, x: npt.NDArray[Any], before: dict[str, float], options: argparse.Namespace
    ) -> dict[str, float]:
        """Return the least seconds of each strategy; hopeless ones are scaled."""
        costs = strategy_costs(
            self.forest, self.target.replace(rows=len(x)), find_backend(self.target.backend)
        )
        best = min(before.values(), default=0.0)
        hopeless = {
            name: seconds * len(x)
            for name, seconds in before.items()
            if seconds > HOPELESS * best or seconds * len(x) > 3 * options.longest
        }
        calls = {name: self._call(name, x) for name in costs if name not in hopeless}
        return {**least_seconds(calls, options.seconds), **hopeless}

    def _call(self, strategy: str, x: npt.NDArray[Any]) -> Call:
        artifact, size = self._artifact(strategy)
        parts = answer_chunks(len(x), size, x.__getitem__)

        def call() -> None:
            for part in parts:
                artifact.run({"x": part})

        return call

    def _artifact(self, strategy: str) -> tuple[Artifact, int]:
        """Return the compiled program, and the rows that users run at once."""
        if strategy not in self._compiled:
            backend = find_backend(self.target.backend)
            program = self._program(strategy)
            size = rows_per_chunk(backend.prepare(program, self.target), self.target)
            size = 1 << 30 if backend.tiled else size
            self._compiled[strategy] = (backend.compile(program, self.target), size)
        return self._compiled[strategy]

    def _program(self, strategy: str) -> TensorProgram:
        b = Builder()
        x = b.input("x", self.dtype, self.forest.n_features)
        return b.program({"s": b.op("tree_scores", x, forest=self.forest, strategy=strategy)})


def least_seconds(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """Call by turns, and return the least processor time of each."""
    times: dict[str, list[float]] = defaultdict(list)
    for name, call in calls.items():
        began = time.process_time()
        call()
        times[name].append(time.process_time() - began)
    budget = {name: max(seconds, TURNS * spent[0]) for name, spent in times.items()}
    waiting = list(calls)
    while waiting:
        for name in waiting:
            repeats = max(1, min(1000, int(2e-3 / max(min(times[name]), 1e-9))))
            began = time.process_time()
            for _ in range(repeats):
                calls[name]()
            spent = time.process_time() - began
            times[name].append(spent / repeats)
            budget[name] -= spent
        waiting = [name for name in waiting if budget[name] > 0]
    return {name: min(spent) for name, spent in times.items()}


def choose(case: dict[str, Any]) -> dict[str, Any]:
    """Ask the plan for its choice among the strategies timed, and compare it with the best."""
    backend = find_backend(case["backend"])
    shape = Shape(**case["shape"])
    target = Target(case["backend"], rows=case["rows"])
    costs = strategy_costs(train(shape), target, backend, shape.dtype)
    costs = {name: seconds for name, seconds in costs.items() if name in case["times"]}
    chosen = min(costs, key=costs.__getitem__)
    best = min(case["times"], key=case["times"].__getitem__)
    regret = case["times"][chosen] / case["times"][best]
    return {"predicted": costs, "chosen": chosen, "best": best, "regret": regret}


def show(case: dict[str, Any]) -> str:
    """Write a case as a line: nanoseconds a row, measured and predicted."""
    per_row = 1e9 / case["rows"]
    parts = [
        f"{name} {seconds * per_row:,.0f} ({case['predicted'].get(name, np.nan) * per_row:,.0f})"
        for name, seconds in sorted(case["times"].items(), key=lambda item: item[1])
    ]
    return (
        f"{Shape(**case['shape'])}, {case['rows']} rows: {case['regret']:.2f} {case['chosen']}: "
        + ", ".join(parts)
    )


def summarize(cases: Sequence[dict[str, Any]]) -> None:
    """Print the regret over all cases of a backend."""
    regrets = np.array([case["regret"] for case in cases])
    if not len(regrets):
        return
    print(
        f"{cases[0]['backend']}: {len(regrets)} cases, regret {np.exp(np.log(regrets).mean()):.3f} "
        f"(geometric mean), {np.mean(regrets > 1.1):.0%} above 1.1, worst {regrets.max():.1f}"
    )


if __name__ == "__main__":
    main()
