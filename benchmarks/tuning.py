"""Time one plan for all rows, plans predicted by the number of rows, and plans timed by ``tune=``.

``python benchmarks/tuning.py --backends torch tvm --rows 1 100 10000``
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import RandomForestRegressor
from timing import machine, versions

import hbconv
from hbconv.cost_model.tuning_record import find_bucket

FORESTS = {
    "30 trees of depth 3": (30, 3),
    "100 trees of depth 6": (100, 6),
    "10 trees of depth 15": (10, 15),
    "1 tree of depth 12": (1, 12),
    "200 trees of depth 10": (200, 10),
}
"""Numbers of trees and depths, fitted to noise over 28 columns, so that trees grow fully."""
WIDTH = 28


def main() -> None:
    """Time every forest on every backend, and print ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", nargs="+", default=["torch", "torchscript", "tvm"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 16, 100, 1000, 10_000])
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls, for each figure")
    parser.add_argument("--json", help="file to write the figures to")
    options = parser.parse_args()
    figures = [
        figure
        for backend in options.backends
        for name, shape in FORESTS.items()
        for figure in compare(backend, name, shape, options.rows, options.seconds)
    ]
    if options.json:
        report = {"machine": machine(), "versions": versions(), "figures": figures}
        Path(options.json).write_text(json.dumps(report, indent=1))


def compare(
    backend: str, name: str, shape: tuple[int, int], sizes: list[int], seconds: float
) -> list[dict[str, Any]]:
    """Convert a forest in all three ways, and time them by turns."""
    source = fit(*shape)
    began = time.process_time()
    tuned = hbconv.convert(source, backend, tune=True)
    tuning = time.process_time() - began
    planned = hbconv.convert(source, backend)
    single = hbconv.convert(source, backend, strategy=planned.plan.strategies[0])
    models = (single, planned, tuned)
    print(f"\n{backend}, {name}: tuned in {tuning:.1f} s of the processor")
    figures = []
    for rows in sizes:
        x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
        for model in models[1:]:
            np.testing.assert_array_equal(model.predict(x), single.predict(x))
        one, by_rows, timed = least_by_turns([model.predict for model in models], x, seconds)
        strategies = " -> ".join(strategy_for(model, rows) for model in models)
        print(
            f"  {rows:>6} rows  by rows {one / by_rows:5.2f}, tuned {by_rows / timed:5.2f} times  "
            f"{strategies}",
            flush=True,
        )
        ratios = {"by_rows": one / by_rows, "tuned": by_rows / timed}
        figures.append({"backend": backend, "forest": name, "rows": rows, **ratios})
    return figures


def fit(n_trees: int, max_depth: int) -> RandomForestRegressor:
    """Fit a random forest to noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3000, WIDTH)).astype(np.float32)
    forest = RandomForestRegressor(n_trees, max_depth=max_depth, max_features=5, random_state=0)
    return forest.fit(x, rng.standard_normal(3000))


def strategy_for(model: Any, rows: int) -> str:
    """Return the strategy that runs so many rows."""
    planned = model.programs.planned(model.dtypes)
    own = {row_plan.bucket: row_plan.plan for row_plan in planned.row_plans}
    plan = own.get(find_bucket(rows), planned.plan)
    return str(plan.strategies[0])


def least_by_turns(
    calls: list[Callable[[Any], Any]], x: npt.NDArray[Any], seconds: float
) -> list[float]:
    """Return the least processor time of each call, called by turns; short ones ten at a time."""
    repeats = 10 if len(x) < 1000 else 1
    least = [float("inf")] * len(calls)
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 5 or time.perf_counter() < end:
        for place, call in enumerate(calls):
            began = time.process_time()
            for _ in range(repeats):
                call(x)
            least[place] = min(least[place], time.process_time() - began)
        turns += 1
    return least


if __name__ == "__main__":
    main()
