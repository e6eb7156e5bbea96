"""Seeded generators: six published benchmark shapes, matrices of any shape, a mixed table.

The shapes are those of the tree benchmarks of the Hummingbird paper (OSDI'20, section 6.1.1):
number of features, kind of columns, task and class balance. Values are drawn; a seed always gives
the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv_datasets.dataset import Dataset

__all__ = ["NAMES", "ORIGINAL_ROWS", "make", "mixed_table", "numbers"]

Matrix = npt.NDArray[np.float32]
Generator = np.random.Generator

ORIGINAL_ROWS = {
    "fraud": 284_807,
    "year": 515_345,
    "covtype": 581_012,
    "epsilon": 500_000,
    "higgs": 11_000_000,
    "airline": 115_000_000,
}
"""Rows of the original data sets."""


def make(name: str, rows: int = 100_000, seed: int = 0) -> Dataset:
    """Draw a matrix of a published shape.

    Parameters
    ----------
    name : str
        ``"fraud"``, ``"year"``, ``"covtype"``, ``"epsilon"``, ``"higgs"`` or ``"airline"``.
    rows, seed : int
        Number of rows; state of the generator.

    Examples
    --------
    >>> data = make("covtype", rows=500)
    >>> data.X.shape, data.X.dtype.name, sorted(set(data.y.tolist())), data.task
    ((500, 54), 'float32', [1, 2, 3, 4, 5, 6, 7], 'multiclass')
    """
    if name not in _SHAPES:
        raise ValueError(f"No generated shape {name!r}. Known: {', '.join(NAMES)}.")
    return _SHAPES[name](rows, np.random.default_rng(seed))


def numbers(
    features: int, classes: int = 2, categories: int = 0, rows: int = 100_000, seed: int = 0
) -> Dataset:
    """Draw a matrix of any width: standard normal columns, some of them cut into categories.

    Parameters
    ----------
    features : int
    classes : int
        Classes of the target, of equal size; 0 makes it a number.
    categories : int
        Columns that hold one of 32 categories of equal size, numbered in no order. They come
        first, and are those nearest to the target.
    rows, seed : int
        Number of rows; state of the generator.

    Examples
    --------
    >>> data = numbers(5, classes=3, categories=2, rows=300)
    >>> data.X.shape, data.task, np.bincount(data.y).tolist()
    ((300, 5), 'multiclass', [100, 100, 100])
    >>> np.unique(data.X[:, 0]).size, np.unique(data.X[:, 2]).size
    (32, 300)
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, features), np.float32)
    score = _score(x, rng)
    nearest = np.argsort([-abs(np.corrcoef(column, score)[0, 1]) for column in x.T], kind="stable")
    x = x[:, nearest]
    for column in range(categories):
        x[:, column] = rng.permutation(32)[_parts(x[:, column], 32)]
    if not classes:
        return Dataset("numbers", x, score, "regression")
    return Dataset("numbers", x, _parts(score, classes), "binary" if classes == 2 else "multiclass")


def _parts(values: npt.NDArray[Any], count: int) -> npt.NDArray[np.int64]:
    """Return which of so many parts of equal size each value falls in, 0 the lowest."""
    return np.searchsorted(np.quantile(values, np.arange(1, count) / count), values).astype(
        np.int64
    )


def _score(x: Matrix, rng: Generator) -> npt.NDArray[np.float64]:
    """Return a smooth, standardised score of the first columns; targets are made from it."""
    width = min(x.shape[1], 12)
    head = x[:, :width].astype(np.float64)
    head = (head - head.mean(axis=0)) / (head.std(axis=0) + 1e-9)
    raw = (
        head @ rng.standard_normal(width)
        + head[:, 0] * head[:, 1]
        + np.sin(2 * head[:, 2])
        + 0.5 * rng.standard_normal(len(x))
    )
    return np.asarray((raw - raw.mean()) / raw.std())


def _top(score: npt.NDArray[np.float64], share: float) -> npt.NDArray[np.int64]:
    """Label 1 for the given share of rows, those with the highest score; at least one row."""
    order = np.argsort(score)
    labels = np.zeros(len(score), np.int64)
    labels[order[len(order) - max(1, round(share * len(order))) :]] = 1
    return labels


def _fraud(rows: int, rng: Generator) -> Dataset:
    x = rng.standard_normal((rows, 28), np.float32)
    return Dataset("fraud", x, _top(_score(x, rng), 0.0017), "binary")


