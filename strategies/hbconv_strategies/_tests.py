"""All tests of a forest in one form, ``left = x[column] <= threshold``, NaN included, and what the strategies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.forest import Forest
from hbconv.strategy import Refusal, Work
from hbconv.target import Target
from hbconv.tensor import Builder, Value

__all__ = ["VALUE", "Tests", "fixed_leaves", "prepare_tests", "refuse_memory", "tests_work"]

VALUE = 8
"""Bytes of a feature value, at most."""


@dataclass(frozen=True)
class Tests:
    """The tests of a forest over prepared columns: a row goes left where ``x[column] <= threshold``.

    NaN is never ``<=``, so it goes right; a test that sends it left reads a copy of its column in which NaN became
    -inf. One test cannot be said so: "left only if NaN" (strict, threshold -inf), which reads a column of -inf for NaN
    and +inf for all else.
    """

    x: Value
    column: npt.NDArray[np.int32]
    threshold: npt.NDArray[Any]

    def goes_left(self, tests: npt.NDArray[Any], b: Builder) -> Value:
        """Decide the tests, each at a fixed place: bool (rows, len(tests))."""
        return b.take(self.x, self.column[tests]) <= b.constant(self.threshold[tests])


def prepare_tests(forest: Forest, x: Value, b: Builder) -> Tests:
    """Write the columns that the tests read, and say where each finds its own."""
    threshold = forest.less_equal_thresholds(x.dtype)
    kind = _kinds(forest, np.isnan(threshold))
    used = np.unique(kind)
    lowest = b.constant(-np.inf, x.dtype)
    planes = [
        lambda: x,
        lambda: b.where(b.op("isnan", x), lowest, x),
        lambda: b.where(b.op("isnan", x), lowest, b.constant(np.inf, x.dtype)),
    ]
    column = forest.feature.data + forest.n_features * np.searchsorted(used, kind)
    columns = b.concat([planes[k]() for k in used])
    return Tests(columns, column.astype(np.int32), np.where(kind == 2, np.zeros_like(threshold), threshold))


def tests_work(forest: Forest) -> Work:
    """Count what ``prepare_tests`` writes."""
    kinds = np.unique(_kinds(forest, (forest.threshold.data == -np.inf) & forest.strict))
    copies = len(kinds) - (0 in kinds)
    if not copies:
        return Work()
    joined = len(kinds) if len(kinds) > 1 else 0
    return Work(
        operators=1 + copies + (joined > 0),
        elementwise=forest.n_features * (1 + copies + joined),
        temporaries=forest.n_features * (VALUE * (copies + joined) + 1),
    )


def fixed_leaves(forest: Forest, x: Value, b: Builder) -> Value:
    """Leaves of a forest without tests: the same for every row."""
    return b.op("expand", x, b.constant(~forest.roots.data))


def refuse_memory(work: Work, target: Target, tables: str, temporaries: str) -> Refusal | None:
    """Refuse work that needs more memory than the target allows, and say how much."""
    if work.tables > target.memory:
        return Refusal(f"needs {_bytes(work.tables)} for {tables}, allowed {_bytes(target.memory)}")
    rows = work.rows_at_once(target)
    needed = work.tables + work.temporaries * rows
    if needed > target.memory:
        return Refusal(f"needs {_bytes(needed)} for {temporaries} of {rows} rows, allowed {_bytes(target.memory)}")
    return None


def _kinds(forest: Forest, never: npt.NDArray[np.bool_]) -> npt.NDArray[np.int_]:
    """Column that each test needs: 0 as it is, 1 with -inf for NaN, 2 whether it is NaN (``never``: no number goes left)."""
    return np.where(forest.default_left.data, np.where(never, 2, 1), 0)


def _bytes(count: int) -> str:
    """Write a number of bytes as people do.

    Examples
    --------
    >>> _bytes(3_100_000_000), _bytes(50_000_000), _bytes(512)
    ('3.1 GB', '50.0 MB', '0.5 kB')
    """
    size, unit = next((s, u) for s, u in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if count >= s or u == "kB")
    return f"{count / size:.1f} {unit}"
