"""How far the source itself moves: where rows stand alone or in another order, and where their
numbers are others by some units in the last place.

What cancels, or is divided by nearly nothing, has no answer to the last bits. A difference that is
no larger than a few times the source's own is none of hbconv's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse
from hunt.differences import Standard, plain_parts
from hunt.rounding_noise import rounded_otherwise
from sources import quietly

__all__ = ["is_within_movement"]

Array = npt.NDArray[Any]
Answer = list[Array]

MOST_ALONE = 60
"""Rows that are asked one by one."""
COPIES = 8
"""Times that rows are repeated: libraries of linear algebra multiply one row otherwise than many."""
NUDGES = 10
NUDGE_UNITS = {np.float64: 1e-15, np.float32: 2e-7}
"""Largest relative change of a number: some units in the last place."""
MARGIN = 20
"""Times that a difference may exceed the farthest move that was seen."""


def is_within_movement(
    standard: Standard, source: Any, method: str, rows: Any, got: Any, want: Any
) -> bool:
    """Whether each entry that differs is one that the source moves as far.

    Nothing is nudged of an exact model: its decisions are promised on the last bit.
    """
    rows = np.asarray(rows) if isinstance(rows, list) else rows
    moved = list(_rearranged(source, method, rows))
    if not standard.exact:
        moved += list(_nudged(source, method, rows))
    parts = zip(plain_parts(got), plain_parts(want), strict=True)
    return bool(moved) and all(
        _explains([answer[i] for answer in moved], standard, rows, mine, theirs)
        for i, (mine, theirs) in enumerate(parts)
    )


def _ask(source: Any, method: str, rows: Any) -> Answer:
    return plain_parts(quietly(source, method, rows))


def _rearranged(source: Any, method: str, rows: Any) -> Iterator[Answer]:
    """Answers to the rows in reverse, among copies, and to each alone, in the order of the rows."""
    take = rows.iloc.__getitem__ if isinstance(rows, pd.DataFrame) else _tocsr(rows).__getitem__
    count = rows.shape[0]
    with suppress(Exception):
        reverse = np.arange(count)[::-1]
        yield [part[::-1] for part in _ask(source, method, take(reverse))]
    with suppress(Exception):
        copies = np.tile(np.arange(count), COPIES)
        yield [part[:count] for part in _ask(source, method, take(copies))]
    if count > MOST_ALONE:
        return
    with suppress(Exception):
        alone = [_ask(source, method, take([i])) for i in range(count)]
        yield [np.concatenate(parts) for parts in zip(*alone, strict=True)]


def _tocsr(rows: Any) -> Any:
    return rows.tocsr() if scipy.sparse.issparse(rows) else rows


def _nudged(source: Any, method: str, rows: Any) -> Iterator[Answer]:
    """Answers where numbers are others by some units: those of the rows, and those inside."""
    rng = np.random.default_rng(0)
    for _ in range(NUDGES):
        with suppress(Exception):
            yield _ask(source, method, _nudge(rows, rng))
        with suppress(Exception):
            yield _ask(rounded_otherwise(source, rng), method, rows)


def _nudge(rows: Any, rng: np.random.Generator) -> Any:
    if isinstance(rows, pd.DataFrame):
        floats = rows.select_dtypes("floating")
        columns = {name: _nudge(_numbers(floats[name]), rng) for name in floats}
        return rows.assign(**columns)
    if scipy.sparse.issparse(rows):
        nudged = rows.copy()
        nudged.data = _nudge(rows.data, rng)
        return nudged
    units = NUDGE_UNITS[rows.dtype.type]
    return (rows * (1 + rng.uniform(-units, units, rows.shape))).astype(rows.dtype)


def _numbers(column: pd.Series) -> Array:
    """Return the floats of a column; of one that may hold NA, with NaN there."""
    dtype = np.float32 if column.dtype == np.float32 else np.float64
    return column.to_numpy(dtype=dtype, na_value=np.nan)


def _explains(moved: Answer, standard: Standard, rows: Any, got: Array, want: Array) -> bool:
    """Whether the moves reach as far as what was got, wherever that is not the source's."""
    if got.dtype.kind != "f" or want.dtype.kind != "f":
        is_moved = np.any([answer != want for answer in moved], axis=0)
        return bool(((got == want) | is_moved).all())
    with np.errstate(all="ignore"):
        far = np.max([_distance(answer, want) for answer in moved], axis=0)
        near = standard.limits(rows, want) + MARGIN * far
        return bool((_distance(got, want) <= near).all())


def _distance(a: Array, b: Array) -> Array:
    """Return how far numbers are apart: infinitely where not both are finite, or both the same."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(same, 0.0, np.where(np.isfinite(gap), gap, np.inf))
