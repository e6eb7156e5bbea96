"""Time tree ensembles beside their peers, in one process on one thread: LightGBM itself, ONNX Runtime, and hbconv's backends.

    taskset -c 0 python benchmarks/trees.py [--shape higgs] [--trees 500] [--leaves 31] [--rows 1 20000] [--categories 0] [--json FILE]

Everything is counted, from a row-major float32 matrix to the answer. Figures are medians with their spread; machines
drift, so quote ratios of one run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMClassifier
from timing import timed

import hbconv
from hbconv_datasets import generated


def contenders(model: LGBMClassifier, sample: Any, backends: list[str], precision: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions from rows to probabilities, by name."""
    calls: dict[str, Callable[[Any], Any]] = {"lightgbm": lambda x: model.booster_.predict(x, num_threads=1)}
    for backend in backends:
        began = time.perf_counter()
        converted = hbconv.convert(model, backend=backend, precision=precision, sample=sample)
        converted.predict_proba(sample)
        print(f"{backend}: converted in {time.perf_counter() - began:.2f} s, trees by {[c.strategy for _, c in converted.plan.choices]}")
        calls[f"hbconv {backend}"] = converted.predict_proba
    return calls


def with_categories(x: Any, y: Any, count: int) -> tuple[Any, list[int]]:
    """Cut the columns nearest to the target, so many of them, into 32 categories of equal size, in no order."""
    shuffled = np.random.default_rng(0).permutation(32)
    nearest = np.argsort([-abs(np.corrcoef(column, y)[0, 1]) for column in x.T])[:count]
    out = x.copy()
    for column in nearest:
        out[:, column] = shuffled[np.searchsorted(np.quantile(x[:, column], np.arange(1, 32) / 32), x[:, column])]
    return out, nearest.tolist()


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--shape", default="higgs", choices=generated.NAMES)
    options.add_argument("--trees", type=int, default=500)
    options.add_argument("--leaves", type=int, default=31)
    options.add_argument("--depth", type=int, default=-1)
    options.add_argument("--rows", type=int, nargs="+", default=[1, 20_000])
    options.add_argument("--backends", nargs="+", default=["tvm", "onnx", "torch"])
    options.add_argument("--precision", default="exact", choices=["exact", "fast"])
    options.add_argument("--categories", type=int, default=0, help="columns to cut into categories")
    options.add_argument("--seconds", type=float, default=3.0, help="time spent on each figure")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    data = generated.make(chosen.shape, 100_000)
    X, listed = with_categories(data.X, data.y, chosen.categories)
    model = LGBMClassifier(n_estimators=chosen.trees, num_leaves=chosen.leaves, max_depth=chosen.depth, n_jobs=1, verbose=-1)
    model.fit(X, data.y, categorical_feature=listed or "auto")
    figures = []
    calls = contenders(model, X[:5], chosen.backends, chosen.precision)
    for rows in chosen.rows:
        x = np.ascontiguousarray(np.resize(X, (rows, X.shape[1])))
        native = 0.0
        for name, call in calls.items():
            times = timed(call, x, chosen.seconds)
            native = native or median(times)
            figures.append({"name": name, "rows": rows, "median": median(times), "fastest": min(times), "slowest": max(times)})
            print(
                f"{name:<20} {rows:>7,} rows  {median(times) / rows * 1e9:>12,.0f} ns a row  {median(times) * 1e6:>12,.1f} us a call "
                f"({min(times) * 1e6:,.1f} to {max(times) * 1e6:,.1f})  {native / median(times):>7.1f}x"
            )
    if chosen.json:
        chosen.json.write_text(json.dumps({"options": vars(chosen), "figures": figures}, indent=2, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
