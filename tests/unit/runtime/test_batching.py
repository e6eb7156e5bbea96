"""Chunks of rows stay within memory, whatever an operator holds beside its result."""

from __future__ import annotations

import numpy as np
import pytest
from forests import random_forest

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


def test_kernels_of_a_gpu_hold_a_code_for_each_column() -> None:
    """A million rows of 500 trees came in eight chunks, each with its launches."""
    forest = random_forest(np.random.default_rng(0), 500, 28, 2)
    b = Builder()
    x = b.input("x", "float32", 28)
    program = b.program({"y": b.op("tree_scores", x, forest=forest, strategy="tree_traversal")})
    assert bytes_alive(program, "cuda") == 28 + 8
    assert bytes_alive(program) == 16 * 500 + 8
    assert rows_per_chunk(program, Target("torch", device="cuda")) > 10_000_000
