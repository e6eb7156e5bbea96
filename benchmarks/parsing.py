"""Time how long it takes to read a fitted ensemble of each library into a graph.

    taskset -c 0 python benchmarks/parsing.py [--trees 500] [--leaves 255] [--json FILE]

Medians of repeated reads, in seconds of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from xgboost import XGBRegressor

from hbconv.containers import TreeEnsemble
from hbconv.parse import parse


def models(trees: int, leaves: int) -> dict[str, Any]:
    """Return unfitted ensembles whose trees grow to the given number of leaves."""
    silent = {
        "iterations": trees,
        "learning_rate": 0.01,
        "verbose": 0,
        "allow_writing_files": False,
    }
    return {
        "random forest": RandomForestRegressor(trees, max_leaf_nodes=leaves, random_state=0),
        "gradient boosting": GradientBoostingRegressor(
            n_estimators=trees, max_leaf_nodes=leaves, max_depth=None, learning_rate=0.01
        ),
        "histogram boosting": HistGradientBoostingRegressor(
            max_iter=trees,
            max_leaf_nodes=leaves,
            min_samples_leaf=1,
            learning_rate=0.01,
            early_stopping=False,
        ),
        "catboost": CatBoostRegressor(depth=max(1, leaves.bit_length()), **silent),
        "catboost, grown leaf by leaf": CatBoostRegressor(
            grow_policy="Lossguide", max_leaves=leaves, depth=16, min_data_in_leaf=1, **silent
        ),
        "lightgbm": LGBMRegressor(
            n_estimators=trees,
            num_leaves=leaves,
            learning_rate=0.01,
            min_child_samples=1,
            verbose=-1,
        ),
        "xgboost": XGBRegressor(
            n_estimators=trees,
            max_leaves=leaves,
            learning_rate=0.01,
            max_depth=0,
            grow_policy="lossguide",
            min_child_weight=0,
        ),
    }


def main() -> None:
    """Fit to noise, so that trees grow as far as they may, and time the reading."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--trees", type=int, default=500)
    options.add_argument("--leaves", type=int, default=255)
    options.add_argument("--repeat", type=int, default=7)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 10))
    y = rng.standard_normal(3000)
    figures = []
    for name, model in models(chosen.trees, chosen.leaves).items():
        model.fit(X, y)
        times = []
        for _ in range(chosen.repeat):
            began = time.process_time()
            graph = parse(model)
            times.append(time.process_time() - began)
        leaves = sum(
            node.forest.n_leaves for node in graph.nodes() if isinstance(node, TreeEnsemble)
        )
        figures.append(
            {
                "library": name,
                "leaves": leaves,
                "median": median(times),
                "fastest": min(times),
                "slowest": max(times),
            }
        )
        print(
            f"{name:<28} {leaves:>8,} leaves ",
            f"{median(times):.2f} s ({min(times):.2f} to {max(times):.2f})",
        )
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
