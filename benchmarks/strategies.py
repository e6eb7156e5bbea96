"""Fit the prices of tree strategies to the timings of ``regret.py``.

    python benchmarks/regret.py --backend torch --json torch.jsonl
    python benchmarks/strategies.py torch.jsonl --fit

Each strategy of a backend gets prices of its own in ``hbconv/cost_model/shipped.py``: the
non-negative ones whose predictions err least, by the ratio of seconds predicted and measured. A
time counts by how near it is to the best, since a hopeless strategy is never chosen. Without
``--fit`` the shipped prices are compared with the timings.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from regret_forests import Shape, train
from scipy.optimize import nnls

from hbconv.backends import find_backend
from hbconv.cost_model import Factors, Prices, Work, scaled_prices
from hbconv.optimize.program_cost import tree_work
from hbconv.target import Target

FLAT = ("operator", "multiplication", "column")
"""Prices that no cache changes."""
LEVELLED = ("elementwise", "take", "read", "visit", "sum")
"""Prices of four numbers: in the nearest cache, and what a miss of each level adds."""
LEVELS = 4
ROUNDS = 20
"""Rounds of weighted least squares, each weighted by the predictions of the one before."""


@dataclass(frozen=True)
class Timing:
    """Seconds of a strategy, and the work that they were for."""

    work: Work
    target: Target
    seconds: float
    weight: float


def main() -> None:
    """Read timings, and fit or compare."""
    parser = argparse.ArgumentParser(description="Fit the prices of tree strategies.")
    parser.add_argument("timings", type=Path, help="written by regret.py")
    parser.add_argument("--fit", action="store_true", help="derive prices")
    options = parser.parse_args()
    cases = [json.loads(line) for line in options.timings.read_text().splitlines()]
    for strategy, timings in sorted(read(cases).items()):
        target = timings[0].target
        native = strategy in find_backend(target.backend).native_trees(target)
        prices = scaled_prices(target.backend, strategy, Factors(), native=native)
        if options.fit:
            prices = fit(timings, prices.tile)
            print(f'    ("{target.backend}", "{strategy}"): {show(prices)},')
        errors = [prices.seconds(t.work, t.target) / t.seconds for t in timings]
        quartiles = ", ".join(
            f"{q:.2f}" for q in np.quantile(errors, (0.05, 0.25, 0.5, 0.75, 0.95))
        )
        print(f"# {strategy}: predicted / measured at 5, 25, 50, 75 and 95 %: {quartiles}")


def read(cases: list[dict[str, Any]]) -> dict[str, list[Timing]]:
    """Return the timings of each strategy."""
    timings: dict[str, list[Timing]] = defaultdict(list)
    for case in cases:
        shape = Shape(**case["shape"])
        target = Target(case["backend"], rows=case["rows"])
        best = min(case["times"].values())
        for strategy, seconds in case["times"].items():
            work = tree_work(
                train(shape), strategy, target, find_backend(target.backend), shape.dtype
            )
            timings[strategy].append(Timing(work, target, seconds, (best / seconds) ** 0.5))
    return timings


def fit(timings: list[Timing], tile: int) -> Prices:
    """Find the non-negative prices of least relative error.

    1. Price the work of each timing by each unit alone: the prediction is linear in the prices. A
       call itself takes as long whatever the strategy, so its price is left out of the result.
    2. Weigh by the seconds measured and those predicted by the round before.
    """
    units = _units(tile)
    counts = np.array(  # 1
        [[1.0, *(unit.seconds(t.work, t.target) for unit in units)] for t in timings]
    )
    if len({t.work.operators for t in timings}) == 1:
        counts[:, 1 + FLAT.index("operator")] = 0
    seconds = np.array([t.seconds for t in timings])
    weight = np.array([t.weight for t in timings])
    predicted = seconds
    for _ in range(ROUNDS):
        scale = (weight / np.sqrt(seconds * np.clip(predicted, seconds / 9, seconds * 9)))[
            :, None
        ]  # 2
        rows = counts * scale
        size = np.where(rows.any(axis=0), rows.max(axis=0), 1)
        found, _ = nnls(rows / size, seconds * scale[:, 0], maxiter=10_000)
        found = found / size
        predicted = counts @ found
    return _prices(found[1:], tile)


def _units(tile: int) -> list[Prices]:
    """List prices of one for each unit alone, and for each level of those that have levels."""
    flat = [Prices(**{name: 1.0}, tile=tile) for name in FLAT]
    levels = np.eye(LEVELS).tolist()
    return flat + [
        Prices(**{name: tuple(level)}, tile=tile) for name in LEVELLED for level in levels
    ]


def _prices(found: npt.NDArray[Any], tile: int) -> Prices:
    flat = dict(zip(FLAT, found[: len(FLAT)].tolist(), strict=True))
    levels = found[len(FLAT) :].reshape(-1, LEVELS).tolist()
    levelled = {name: tuple(level) for name, level in zip(LEVELLED, levels, strict=True)}
    return replace(Prices(tile=tile), **flat, **levelled)


def show(prices: Prices) -> str:
    """Write prices as Python, with three digits and without zeros."""
    written = []
    for field in fields(prices):
        value = getattr(prices, field.name)
        numbers = value if isinstance(value, tuple) else (value,)
        if field.name == "functions" or not any(numbers) or (field.name, value) == ("tile", 1):
            continue
        shown = ", ".join(f"{number:.3g}" for number in numbers)
        written.append(f"{field.name}={f'({shown})' if len(numbers) > 1 else shown}")
    return f"Prices({', '.join(written)})"


if __name__ == "__main__":
    main()
