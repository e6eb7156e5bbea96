"""Time what features contribute, each and in pairs, against each library, in one thread.

    taskset -c 0 python benchmarks/contributions.py [--rows 2000] [--repeats 3] [--json FILE]
    taskset -c 0 python benchmarks/contributions.py --pairs --rows 200

Each library explains the rows of one model with a call of its own, and hbconv with
``contributions``, or ``interactions``, of the same model on backend tvm. The two take turns. Times
are of the processor, the best of the repeats, in microseconds a row. ``apart`` is the largest
difference between both answers, relative to the largest value.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import xgboost as xgb

import hbconv

FEATURES = 20
TRAINING_ROWS = 5_000
TREES = 100

Explain = Callable[[npt.NDArray[Any]], Any]


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=2_000)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--json", type=Path)
    options.add_argument("--pairs", action="store_true", help="time interactions, of XGBoost")
    chosen = options.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((TRAINING_ROWS, FEATURES))
    y = x[:, 0] * x[:, 1] + np.sin(x[:, 2]) + 0.1 * rng.standard_normal(len(x))
    rows = np.resize(x, (chosen.rows, FEATURES))
    listed = pair_models(x, y) if chosen.pairs else models(x, y)
    method = "interactions" if chosen.pairs else "contributions"
    figures = [
        measure(name, source, explain, method, rows, chosen.repeats)
        for name, source, explain in listed
    ]
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1))


def models(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Iterator[tuple[str, Any, Explain]]:
    """Yield the name of each model, the model, and how its own library explains rows."""
    for leaves in (31, 255):
        light = lgb.LGBMRegressor(
            num_leaves=leaves, n_estimators=TREES, n_jobs=1, verbosity=-1
        ).fit(x, y)
        yield (
            f"LightGBM, {leaves} leaves",
            light,
            lambda rows, m=light: m.predict(rows, pred_contrib=True),
        )
    for depth in (4, 6):
        extreme = xgb.XGBRegressor(n_estimators=TREES, max_depth=depth, n_jobs=1).fit(x, y)
        booster = extreme.get_booster()
        yield (
            f"XGBoost, depth {depth}",
            extreme,
            lambda rows, b=booster: b.predict(xgb.DMatrix(rows, nthread=1), pred_contribs=True),
        )
    for depth in (6, 8):
        cat = catboost.CatBoostRegressor(
            iterations=TREES, depth=depth, thread_count=1, verbose=0, allow_writing_files=False
        ).fit(x, y)
        yield (
            f"CatBoost, depth {depth}",
            cat,
            lambda rows, m=cat: m.get_feature_importance(
                catboost.Pool(rows, thread_count=1), type="ShapValues", thread_count=1
            ),
        )


def pair_models(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Iterator[tuple[str, Any, Explain]]:
    """Yield the same of the models whose library explains pairs of features."""
    for depth in (4, 6):
        source = xgb.XGBRegressor(n_estimators=TREES, max_depth=depth, n_jobs=1).fit(x, y)
        booster = source.get_booster()
        yield (
            f"XGBoost, depth {depth}",
            source,
            lambda rows, b=booster: b.predict(xgb.DMatrix(rows, nthread=1), pred_interactions=True),
        )


def measure(
    name: str,
    source: Any,
    explain: Explain,
    method: str,
    rows: npt.NDArray[Any],
    repeats: int,
) -> dict[str, Any]:
    """Time both by turns, and print a line."""
    ours_of = getattr(hbconv.convert(source, backend="tvm", threads=1), method)
    want = np.asarray(explain(rows))
    apart = float(np.abs(ours_of(rows) - want).max() / np.abs(want).max())
    turns = [[_microseconds(call, rows) for call in (explain, ours_of)] for _ in range(repeats)]
    own, ours = (min(times) for times in zip(*turns, strict=True))
    print(f"{name:22} {own:9.2f} us {ours:8.2f} us {own / ours:6.1f} times, apart {apart:.0e}")
    return {"model": name, "library_us": own, "hbconv_us": ours, "apart": apart}


def _microseconds(call: Explain, rows: npt.NDArray[Any]) -> float:
    began = time.process_time()
    call(rows)
    return 1e6 * (time.process_time() - began) / len(rows)


if __name__ == "__main__":
    main()
