"""Which programs have a loop along rows: those that work more on a tile than on some rows."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.passes import row_limit
from hbconv.backends.tvm.passes.row_limit import MAX_ROWS, along_row_limit
from hbconv.tensor import Builder

MACHINE = Machine(vector=64)


def kernel_method(points, columns):
    b = Builder()
    x = b.input("x", "float64", columns)
    distances = b.op("pairwise", x, b.constant(np.ones((points, columns))), kind="square", p=2.0)
    kernel = b.op("exp", distances)
    return b.program({"y": b.matmul(kernel, b.constant(np.ones((points, 1))))})


def affine(columns):
    b = Builder()
    x = b.input("x", "float64", columns)
    return b.program({"y": x * b.constant(2.0) + b.constant(1.0)})


@pytest.mark.parametrize("points", [1_000, 4_000])
def test_many_points_are_worth_a_loop_of_their_own(points):
    assert 2 <= along_row_limit(kernel_method(points, 30), MACHINE) <= MAX_ROWS


@pytest.mark.parametrize(
    "program",
    [kernel_method(20, 3), affine(30), affine(4_096)],
    ids=["few points", "few steps", "entries one by one"],
)
def test_little_work_is_not(program):
    assert along_row_limit(program, MACHINE) == 0


def test_nor_is_a_table_that_is_too_large_to_be_held_twice(monkeypatch):
    monkeypatch.setattr(row_limit, "MAX_TABLE_BYTES", 1 << 20)
    assert along_row_limit(kernel_method(4_000, 30), MACHINE)
    assert along_row_limit(kernel_method(5_000, 30), MACHINE) == 0


def test_nor_are_machines_without_vectors():
    assert along_row_limit(kernel_method(4_000, 30), Machine(vector=8)) == 0
