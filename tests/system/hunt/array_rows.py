"""Rows made to hurt a model that was fitted on a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from hunt.dice import Dice
from hunt.tree_thresholds import find_thresholds

__all__ = ["HARD_NUMBERS", "array_rows"]

Array = npt.NDArray[Any]
Named = Iterator[tuple[str, Any]]

HARD_NUMBERS = (
    0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 1e-45, 1e-38, 1e-35, -1e-35, 1.0000001e-35, 1e-300,
    3.4028234e38, 3.4028236e38, 1e39, 1e300, -1e300, np.inf, -np.inf, np.nan, 2.0**53,
    2.0**53 + 2, 2.0**24 + 1, 2.0**31, -(2.0**31), 2.0**63, 0.1, 1 / 3,
)  # fmt: skip
"""Denormals, LightGBM's zero, the ends of float32, of exact integers, and what is no number."""

MOST_THRESHOLDS = 25
LARGEST_INTEGER = 1e9
LARGEST_HALF = 6e4


def array_rows(dice: Dice, fitted_on: Array, model: Any) -> Named:
    """Yield rows by name: usual ones first, then one kind of hurt after another."""
    random = dice.numbers.normal(size=(10, fitted_on.shape[1])).astype(fitted_on.dtype)
    base = np.concatenate([fitted_on[:12], random * 3])
    finite = np.nan_to_num(base, posinf=0, neginf=0)
    yield "plain", base
    yield "float32", base.astype(np.float32)
    yield "float64", base.astype(np.float64)
    yield from _near_thresholds(dice, base, model)
    yield from _hard(dice, base)
    yield from _other_dtypes(dice, base, finite)
    yield from _layouts(base)
    yield from _sizes(base)
    yield from _containers(dice, base, finite)


def _near_thresholds(dice: Dice, base: Array, model: Any) -> Named:
    """Rows on thresholds, and one unit in the last place beside, in both dtypes."""
    inside = [split for split in find_thresholds(model) if split[0] < base.shape[1]]
    rows = []
    for column, threshold in dice.some(inside, MOST_THRESHOLDS):
        for value in _beside(threshold):
            row = np.array(base[dice.count(0, len(base))], np.float64)
            row[column] = value
            rows.append(row)
    if rows:
        yield "thresholds float64", np.array(rows)
        yield "thresholds float32", np.array(rows).astype(np.float32)


def _beside(threshold: float) -> Iterator[Any]:
    for dtype in (np.float64, np.float32):
        value = dtype(threshold)
        yield value
        yield np.nextafter(value, dtype(np.inf))
        yield np.nextafter(value, dtype(-np.inf))


def _hard(dice: Dice, base: Array) -> Named:
    """Rows with numbers that are hard to hold, to compare or to compute with."""
    n_rows, width = base.shape
    usual = base[dice.numbers.integers(0, n_rows, 24)].astype(np.float64)
    numbers = dice.numbers.choice(np.array(HARD_NUMBERS), (24, width))
    hard = np.where(dice.numbers.random((24, width)) < 0.4, numbers, usual)
    yield "hard float64", hard
    yield "hard float32", hard.astype(np.float32)
    yield "hard finite", np.where(np.isfinite(hard) & (np.abs(hard) < 1e30), hard, 1.0)
    holes = dice.numbers.random(base.shape) < 0.3
    yield "nan", np.where(holes, np.nan, base).astype(base.dtype)
    yield "zeros", np.zeros((3, width))
    yield "negative zeros", np.full((3, width), -0.0)


def _other_dtypes(dice: Dice, base: Array, finite: Array) -> Named:
    integers = np.clip(finite, -LARGEST_INTEGER, LARGEST_INTEGER)
    yield "int64", integers.astype(np.int64)
    yield "int32", integers.astype(np.int32)
    yield "large integers", dice.numbers.integers(-(2**62), 2**62, (5, base.shape[1]))
    yield "bool", finite > 0
    yield "uint8", np.clip(np.abs(finite), 0, 255).astype(np.uint8)
    yield "float16", np.clip(finite, -LARGEST_HALF, LARGEST_HALF).astype(np.float16)
    yield "object", finite.astype(object)
    yield "big endian", base.astype(">f8")


def _layouts(base: Array) -> Named:
    """The same rows, elsewhere in memory."""
    spread = np.zeros((len(base) * 2, base.shape[1] * 2), base.dtype)
    spread[::2, ::2] = base
    locked = base.copy()
    locked.flags.writeable = False
    odd = np.zeros(base.nbytes + 1, np.uint8)[1:].view(base.dtype).reshape(base.shape)
    odd[:] = base
    yield "column by column", np.asfortranarray(base)
    yield "strided", spread[::2, ::2]
    yield "reversed", base[::-1]
    yield "read only", locked
    yield "misaligned", odd


def _sizes(base: Array) -> Named:
    yield "one row", base[:1]
    yield "no rows", base[:0]
    yield "many", np.tile(base, (30, 1))
    yield "one dimension", base[0]
    yield "wide", np.concatenate([base, base[:, :1]], axis=1)
    if base.shape[1] > 1:
        yield "narrow", base[:, :-1]


def _containers(dice: Dice, base: Array, finite: Array) -> Named:
    """The same numbers in other classes."""
    yield "list", finite.tolist()
    yield "masked", np.ma.masked_array(finite, finite > 1e9)
    yield "csr", scipy.sparse.csr_matrix(finite)
    yield "csc", scipy.sparse.csc_matrix(finite)
    yield "coo float32", scipy.sparse.coo_matrix(finite.astype(np.float32))
    yield "frame", pd.DataFrame(base)
    integers = np.clip(finite, -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)
    mixture = {}
    for i, column in enumerate(finite.T):
        floats = column.astype(dice.pick(np.float32, np.float64))
        mixture[f"q{i}"] = floats if dice.chance(0.7) else integers[:, i]
    yield "frame of many dtypes", pd.DataFrame(mixture)
