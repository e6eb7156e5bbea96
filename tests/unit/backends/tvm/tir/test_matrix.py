"""Matrices in the caller's memory: of every width and dtype, wherever their rows begin."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder

pytestmark = [pytest.mark.usefixtures("vector"), pytest.mark.share("vector")]


def unaligned(rng, rows, width, dtype):
    """Return numbers that begin one entry past an address that vectors like."""
    x = np.zeros(rows * width + 65, dtype)
    begin = (-x.ctypes.data % 64) // x.itemsize + 1
    x = x[begin : begin + rows * width].reshape(rows, width)
    x[...] = rng.integers(-99, 99, x.shape)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("width", [1, 3, 16, 17, 70])
def test_rows_are_read_and_written_where_they_lie(width, dtype):
    """Some columns of the input are read, all are, and those of outputs are written."""
    b = Builder()
    x = b.input("x", dtype, width)
    some = np.unique([0, width // 2, width - 1]).astype(np.int32)
    program = b.program({"some": b.take(x, some), "all": b.op("abs", x), "x": x})
    artifact = BACKEND.compile(program, Target("tvm"))
    rng = np.random.default_rng(0)
    for rows in (1, 15, 64, 301):
        inputs = {"x": unaligned(rng, rows, width, dtype)}
        got, want = artifact.run(inputs), evaluate(program, inputs)
        for name in want:
            np.testing.assert_array_equal(got[name], want[name], err_msg=f"{name}, {rows} rows")
