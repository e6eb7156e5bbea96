"""Flags of rows: one value anywhere flags its row, and ordinary rows are not flagged."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm")

from hbconv.backends import find_backend
from hbconv.target import Target
from hbconv.tensor import Builder

BOUND = 1e3
TARGET = Target(backend="tvm")


def compiled(width, dtype, columns, *, allow_nan):
    """Flag rows, beside an output that reads one column."""
    b = Builder()
    x = b.input("x", dtype, width)
    size = b.op("abs", b.take(x, columns))
    bound = b.constant([BOUND], dtype)
    beyond = b.op("gt", size, bound) if allow_nan else b.op("not", b.op("le", size, bound))
    outputs = {"y": b.take(x, [width - 1]), "d": b.reduce("reduce_any", beyond)}
    backend = find_backend("tvm")
    return backend.emit(backend.prepare(b.program(outputs), TARGET), TARGET)


def ordinary(rows, width, dtype, columns, *, allow_nan):
    """Rows on the bound, or NaN where that is allowed, and anything where nothing looks."""
    x = np.where(np.arange(width) % 2, BOUND, -BOUND) * np.ones((rows, 1))
    x[:, [i for i in range(width) if i not in columns]] = np.inf
    if allow_nan:
        x[:, columns[0]] = np.nan
    return x.astype(dtype)


@pytest.mark.parametrize("allow_nan", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("width", "columns"),
    [(1, [0]), (3, [0, 1, 2]), (5, [4, 1]), (37, list(range(37))), (37, [3, 4, 5, 20, 36])],
)
def test_one_value_flags_its_row(width, columns, dtype, allow_nan):
    artifact = compiled(width, dtype, columns, allow_nan=allow_nan)
    values = [np.inf, -np.inf, np.nextafter(np.asarray(BOUND, dtype), np.inf)]
    values += [] if allow_nan else [np.nan, -np.nan]
    for rows in (1, 2, 9, 255, 256, 700):
        x = ordinary(rows, width, dtype, columns, allow_nan=allow_nan)
        assert not artifact.run({"x": x})["d"].any()
        for row in {0, rows // 2, rows - 1}:
            for column in (columns[0], columns[-1]):
                for value in values:
                    doubtful = x.copy()
                    doubtful[row, column] = value
                    assert artifact.run({"x": doubtful})["d"][row]
