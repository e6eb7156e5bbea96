"""Time every tree strategy on a backend beside the cost model; ``--fit`` derives its prices.

    python benchmarks/strategies.py --backend torch
    python benchmarks/strategies.py --backend torch --fit --json prices.json

``--fit`` finds the prices of ``hbconv/cost_model.py`` by non-negative least squares of the
relative errors. The counts of ``Work`` are the coefficients, over the forests and numbers of rows
below. On the CPU the clock is the process's own, with one thread, so that other work on the machine
disturbs little.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from sklearn.ensemble import RandomForestRegressor

from hbconv.backends import find_backend
from hbconv.containers import TreeEnsemble
from hbconv.cost_model import Prices, Work, find_prices
from hbconv.forest import Forest
from hbconv.parse import parse
from hbconv.strategy import strategies
from hbconv.target import Target
from hbconv.tensor import Builder

SHAPES = [
    (10, 3, None),
    (100, 1, None),
    (100, 3, None),
    (100, 5, None),
    (100, 8, None),
    (500, 6, None),
    (100, None, 31),
    (20, None, None),
]
"""Forests: trees, largest depth, largest number of leaves."""

UNITS = ("operator", "elementwise", "take", "read", "multiplication")
"""The prices of primitives, in the order of ``Prices``."""


@dataclass(frozen=True)
class Timing:
    """One strategy on one forest: seconds for all rows, measured and predicted."""

    forest: str
    rows: int
    strategy: str
    native: bool
    seconds: float
    predicted: float
    work: Work

    @property
    def kernel(self) -> str:
        """The kernel that its prices belong to."""
        return self.strategy if self.native else "primitives"

    def again(self, prices: Prices, target: Target) -> Timing:
        """Return the same timing, predicted by other prices."""
        return replace(self, predicted=prices.seconds(self.work, target.replace(rows=self.rows)))


def main() -> None:
    """Time, fit where asked, print."""
    parser = argparse.ArgumentParser(
        description="Time every tree strategy beside what the cost model predicts."
    )
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 30, 300, 10_000])
    parser.add_argument(
        "--longest",
        type=float,
        default=0.3,
        help="leave out what is predicted to take more seconds",
    )
    parser.add_argument("--fit", action="store_true", help="derive prices from these timings")
    parser.add_argument("--json", metavar="FILE", help="write everything; - for standard output")
    options = parser.parse_args()
    target = Target(backend=options.backend, device=options.device)
    timings = [
        t
        for shape in SHAPES
        for rows in options.rows
        for t in time_forest(shape, target.replace(rows=rows), options.longest)
    ]
    kernels = sorted({t.kernel for t in timings})
    prices = (
        {kernel: fit([t for t in timings if t.kernel == kernel], target) for kernel in kernels}
        if options.fit
        else {}
    )
    timings = [t.again(prices[t.kernel], target) if options.fit else t for t in timings]
    report = {
        "backend": options.backend,
        "prices": {kernel: asdict(p) for kernel, p in prices.items()},
        "timings": list(map(asdict, timings)),
    }
    if options.json == "-":
        json.dump(report, sys.stdout, indent=1)
        return
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1))
    print_timings(timings)
    print(report["prices"])


def time_forest(
    shape: tuple[int, int | None, int | None], target: Target, longest: float
) -> Iterator[Timing]:
    """Time each strategy that may be used; one where the backend runs them all by one operator."""
    forest = train(*shape)
    backend = find_backend(target.backend)
    x = (
        np.random.default_rng(1)
        .standard_normal((target.rows, forest.n_features))
        .astype(np.float32)
    )
    natives = backend.native_trees(target)
    known = (
        strategies()
        if natives < strategies().keys()
        else {"tree_traversal": strategies()["tree_traversal"]}
    )
    for name, strategy in known.items():
        native = name in natives
        refused = None if native else strategy.check(forest, target)
        predicted = (
            math.inf
            if refused
            else find_prices(target, name, native=native).seconds(strategy.work(forest), target)
        )
        if predicted > longest:
            continue
        work = strategy.work(forest)
        rows = target.rows if native else work.rows_at_once(target)
        seconds = time_strategy(
            forest, name, [x[i : i + rows] for i in range(0, len(x), rows)], target
        )
        yield Timing(
            f"{shape[0]} trees, depth {shape[1]}, leaves {shape[2]}",
            target.rows,
            name,
            native,
            seconds,
            predicted,
            work,
        )


def train(
    n_trees: int, max_depth: int | None, max_leaves: int | None, n_features: int = 28
) -> Forest:
    """Return the Forest of a random forest fitted to noise, so that trees grow fully."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, n_features)).astype(np.float32)
    y = rng.standard_normal(3000)
    model = RandomForestRegressor(
        n_trees, max_depth=max_depth, max_leaf_nodes=max_leaves, max_features=5, random_state=0
    ).fit(X, y)
    return next(node.forest for node in parse(model).nodes() if isinstance(node, TreeEnsemble))


def time_strategy(
    forest: Forest, strategy: str, chunks: list[npt.NDArray[Any]], target: Target
) -> float:
    """Return the least of several times for all chunks of rows, in seconds.

    They are seconds of the processor, and on a GPU of the wall clock.
    """
    clock = time.process_time if target.device == "cpu" else time.perf_counter
    b = Builder()
    leaves = b.op(
        "tree_leaves", b.input("x", "float32", forest.n_features), forest=forest, strategy=strategy
    )
    artifact = find_backend(target.backend).compile(b.program({"leaves": leaves}), target)
    artifact.run({"x": chunks[0]})
    times: list[float] = []
    end = time.perf_counter() + 0.3
    while len(times) < 3 or time.perf_counter() < end:
        start = clock()
        for x in chunks:
            artifact.run({"x": x})
        times.append(clock() - start)
    return min(times)


def fit(timings: list[Timing], target: Target) -> Prices:
    """Find the non-negative prices of least relative error; a native kernel has one price."""
    tile = find_prices(target, timings[0].strategy, native=timings[0].native).tile
    if timings[0].native:
        return Prices(
            visit=float(
                np.median(
                    [
                        t.seconds / (t.rows * t.work.visits)
                        for t in timings
                        if t.rows == max(s.rows for s in timings)
                    ]
                )
            ),
            tile=tile,
        )
    units = [replace(Prices(*unit), tile=tile) for unit in np.eye(len(UNITS)).tolist()]
    counts = [
        [unit.seconds(t.work, target.replace(rows=t.rows)) / t.seconds for unit in units]
        for t in timings
    ]
    matrix = np.array(counts)
    # A unit that none of the timings uses costs nothing.
    scale = np.where(matrix.any(axis=0), matrix.max(axis=0), 1)
    found, _ = nnls(matrix / scale, np.ones(len(timings)))
    return replace(Prices(*(found / scale).tolist()), tile=tile)


def print_timings(timings: list[Timing]) -> None:
    """Print the strategies of each case, the fastest first, and compare the plan's choice."""
    for (forest, rows), group in groupby(timings, key=lambda t: (t.forest, t.rows)):
        ranked = sorted(group, key=lambda t: t.seconds)
        chosen = min(ranked, key=lambda t: t.predicted)
        ratio = chosen.seconds / ranked[0].seconds
        print(f"\n{forest}, {rows} rows: chosen {chosen.strategy}, {ratio:.2f} times the best")
        for t in ranked:
            print(
                f"  {t.strategy:<24}{t.seconds * 1e3:10.3f} ms ",
                f"predicted {t.predicted * 1e3:10.3f} ms{'  native' if t.native else ''}",
            )


if __name__ == "__main__":
    main()
