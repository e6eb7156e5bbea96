"""Chunks of rows stay within memory, whatever an operator holds beside its result."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.runtime.batching import bytes_alive, bytes_per_row, rows_per_chunk
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram

POINTS = 4_000


def neighbors(primitive: str, **attributes: object) -> TensorProgram:
    b = Builder()
    x = b.input("x", "float64", 16)
    points = b.constant(np.zeros((POINTS, 16)))
    return b.program({"y": b.op(primitive, x, points, **attributes)})


@pytest.mark.parametrize(
    ("primitive", "attributes", "entries"),
    [("nearest", {"k": 5}, 5), ("pairwise", {"kind": "square", "p": 2.0}, POINTS)],
)
def test_distances_to_all_points_count(
    primitive: str, attributes: dict[str, object], entries: int
) -> None:
    program = neighbors(primitive, **attributes)
    size = np.dtype(program.instructions[-1].type.dtype).itemsize
    assert bytes_alive(program) == 3 * POINTS * 8 + entries * size
    assert bytes_per_row(program) == 16 * 8 + bytes_alive(program)


def test_a_chunk_holds_the_distances_of_its_rows_alone() -> None:
    target = Target(backend="onnx")
    chunk = rows_per_chunk(neighbors("nearest", k=5), target)
    assert chunk * 3 * POINTS * 8 <= 32 << 20
    assert chunk >= 64
