"""Time a linear model of texts beside scikit-learn, in one process on one thread.

    taskset -c 0 python benchmarks/text.py [--features 131072] [--topics 20] [--rows 1 10000]
        [--longest 1] [--json FILE]

Tokens, tf-idf weights and scores are all counted. The documents are generated: 100 words on
average, drawn by Zipf's law. Figures are medians with their spread; machines drift, so quote ratios
of one run. ``tokens alone`` is the work of the host before a program runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from results import figure, parse_options, save
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from timing import timed

import hbconv
from hbconv.runtime.inputs.read import read_table
from hbconv_datasets import texts


def trained(features: int, topics: int, longest: int) -> tuple[Pipeline, Any]:
    """Fit on 20,000 documents; return the model, and documents that it has not seen.

    The language has more words than the model has features.
    """
    train, test = texts.documents(30_000, topics, words=4 * features).split(1 / 3)
    vectorizer = TfidfVectorizer(max_features=features, ngram_range=(1, longest))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It need not converge.
        model = make_pipeline(vectorizer, LogisticRegression(max_iter=15)).fit(train.X, train.y)
    return model, test.X


def contenders(
    model: Pipeline, sample: Any, backends: list[str]
) -> dict[str, Callable[[Any], Any]]:
    """Return functions from documents to probabilities, by name; the first is the source."""
    calls: dict[str, Callable[[Any], Any]] = {
        "scikit-learn": model.predict_proba,
        "scikit-learn, tokens alone": model[:-1].transform,
    }
    for backend in backends:
        began = time.perf_counter()
        converted = hbconv.convert(model, backend=backend)
        wrong = np.abs(converted.predict_proba(sample) - model.predict_proba(sample)).max()
        print(
            f"{backend}: converted in {time.perf_counter() - began:.2f} s,",
            f"largest difference {wrong:.1e}",
        )
        calls[f"hbconv {backend}"] = converted.predict_proba
        calls.setdefault(
            "hbconv, tokens alone",
            lambda x, reads=converted.reads: read_table(x, reads).groups(sparse=False),
        )
    return calls


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--features", type=int, default=2**17)
    options.add_argument("--topics", type=int, default=20)
    options.add_argument("--longest", type=int, default=1, help="words in an n-gram")
    options.add_argument("--rows", type=int, nargs="+", default=[1, 10_000])
    options.add_argument("--backends", nargs="+", default=["reference", "torch", "onnx", "tvm"])
    options.add_argument("--seconds", type=float, default=3.0, help="time spent on each figure")
    options.add_argument("--json", type=Path)
    chosen = parse_options(
        options, features=2**14, rows=[1, 1000], backends=["torch", "tvm"], seconds=0.5
    )
    torch.set_num_threads(1)
    model, documents = trained(chosen.features, chosen.topics, chosen.longest)
    print(f"{len(model[0].vocabulary_):,} features, {chosen.topics} topics")
    calls = contenders(model, documents[:1000], chosen.backends)
    figures = []
    for rows in chosen.rows:
        x = np.resize(documents, rows)
        source = 0.0
        for name, call in calls.items():
            times = timed(call, x, chosen.seconds, least=3)
            source = source or median(times)
            figures.append(figure("texts", rows, name, times))
            print(
                f"{name:<26} {rows:>7,} rows  {median(times) / rows * 1e6:>10,.1f} us a row ",
                f"{median(times) * 1e3:>10,.2f} ms a call",
                f"({min(times) * 1e3:,.2f} to {max(times) * 1e3:,.2f}) ",
                f"{source / median(times):>6.1f}x",
            )
    save(figures, chosen)


if __name__ == "__main__":
    main()
