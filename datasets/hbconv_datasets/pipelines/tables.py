"""The tables that the pipelines read, drawn of one world: columns, effects and noise.

A world is a fixed set of scales and effects, so rows of each seed are of one distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "CATEGORIES", "NUMBERS", "few_numbers", "labels", "many_labels", "matrix", "missing", "mixed",
    "mixed_partly_filled", "nomao", "scores", "three_labels", "wide",
]  # fmt: skip

Matrix = npt.NDArray[np.float64]

NUMBERS = tuple(f"n{i}" for i in range(16))
"""Columns of numbers, of very different scales."""
CARDINALITIES = {"c0": 5, "c1": 12, "c2": 40, "c3": 200}
CATEGORIES = tuple(CARDINALITIES)
"""Columns of text."""
MISSING_SHARE = 0.05
MISSING_SHARE_NOMAO = 0.02


@dataclass(frozen=True)
class Drawn:
    """Rows of all columns, with what targets are made from."""

    numbers: Matrix
    codes: npt.NDArray[np.int64]
    centred: Matrix
    score: Matrix


@cache
def world() -> tuple[Matrix, Matrix, tuple[Matrix, ...]]:
    """Draw the scale and the mean of each number, and the effect of each category."""
    rng = np.random.default_rng(0)
    scales = np.exp(rng.normal(0, 2, len(NUMBERS)))
    means = rng.normal(0, 5, len(NUMBERS))
    effects = tuple(rng.normal(0, 1, size) for size in CARDINALITIES.values())
    return scales, means, effects


@cache
def drawn(rows: int, seed: int) -> Drawn:
    """Draw rows of all columns."""
    scales, means, effects = world()
    rng = np.random.default_rng((1, seed))
    centred = rng.standard_normal((rows, len(NUMBERS)))
    codes = np.stack([rng.zipf(1.5, rows) % len(e) for e in effects], axis=1)
    of_codes = sum(e[c] for e, c in zip(effects, codes.T, strict=True))
    score = centred[:, 0] + centred[:, 1] * centred[:, 2] - np.abs(centred[:, 3])
    score = score + of_codes + rng.normal(0, 1, rows)
    return Drawn(np.round(centred * scales + means, 4), codes, centred, score)


def matrix(rows: int, seed: int) -> Matrix:
    """Draw the numbers."""
    return drawn(rows, seed).numbers.copy()


def few_numbers(rows: int, seed: int) -> Matrix:
    """Draw the first half of the numbers, for models of many terms."""
    return np.ascontiguousarray(matrix(rows, seed)[:, :8])


def missing(rows: int, seed: int) -> Matrix:
    """Draw the numbers with holes."""
    numbers = matrix(rows, seed)
    holes = np.random.default_rng((2, seed)).random(numbers.shape) < MISSING_SHARE
    return np.where(holes, np.nan, numbers)


def mixed(rows: int, seed: int) -> Any:
    """Draw the numbers with holes and the categories as text, as a table."""
    import pandas as pd

    table = pd.DataFrame(missing(rows, seed), columns=list(NUMBERS))
    for name, codes in zip(CATEGORIES, drawn(rows, seed).codes.T, strict=True):
        table[name] = [f"{name}_{code}" for code in codes]
    return table


def mixed_partly_filled(rows: int, seed: int) -> Any:
    """Draw the same with the holes of the last four numbers filled."""
    table = mixed(rows, seed)
    return table.fillna(dict.fromkeys(NUMBERS[12:], 0.0))


def scores(rows: int, seed: int) -> Matrix:
    """Draw the target of regressors."""
    return drawn(rows, seed).score


def labels(rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw two classes."""
    score = scores(rows, seed)
    return (score > np.median(score)).astype(np.int64)


def three_labels(rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw three classes."""
    score = scores(rows, seed)
    return np.digitize(score, np.quantile(score, [0.33, 0.66]))


def many_labels(rows: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw five targets of two classes each."""
    z = drawn(rows, seed).centred
    tests = [labels(rows, seed), z[:, 1] > 0, z[:, 2] > z[:, 3], z[:, 4] > 0, z[:, 5] > z[:, 0]]
    return np.stack(tests, axis=1).astype(np.int64)


def wide(rows: int, seed: int) -> tuple[Matrix, Matrix]:
    """Draw 100 normal columns, and 50 noisy targets."""
    rng = np.random.default_rng((3, seed))
    columns = rng.standard_normal((rows, 100))
    return columns, columns[:, :50] + rng.normal(0, 1, (rows, 50))


def nomao(rows: int, seed: int) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """Draw a table of Nomao's shape: 89 numbers, 30 category codes, some of them missing."""
    rng = np.random.default_rng((4, seed))
    numbers = rng.random((rows, 89))
    codes = rng.integers(0, 3, (rows, 30)).astype(np.float64)
    score = numbers[:, :10].sum(axis=1) + codes[:, 0] + rng.normal(0, 1, rows)
    columns = np.concatenate([numbers, codes], axis=1)
    columns[rng.random(columns.shape) < MISSING_SHARE_NOMAO] = np.nan
    return columns, (score > 6).astype(np.int64)
