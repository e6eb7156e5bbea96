"""Measure how costs grow with trees, depth, rows, columns, categories, classes and texts.

    nice -n -5 taskset -c 0 python benchmarks/growth.py [--axes trees depth ...] [--short]
        [--json FILE] [--write docs]

Along each axis one size of a model grows, and all others stay. Each size has a process of its own,
without cached code, and imports come first. Answers are compared with the source's before anything
is timed, and the program ends with 1 where one is another. Times are processor time, the least of
some calls.

``--write docs`` stores the figures, their picture and their page there.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HBCONV_CACHE"] = "0"

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from growth_page import write
from results import facts, parse_options, save
from timing import in_new_process, least_processor_seconds, many

BATCH = 10_000
"""Rows of a call of many."""
MANY = 100
"""Calls of one row that are timed together."""
SOURCE_SECONDS = 20.0
"""Seconds that a call of the source may be predicted to take; rows are fewer beyond that."""
LARGEST_DIFFERENCE = {"float32": 3e-7, "float64": 1e-9}
"""By the dtype of the source's answer."""
RNG = np.random.default_rng(0)

Fitted = tuple[Any, Any]
"""A fitted model, and rows."""


@dataclass(frozen=True)
class Axis:
    """What grows, its sizes, what fits a model of a size, and why costs grow as they do."""

    about: str
    sizes: tuple[int, ...]
    fit: Callable[[int], Fitted]
    reason: str


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=AXES, metavar="NAME")
    parser.add_argument("--sizes", type=int, default=9, help="at most so many of an axis")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each figure")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path, help="the folder of the docs")
    chosen = parse_options(parser, sizes=2, seconds=0.1)
    figures: list[dict[str, Any]] = []
    for axis in chosen.axes:
        for size in AXES[axis].sizes[: chosen.sizes]:
            figures.append(in_new_process(measured, axis, size, chosen.seconds))
            print(line(figures[-1]), flush=True)
            save(figures, chosen)
    if chosen.write:
        about = {name: (axis.about, axis.reason) for name, axis in AXES.items()}
        write(chosen.write, facts(figures, chosen), about)
    sys.exit(not all(figure["equal"] for figure in figures))


def measured(axis: str, size: int, seconds: float) -> dict[str, Any]:
    """Return the costs of a model of one size."""
    import hbconv

    source, rows = AXES[axis].fit(size)
    one = rows[:1]
    _import_all()
    before = _resident_peak()
    model, convert_seconds = _timed(lambda: hbconv.convert(source, backend="tvm", sample=one))
    peak = _resident_peak() - before
    _, source_seconds = _timed(lambda: _answer(source, rows[:100]))
    compared = rows[: max(1, int(100 * SOURCE_SECONDS / max(source_seconds, 1e-9)))]
    wanted = _answer(source, compared)
    difference = np.max(np.abs(wanted - _answer(model, compared)), initial=0)
    _, first_seconds = _timed(lambda: _answer(model, one))
    answer = partial(_answer, model)
    # A clock of processor time may stand still for the microseconds of a call.
    some = least_processor_seconds({"some": many(answer, one, MANY)}, seconds, 3)["some"]
    batch = least_processor_seconds({"batch": partial(answer, rows)}, seconds, 3)["batch"]
    _, whole_seconds = _timed(lambda: _answer(source, compared))
    return {
        "axis": axis,
        "size": size,
        "convert_s": convert_seconds,
        "peak_mib": peak,
        "file_mb": len(model.to_bytes()) / 1e6,
        "first_row_ms": first_seconds * 1e3,
        "row_us": some / MANY * 1e6,
        "batch_ns": batch / len(rows) * 1e9,
        "source_ns": whole_seconds / len(compared) * 1e9,
        "equal": bool(difference <= LARGEST_DIFFERENCE[wanted.dtype.name]),
    }


def line(figure: dict[str, Any]) -> str:
    """Return a figure as a line of text."""
    return (
        f"{figure['axis']:<11}{figure['size']:>9,}  {figure['convert_s']:7.2f} s  "
        f"{figure['peak_mib']:7,.0f} MiB  {figure['file_mb']:8.2f} MB  "
        f"one row {figure['row_us']:9,.1f} us  "
        f"batch {figure['batch_ns']:11,.0f} ns a row (source {figure['source_ns']:,.0f})  "
        f"{'equal' if figure['equal'] else 'DIFFERENT'}"
    )


def _import_all() -> None:
    """Convert a model of nothing, so that no figure counts imports."""
    from sklearn.linear_model import LogisticRegression

    import hbconv

    hbconv.convert(LogisticRegression().fit([[0.0], [1.0]], [0, 1]), backend="tvm", sample=[[0.0]])


def _answer(model: Any, rows: Any) -> Any:
    return model.predict_proba(rows)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    answer = call()
    return answer, time.process_time() - began


def _resident_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _table(rows: int, columns: int, classes: int = 2) -> tuple[Any, Any]:
    """Draw rows, and a target that depends on a few columns."""
    x = RNG.standard_normal((rows, columns))
    score = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) + 0.3 * RNG.standard_normal(rows)
    ranks = np.argsort(np.argsort(score))
    return x, ranks * classes // rows


def _boosted(trees: int) -> Fitted:
    from lightgbm import LGBMClassifier

    x, y = _table(4000, 20)
    return LGBMClassifier(n_estimators=trees, n_jobs=1, verbose=-1).fit(x, y), x


