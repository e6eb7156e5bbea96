"""Time CatBoost classifiers of numbers, whose trees are symmetric, beside CatBoost's own answers.

    taskset -c 1 python benchmarks/catboost_numbers.py [--trees 500 1000] [--json FILE]

Milliseconds of the processor in a call of raw scores on one thread: the least of calls by turns.
Seconds of the processor to convert, and for the first call, which compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from catboost import CatBoostClassifier
from timing import least_processor_seconds, machine, versions

import hbconv

ROWS = 20_000
COLUMNS = 28
DEPTHS = (6, 8)
BATCHES = (20_000, 100, 1)
SECONDS = 4.0


def table() -> tuple[Any, Any]:
    """Return rows of float32 columns, and a target of two."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    score = X[:, 0] * X[:, 1] + X[:, 2] + np.sin(3 * X[:, 3])
    return X, (score + rng.standard_normal(ROWS) > 0).astype(int)


def converted(source: Any, X: Any) -> tuple[Any, dict[str, float]]:
    """Convert, answer once, and return the processor seconds of both."""
    began = time.process_time()
    model = hbconv.convert(source, threads=1, rows=ROWS)
    middle = time.process_time()
    model.raw_scores(X)
    ended = time.process_time()
    return model, {"convert": middle - began, "first call": ended - middle}


def measured(trees: int, depth: int) -> dict[str, Any]:
    """Fit a model, and time it by batches of rows."""
    X, y = table()
    quiet = {"verbose": 0, "allow_writing_files": False}
    source = CatBoostClassifier(iterations=trees, depth=depth, **quiet).fit(X, y)
    model, found = converted(source, X)
    raw = {"prediction_type": "RawFormulaVal", "thread_count": 1}
    np.testing.assert_array_equal(model.raw_scores(X), source.predict(X, **raw))
    milliseconds = {}
    for rows in BATCHES:
        calls: dict[str, Any] = {
            "hbconv": lambda part=X[:rows]: model.raw_scores(part),
            "CatBoost": lambda part=X[:rows]: source.predict(part, **raw),
        }
        best = least_processor_seconds(calls, SECONDS)
        milliseconds[rows] = {who: 1e3 * seconds for who, seconds in best.items()}
    return {"seconds": found, "milliseconds": milliseconds}


def warm_up() -> None:
    """Import all that a conversion needs, outside of what is timed."""
    X, y = table()
    source = CatBoostClassifier(iterations=2, depth=2, verbose=0, allow_writing_files=False)
    converted(source.fit(X[:99], y[:99]), X[:9])


def main() -> None:
    """Print a row for each model and batch."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, nargs="+", default=[500, 1000])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    os.environ["HBCONV_CACHE"] = "0"  # so that the first call compiles
    warm_up()
    found = {}
    for trees in chosen.trees:
        for depth in DEPTHS:
            name = f"{trees} trees of depth {depth}"
            found[name] = measured(trees, depth)
            print(name, "  ".join(f"{k} {s:.2f} s" for k, s in found[name]["seconds"].items()))
            for rows, times in found[name]["milliseconds"].items():
                ratio = times["CatBoost"] / times["hbconv"]
                told = "  ".join(f"{who} {ms:.4f} ms" for who, ms in times.items())
                print(f"  {rows:6} rows  {told}  {ratio:.1f} times")
    if chosen.json:
        record = {"machine": machine(), "versions": versions(), "models": found}
        chosen.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
