"""Small data to fit on, and rows made to hurt."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

WIDTH = 8
SIZE = 200
LARGE = 1e4


def draw(rng: np.random.Generator, n: int) -> np.ndarray:
    """Columns of many kinds: counts, decimals, normal, skewed, flags, wide, small and mostly
    zero.
    """
    columns = (
        rng.integers(0, 6, n),
        rng.normal(size=n).round(1),
        rng.normal(size=n),
        rng.lognormal(size=n),
        rng.integers(0, 2, n),
        rng.normal(size=n) * 10,
        rng.normal(size=n) / 10,
        rng.normal(size=n) * (rng.random(n) < 0.3),
    )
    return np.stack(columns, axis=1).astype(np.float64)


@cache
def fit_rows() -> np.ndarray:
    """Rows to fit on, float64."""
    return draw(np.random.default_rng(0), SIZE)


@cache
def targets() -> dict[str, np.ndarray]:
    """Targets of every kind, by name."""
    x = fit_rows()
    noise = np.random.default_rng(1).normal(size=SIZE)
    value = x[:, 0] - 2 * x[:, 2] + 3 * x[:, 4] + 0.1 * x[:, 5] + 5 * x[:, 6] + noise
    band = np.digitize(value, np.quantile(value, [0.3, 0.7]))
    return {
        "value": value,
        "values": np.stack([value, x[:, 1] + noise], axis=1),
        "positive": np.exp(value / 10),
        "count": np.maximum(value, 0).round(),
        "two": (value > np.median(value)).astype(np.int64) * 4 + 3,
        "two_text": np.where(value > np.median(value), "yes", "no"),
        "two_bool": value > np.median(value),
        "three": band,
        "three_text": np.array(["low", "middle", "high"])[band],
        "labels": np.stack([band > 0, value > 2, x[:, 4] > 0], axis=1).astype(np.int64),
        "group": np.full(SIZE // 20, 20),
        "relevance": band,
        "flag": (band > 0).astype(np.int64),
        "share": 1 / (1 + np.exp(-value)),
    }


def target(name: str) -> np.ndarray:
    """One target."""
    return targets()[name]


def with_missing(x: np.ndarray, share: float = 0.15) -> np.ndarray:
    """Return a copy in which some entries of the odd columns are NaN."""
    x = x.copy()
    rng = np.random.default_rng(len(x) + 7)
    x[:, 1::2][rng.random(x[:, 1::2].shape) < share] = np.nan
    return x


def rows(n: int, *, large: float = LARGE) -> np.ndarray:
    """New rows, float64; all but the first hold hostile finite values.

    Zeros of both signs, denormals, large values, values seen in fitting, midpoints between them
    (where trees and bins cut) and the numbers beside those.
    """
    rng = np.random.default_rng(n)
    x = draw(rng, n)
    for row in range(1, n):
        for column in rng.choice(WIDTH, size=3, replace=False):
            x[row, column] = (
                rng.choice(_hostile(column, large))
                if row < 100 or rng.random() < 0.5
                else x[row, column]
            )
    return x


@cache
def _hostile(column: int, large: float) -> np.ndarray:
    seen = np.unique(fit_rows()[:, column])
    cuts = np.concatenate([seen, (seen[1:] + seen[:-1]) / 2])
    sides = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), cuts.astype(np.float32)]
    plain = np.array([0.0, -0.0, 1e-310, -1e-310, 1e-42, large, -large] * (len(cuts) // 4))
    return np.concatenate([*sides, plain])


def fit_table() -> pd.DataFrame:
    """Rows to fit on, with numbers, text and missing values."""
    return _table(np.random.default_rng(2), with_missing(fit_rows()), ["red", "green", "blue"])


def table_rows(n: int) -> pd.DataFrame:
    """New rows of the same columns, with a colour never seen."""
    return _table(
        np.random.default_rng(n), with_missing(rows(n)), ["red", "green", "blue", "mauve"]
    )


def _table(rng: np.random.Generator, x: np.ndarray, colours: list[str]) -> pd.DataFrame:
    table = pd.DataFrame(x[:, :4], columns=["count", "decimal", "normal", "skewed"])
    table["colour"] = rng.choice(colours, len(x)).astype(object)
    table["size"] = rng.choice(["S", "M", "L", "XL"], len(x)).astype(object)
    return table
