"""Time a default CatBoost model of categories, whose trees read statistics of the target.

    taskset -c 0 python benchmarks/catboost_categories.py [--trees 500] [--json FILE]

Milliseconds of the processor in a call on one thread: the least of calls by turns.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier, Pool
from timing import least_processor_seconds, machine, versions

import hbconv

ROWS = 20_000
NAMES = ("city", "shop", "item", "brand")
SECONDS = 8.0


def table() -> tuple[pd.DataFrame, Any]:
    """Return rows of six numbers and four columns of about 50 categories, and a target of two."""
    rng = np.random.default_rng(3)
    codes = {name: np.minimum(rng.geometric(0.06, ROWS) - 1, 49) for name in NAMES}
    effects = {name: rng.standard_normal(50)[codes[name]] for name in NAMES}
    numbers = {f"x{i}": rng.standard_normal(ROWS) for i in range(6)}
    texts = {name: [f"{name}_{code}" for code in codes[name]] for name in NAMES}
    score = sum(effects.values()) + 2 * effects["city"] * effects["shop"] + numbers["x0"]
    frame = pd.DataFrame({**numbers, **texts})
    return frame, (score + rng.standard_normal(ROWS) > 0).astype(int)


def measured(trees: int) -> dict[str, dict[str, float]]:
    """Time both on frames of texts, of categories, and of one row."""
    frame, y = table()
    source = CatBoostClassifier(
        iterations=trees, verbose=0, allow_writing_files=False, cat_features=list(NAMES)
    ).fit(frame, y)
    pool = Pool(frame, cat_features=list(NAMES))
    model = hbconv.convert(source, threads=1, rows=ROWS)
    raw = {"prediction_type": "RawFormulaVal", "thread_count": 1}
    np.testing.assert_array_equal(model.raw_scores(frame), source.predict(frame, **raw))
    found = {}
    listed = frame.astype(dict.fromkeys(NAMES, "category"))
    forms = {"20,000 rows, texts": frame, "20,000 rows, categories": listed, "1 row": frame[:1]}
    for name, rows in forms.items():
        calls: dict[str, Any] = {
            "hbconv": lambda rows=rows: model.raw_scores(rows),
            "CatBoost": lambda rows=rows: source.predict(rows, **raw),
        }
        if len(rows) == ROWS:
            calls["CatBoost, of a Pool"] = lambda: source.predict(pool, **raw)
        best = least_processor_seconds(calls, SECONDS)
        found[name] = {who: 1e3 * seconds for who, seconds in best.items()}
    return found


def main() -> None:
    """Print a row for each form of the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, default=500)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = measured(chosen.trees)
    for name, times in found.items():
        print(f"{name:26}" + "  ".join(f"{who} {ms:.3f} ms" for who, ms in times.items()))
    if chosen.json:
        record = {"machine": machine(), "versions": versions(), "milliseconds": found}
        chosen.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