def _year(rows: int, rng: Generator) -> Dataset:
    x = rng.standard_normal((rows, 90), np.float32) * np.float32(30)
    return Dataset("year", x, np.round(1998 + 10 * _score(x, rng)), "regression")


def _covtype(rows: int, rng: Generator) -> Dataset:
    numeric = np.round(rng.gamma(4.0, 250.0, (rows, 10)))
    x = np.zeros((rows, 54), np.float32)
    x[:, :10] = numeric
    x[np.arange(rows), 10 + rng.choice(4, rows, p=[0.45, 0.05, 0.44, 0.06])] = 1
    x[np.arange(rows), 14 + rng.integers(0, 40, rows)] = 1
    # Class shares of the original: 1 and 2 are 85 % of the rows, 4 half a percent.
    score = _score(x, rng)
    edges = np.quantile(score, np.cumsum([0.365, 0.488, 0.061, 0.005, 0.016, 0.030]))
    return Dataset("covtype", x, np.searchsorted(edges, score) + 1, "multiclass")


def _epsilon(rows: int, rng: Generator) -> Dataset:
    x = rng.standard_normal((rows, 2000), np.float32)
    y = _top(_score(x, rng), 0.5)
    return Dataset("epsilon", x / np.linalg.norm(x, axis=1, keepdims=True), y, "binary")


def _higgs(rows: int, rng: Generator) -> Dataset:
    x = rng.standard_normal((rows, 28), np.float32)
    return Dataset("higgs", x, _top(_score(x, rng), 0.53), "binary")


def _airline(rows: int, rng: Generator) -> Dataset:
    sizes = (22, 12, 31, 7, 2400, 2400, 29, 8000, 300, 300, 300, 5000, 2)
    x = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1).astype(np.float32)
    return Dataset("airline", x, _top(_score(x, rng), 0.44), "binary")


_SHAPES: dict[str, Callable[[int, Generator], Dataset]] = {
    "fraud": _fraud,
    "year": _year,
    "covtype": _covtype,
    "epsilon": _epsilon,
    "higgs": _higgs,
    "airline": _airline,
}

NAMES = tuple(_SHAPES)
"""Names that ``make`` knows."""

_CARRIERS = ("AA", "AS", "B6", "DL", "F9", "HA", "NK", "UA", "WN", "Überflug")
_CITIES = tuple(f"{a}{b}{c}" for a in "ABDL" for b in "EIO" for c in "NRTX")


def mixed_table(rows: int = 100_000, seed: int = 0) -> Dataset:
    """Draw a pandas table of 14 numeric and 4 text columns, and a binary target.

    Eight columns are float64 with 5 to 20 % NaN, four are float32, and two are integers. The text
    columns have 10, 48, 3 and 200 values; two of them miss 3 % of theirs.

    Examples
    --------
    >>> table = mixed_table(rows=100).X
    >>> table.shape, sorted(set(map(str, table.dtypes[:14])))
    ((100, 18), ['float32', 'float64', 'int64'])
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for i in range(8):
        values = rng.gamma(2.0, 10.0 * (i + 1), rows)
        columns[f"amount_{i}"] = np.where(rng.random(rows) < 0.05 + 0.02 * i, np.nan, values)
    for i in range(4):
        columns[f"signal_{i}"] = rng.standard_normal(rows, np.float32)
    columns["age"] = rng.integers(18, 90, rows)
    columns["visits"] = rng.poisson(3.0, rows)
    carrier = rng.integers(0, len(_CARRIERS), rows)
    city = rng.integers(0, len(_CITIES), rows)
    columns["carrier"] = _with_missing(np.array(_CARRIERS, object)[carrier], rng)
    columns["city"] = _with_missing(np.array(_CITIES, object)[city], rng)
    columns["tier"] = np.array(["basic", "plus", "premium"], object)[rng.integers(0, 3, rows)]
    columns["segment"] = np.array([f"segment {i}" for i in range(200)], object)[
        rng.integers(0, 200, rows)
    ]
    score = (
        np.nan_to_num(columns["amount_0"]) / 20
        + columns["signal_0"] * columns["signal_1"]
        + (columns["age"] > 45) * 1.5
        + (carrier % 3)
        - (city % 5) / 2
        + rng.standard_normal(rows)
    )
    return Dataset(
        "mixed_table", pd.DataFrame(columns), (score > np.median(score)).astype(np.int64), "binary"
    )


def _with_missing(values: npt.NDArray[np.object_], rng: Generator) -> npt.NDArray[np.object_]:
    values[rng.random(len(values)) < 0.03] = np.nan
    return values