def _forest(
    rows: int = 20_000, depth: int | None = None, columns: int = 20, classes: int = 2
) -> Fitted:
    from sklearn.ensemble import RandomForestClassifier

    x, y = _table(rows, columns, classes)
    return RandomForestClassifier(20, max_depth=depth, random_state=0).fit(x, y), x[:BATCH]


def _linear(columns: int) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = _table(500, columns)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=20)).fit(x, y), x


def _one_hot(categories: int) -> Fitted:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    names = np.array([f"category {i}" for i in range(categories)])
    rows = max(BATCH, categories)
    frame = pd.DataFrame(
        {"a": np.resize(names, rows), "b": RNG.permutation(np.resize(names, rows))}
    )
    encoder = OneHotEncoder(handle_unknown="ignore")
    model = make_pipeline(encoder, LogisticRegression(max_iter=5)).fit(
        frame, RNG.integers(0, 2, rows)
    )
    return model, frame[:BATCH]


def _target_encoded(categories: int) -> Fitted:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import TargetEncoder

    names = np.array([[f"category {i}"] for i in range(categories)], dtype=object)
    rows = np.resize(names, (max(BATCH, 2 * categories), 1))
    model = make_pipeline(TargetEncoder(random_state=0), LogisticRegression())
    return model.fit(rows, RNG.integers(0, 2, len(rows))), rows[-BATCH:]


def _text_columns(columns: int) -> Fitted:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    names = np.array([f"category {i}" for i in range(10)], dtype=object)
    frame = pd.DataFrame({f"c{i}": names[RNG.integers(0, 10, 1000)] for i in range(columns)})
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=5))
    return model.fit(frame, RNG.integers(0, 2, len(frame))), frame


def _asked(rows: int) -> Fitted:
    model, x = _boosted(100)
    return model, np.resize(x, (rows, x.shape[1]))


def _deep(depth: int) -> Fitted:
    from xgboost import XGBClassifier

    x, y = _table(20_000, 20)
    return XGBClassifier(n_estimators=20, max_depth=depth, n_jobs=1).fit(x, y), x[:BATCH]


def _neighbours(points: int) -> Fitted:
    from sklearn.neighbors import KNeighborsClassifier

    x, y = _table(points, 20)
    return KNeighborsClassifier(5, algorithm="brute").fit(x, y), x[:500]


def _texts(words: int) -> Fitted:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    known = np.array([f"word{i:x}" for i in range(5000)])
    rows = max(20, min(2000, 200_000 // words))
    drawn = known[(RNG.zipf(1.3, (rows, words)) - 1) % len(known)]
    texts = [" ".join(row) for row in drawn]
    return make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(
        texts, np.arange(rows) % 2
    ), texts


AXES = {
    "trees": Axis(
        "trees of 31 leaves (LightGBM)",
        (10, 100, 1000, 10_000),
        _boosted,
        "The last trees have fewer leaves, so each takes less.",
    ),
    "depth": Axis(
        "depth of 20 trees (random forest)",
        (4, 8, 12, 16, 20),
        lambda size: _forest(depth=size),
        "All tests of small trees are decided at once; rows walk down larger ones.",
    ),
    "boosted depth": Axis(
        "depth of 20 trees (XGBoost)",
        (4, 8, 12, 16, 20),
        _deep,
        "Rows walk down trees of more than some hundred leaves.",
    ),
    "rows": Axis(
        "rows fitted, 20 trees without a limit",
        (1000, 10_000, 100_000),
        _forest,
        "Nodes come from the outer caches, tree after tree.",
    ),
    "rows asked": Axis(
        "rows of a call, 100 trees of 31 leaves (LightGBM)",
        (1, 100, 10_000, 1_000_000, 10_000_000),
        _asked,
        "A call takes some microseconds, and a tile is full from 512 rows on.",
    ),
    "columns": Axis(
        "columns (scaler, logistic regression)",
        (10, 100, 1000, 10_000, 100_000),
        _linear,
        "Rows of more than 1,000 columns do not stay in the caches.",
    ),
    "forest columns": Axis(
        "columns, 20 trees of depth 8",
        (10, 100, 1000),
        lambda size: _forest(5000, 8, columns=size),
        "Trees read some columns, and whole rows come from memory.",
    ),
    "categories": Axis(
        "categories of two columns (one-hot)",
        (10, 100, 1000, 10_000, 100_000),
        _one_hot,
        "The tables of 100,000 texts do not fit the caches.",
    ),
    "target categories": Axis(
        "categories of a column (TargetEncoder)",
        (10, 100, 1000, 10_000, 100_000),
        _target_encoded,
        "As for one-hot codes.",
    ),
    "text columns": Axis(
        "columns of ten categories (one-hot)",
        (1, 10, 100, 1000),
        _text_columns,
        "pandas holds each column of texts as an array of its own, and 1,000 are cold.",
    ),
    "classes": Axis(
        "classes, 20 trees of depth 8",
        (2, 10, 100, 1000),
        lambda size: _forest(10_000, 8, classes=size),
        "A leaf has few classes and a row all: 1,000 shares take 8 kB, written twice.",
    ),
    "points": Axis(
        "points of 20 columns (neighbours)",
        (1000, 10_000, 100_000, 1_000_000),
        _neighbours,
        "In 20 columns no block of points is too far, so all are tried.",
    ),
    "words": Axis(
        "words of a text (TF-IDF)",
        (10, 100, 1000, 10_000),
        _texts,
        "A short text takes what a call takes.",
    ),
}

if __name__ == "__main__":
    main()
