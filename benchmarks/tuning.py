"""Time models converted with ``tune=`` beside models that predictions planned.

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
from hbconv.optimize.row_plans import find_bucket

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
    """Convert a forest both ways, and time both by turns."""
    source = fit(*shape)
    began = time.process_time()
    tuned = hbconv.convert(source, backend, tune=True)
    tuning = time.process_time() - began
    planned = hbconv.convert(source, backend)
    print(f"\n{backend}, {name}: tuned in {tuning:.1f} s of the processor")
    figures = []
    for rows in sizes:
        x = np.random.default_rng(rows).standard_normal((rows, WIDTH)).astype(np.float32)
        np.testing.assert_array_equal(tuned.predict(x), planned.predict(x))
        before, after = least_by_turns(planned.predict, tuned.predict, x, seconds)
        strategies = [strategy_for(model, rows) for model in (planned, tuned)]
        print(f"  {rows:>6} rows  {before / after:5.2f} times  {' -> '.join(strategies)}")
        figures.append({"backend": backend, "forest": name, "rows": rows, "ratio": before / after})
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
    first: Callable[[Any], Any], second: Callable[[Any], Any], x: npt.NDArray[Any], seconds: float
) -> tuple[float, float]:
    """Return the least processor time of both calls, called by turns."""
    calls = (first, second)
    least = [float("inf")] * 2
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 5 or time.perf_counter() < end:
        for place, call in enumerate(calls):
            began = time.process_time()
            call(x)
            least[place] = min(least[place], time.process_time() - began)
        turns += 1
    return least[0], least[1]


if __name__ == "__main__":
    main()
