"""Time mixed tables and nearest neighbours on every backend, beside scikit-learn, in one thread.

    taskset -c 0 python benchmarks/backends.py [--only trees ...] [--backends onnx ...]
        [--json FILE]

A table has 18 columns of numbers and text, with missing values: numbers are imputed and scaled,
texts are encoded, and a model follows. Neighbours are the nearest five among points of few columns.
All take turns in one process, and the least processor time of each counts. A figure is in
microseconds a row; quote ratios of one run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from timing import least_processor_seconds, machine, versions

import hbconv
from hbconv_datasets.generated import mixed_table

Case = tuple[Any, Any, str]
"""A fitted model, rows, and the method to time."""

BACKENDS = ("tvm", "torch", "torchscript", "onnx")
TRAINING_ROWS = 20_000
ROWS = 8_000
NEIGHBORS = 400
"""Rows in a call of neighbours, which take longer."""


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    options.add_argument("--seconds", type=float, default=10.0, help="of each case")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    figures = []
    for name in chosen.only:
        figures.append({"case": name} | measure(*CASES[name](), chosen.backends, chosen.seconds))
        print(figures[-1], flush=True)
    if chosen.json:
        told = {"machine": machine(), "versions": versions(), "figures": figures}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def table(encoder: Any, model: Any) -> Case:
    """Fit a model behind imputers, scalers and an encoder; without a model, time the transform."""
    drawn = mixed_table(TRAINING_ROWS + ROWS)
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), encoder)
    columns = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("words", words, make_column_selector(dtype_exclude="number")),
        ]
    )
    steps = [columns] if model is None else [columns, model]
    pipeline = make_pipeline(*steps).fit(drawn.X[:TRAINING_ROWS], drawn.y[:TRAINING_ROWS])
    method = "transform" if model is None else "predict_proba"
    return pipeline, drawn.X[TRAINING_ROWS:], method


def encoded(encoder: Callable[[], Any], model: Callable[[], Any]) -> Callable[[], Case]:
    """Return what fits a table."""
    return lambda: table(encoder(), model())


def neighbors(points: int, columns: int) -> Case:
    """Fit the nearest five of normal points."""
    rng = np.random.default_rng(0)
    known = rng.standard_normal((points, columns))
    model = KNeighborsClassifier(5).fit(known, known[:, 0] > 0)
    return model, rng.standard_normal((NEIGHBORS, columns)), "predict_proba"


def lightgbm() -> Any:
    """Return boosted trees, those of ``examples/demo.py``."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=200, num_leaves=31, n_jobs=1, verbosity=-1)


one_hot = partial(OneHotEncoder, handle_unknown="ignore", sparse_output=False)
ordinal = partial(OrdinalEncoder, handle_unknown="use_encoded_value", unknown_value=-1)

CASES: dict[str, Callable[[], Case]] = {
    "trees": encoded(one_hot, lightgbm),
    "linear": encoded(one_hot, partial(LogisticRegression, max_iter=200)),
    "transform": encoded(one_hot, lambda: None),
    "histogram boosting": encoded(ordinal, HistGradientBoostingClassifier),
    "random forest": encoded(ordinal, partial(RandomForestClassifier, n_jobs=1)),
    "random forest, one-hot": encoded(one_hot, partial(RandomForestClassifier, n_jobs=1)),
    "10,000 points, 2 columns": partial(neighbors, 10_000, 2),
    "10,000 points, 4 columns": partial(neighbors, 10_000, 4),
    "50,000 points, 6 columns": partial(neighbors, 50_000, 6),
}


def measure(source: Any, rows: Any, method: str, backends: list[str], seconds: float) -> Any:
    """Time the source and each backend by turns, once their answers agree."""
    answers = {"scikit-learn": getattr(source, method)}
    for backend in backends:
        model = hbconv.convert(source, backend=backend, threads=1, sample=rows[:5])
        answers[backend] = getattr(model, method)
        np.testing.assert_allclose(answers[backend](rows), answers["scikit-learn"](rows), atol=1e-5)
    calls = {name: partial(answer, rows) for name, answer in answers.items()}
    least = least_processor_seconds(calls, seconds)
    return dict(per_row(least, len(rows)))


def per_row(least: dict[str, float], rows: int) -> Iterator[tuple[str, float]]:
    """Yield microseconds a row, and how many times as fast as scikit-learn each backend is."""
    for name, time in least.items():
        yield f"{name}, us", float(f"{time / rows * 1e6:.3g}")
        if name != "scikit-learn":
            yield f"{name}, times", float(f"{least['scikit-learn'] / time:.3g}")


if __name__ == "__main__":
    main()
