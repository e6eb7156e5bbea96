"""Train four pipelines, convert each to every backend, verify and time them, write the artifacts.

    make demo
    python examples/demo.py [--rows N] [--output DIR] [--json FILE]

1. ``breast_cancer``: a scaler and 300 LightGBM trees on real data that ships with scikit-learn.
2. ``mixed_table``: 18 columns of numbers and text with missing values, 100,000 rows by default.
   Imputing, scaling, one-hot and ordinal encoding, 200 LightGBM trees.
3. ``documents``: texts on 20 topics.
   Tf-idf weights of words and pairs of words, logistic regression.
4. ``listings``: a DataFrame of numbers, categories and a text in each row, with missing values.
   Imputing, scaling, encoding, tf-idf weights, logistic regression over all of them.

The data of the last three are generated. The program exits with 1 if a label differs from the
source's, or a number by more than its dtype allows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv_datasets import Dataset, bundled, generated, texts

FILES = (".hbc", ".onnx", ".pt", ".pt2")
BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
"""Largest difference by dtype of the rows.

float64 sums are in the source's order, so only exp and log differ. For float32 rows the source
computes in float64.
"""


def small_pipeline(train: Dataset) -> Pipeline:
    """Fit a scaler and trees over 30 numeric columns."""
    return make_pipeline(
        StandardScaler(), LGBMClassifier(n_estimators=300, num_leaves=15, n_jobs=1, verbose=-1)
    ).fit(train.X.to_numpy(), train.y)


def large_pipeline(train: Dataset) -> Pipeline:
    """Fit trees over imputed and scaled numbers and encoded text."""
    numeric = [c for c in train.X if c not in ("carrier", "city", "tier", "segment")]
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
        (OneHotEncoder(handle_unknown="ignore"), ["carrier", "city", "tier"]),
        (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["segment"]),
        sparse_threshold=0,
    )
    return make_pipeline(
        prepare, LGBMClassifier(n_estimators=200, num_leaves=31, n_jobs=1, verbose=-1)
    ).fit(train.X, train.y)


def text_pipeline(train: Dataset) -> Pipeline:
    """Fit a linear model over the tf-idf weights of some 100,000 words and pairs of words."""
    return make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2), LogisticRegression(max_iter=20, tol=0.1)
    ).fit(train.X, train.y)


def listings_pipeline(train: Dataset) -> Pipeline:
    """Fit a linear model over numbers, categories and tf-idf weights of texts."""
    prepare = make_column_transformer(
        (
            make_pipeline(SimpleImputer(strategy="median"), StandardScaler()),
            ["rent", "area", "rooms", "age"],
        ),
        (OneHotEncoder(handle_unknown="ignore"), ["district", "heating"]),
        (TfidfVectorizer(sublinear_tf=True), "description"),
    )
    return make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(train.X, train.y)


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """Return the median time of a call; a first call is not timed."""
    call()
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return median(times)


def compare(name: str, pipeline: Pipeline, rows: Any, dtype: str) -> list[dict[str, Any]]:
    """Convert to every backend; measure differences, flipped labels and times."""
    expected = pipeline.predict_proba(rows)
    labels = pipeline.predict(rows)
    one = rows[:1]
    source = {
        "batch": seconds(lambda: pipeline.predict_proba(rows), 3),
        "one": seconds(lambda: pipeline.predict_proba(one), 20),
    }
    results = []
    for backend in BACKENDS:
        began = time.perf_counter()
        model = hbconv.convert(pipeline, backend=backend, sample=rows[:5])
        model.predict_proba(one)
        converted = time.perf_counter() - began
        batch = seconds(lambda model=model: model.predict_proba(rows), 3)
        results.append(
            {
                "pipeline": name,
                "dtype": dtype,
                "backend": backend,
                "rows": len(rows),
                "convert_seconds": converted,
                "largest_difference": float(np.abs(model.predict_proba(rows) - expected).max()),
                "labels_differ": int((model.predict(rows) != labels).sum()),
                "source_ns_per_row": source["batch"] / len(rows) * 1e9,
                "ns_per_row": batch / len(rows) * 1e9,
                "source_us_one_row": source["one"] * 1e6,
                "us_one_row": seconds(lambda model=model: model.predict_proba(one), 20) * 1e6,
            }
        )
    return results


def table(results: list[dict[str, Any]]) -> str:
    """Print results, a backend a line."""
    first = results[0]
    about = f"\n{first['pipeline']}, {first['dtype']} rows, {first['rows']:,} at a time"
    times = (
        f"the source takes {first['source_ns_per_row']:,.0f} ns a row, "
        f"{first['source_us_one_row']:,.0f} us for one row"
    )
    titles = (
        f"{'backend':<12} {'difference':>10} {'labels':>9} {'ns a row':>10} {'speed-up':>9} "
        f"{'one row us':>11} {'speed-up':>9} {'convert s':>10}"
    )
    lines = [f"{about}; {times}", titles]
    for r in results:
        labels = "equal" if not r["labels_differ"] else f"{r['labels_differ']} differ"
        batch = r["source_ns_per_row"] / r["ns_per_row"]
        one = r["source_us_one_row"] / r["us_one_row"]
        lines.append(
            f"{r['backend']:<12} {r['largest_difference']:>10.1e} {labels:>9} "
            f"{r['ns_per_row']:>10,.0f} {batch:>8.1f}x "
            f"{r['us_one_row']:>11,.0f} {one:>8.1f}x {r['convert_seconds']:>10.2f}"
        )
    return "\n".join(lines)


def write_artifacts(
    name: str, pipeline: Pipeline, sample: Any, folder: Path, suffixes: tuple[str, ...] = FILES
) -> list[Path]:
    """Save the model in every format that can hold it, and the explanation of its plan."""
    model = hbconv.convert(pipeline, sample=sample)
    paths = [folder / f"{name}{suffix}" for suffix in suffixes]
    for path in paths:
        model.export(path)
    explanation = folder / f"{name}.explain.txt"
    explanation.write_text(str(model.explain()), encoding="utf-8")
    print(f"\nWhy {name} runs as it does:\n{model.explain()}")
    return [*paths, explanation]


def main() -> int:
    """Run the demo."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=100_000, help="rows of the generated table")
    options.add_argument(
        "--output", type=Path, default=Path("demo-output"), help="folder for the artifacts"
    )
    options.add_argument("--json", type=Path, help="also write the figures to this file")
    chosen = options.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    # LightGBM warns of arrays without names, though the scaler gave it arrays in training too.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")

    train, test = bundled.load("breast_cancer").split(0.5)
    small = small_pipeline(train)
    rows = np.tile(test.X.to_numpy(), (36, 1))[:10_000]
    results = [
        compare("breast_cancer", small, rows, "float64"),
        compare("breast_cancer", small, rows.astype(np.float32), "float32"),
    ]
    train, test = generated.mixed_table(chosen.rows).split(0.2)
    large = large_pipeline(train)
    results.append(compare("mixed_table", large, test.X[:10_000], "float64"))
    paths = write_artifacts("breast_cancer", small, rows[:5], chosen.output) + write_artifacts(
        "mixed_table", large, test.X[:5], chosen.output
    )
    for name, data, fit in (
        ("documents", texts.documents(4_000), text_pipeline),
        ("listings", texts.listings(4_000), listings_pipeline),
    ):
        train, test = data.split(0.5)
        pipeline = fit(train)
        results.append(compare(name, pipeline, test.X, "float64"))
        # The host makes tokens of texts, and only .hbc files say how.
        paths += write_artifacts(name, pipeline, test.X[:5], chosen.output, FILES[:1])

    print(*map(table, results), sep="\n")
    print("\nWritten:", *(f"  {p} ({p.stat().st_size:,} bytes)" for p in paths), sep="\n")
    figures = [r for part in results for r in part]
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    wrong = [
        r for r in figures if r["labels_differ"] or r["largest_difference"] > TOLERANCE[r["dtype"]]
    ]
    for r in wrong:
        print(
            f"WRONG: {r['pipeline']} on {r['backend']}: {r['labels_differ']} labels,",
            f"difference {r['largest_difference']:.1e}",
            file=sys.stderr,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
