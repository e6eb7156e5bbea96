"""Kernels for other machines, as assembly: they use the widest vector registers.

None calls a mathematics library.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.emit.tile_function import write_function
from hbconv.backends.tvm.machine.machine import LEVELS, Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.target import Target
from hbconv.tensor import Builder

BYTES_COMPARED = {
    "x86-64-v4": r"vpcmp\w+b\s.*%zmm",
    "x86-64-v3": r"vpcmpgtb\s.*%ymm",
    "x86-64": r"\bpcmpgtb\s.*%xmm",
    "aarch64": r"cmgt\s.*\bv\d+\.16b",
}
FLOATS_MULTIPLIED = {
    "x86-64-v4": r"vfmadd\w+ps\s.*%zmm",
    "x86-64-v3": r"vfmadd\w+ps\s.*%ymm",
    "x86-64": r"\bmulps\s.*%xmm",
    "aarch64": r"fmla\s.*\bv\d+\.4s",
}
MULTIPLIED_ALONE = re.compile(r"^\s*(?:v?mulss|vfmadd\w+ss|(?:fmul|fmadd)\s+s\d)", re.MULTILINE)
CALLED = re.compile(r"^\s*(?:callq?|jmpq?|bl?)\s+([A-Za-z_]\w*)", re.MULTILINE)
NEEDED = {"tiles", "hbconv_kernel_part0", "memcpy", "memset"}
"""Functions that kernels call: their own loop and parts, and what every system has."""


def trees():
    b = Builder()
    forest = random_forest(np.random.default_rng(0), n_trees=6, max_depth=3)
    return b.program(
        {
            "y": b.op(
                "tree_scores",
                b.input("x", "float32", forest.n_features),
                forest=forest,
                strategy="select",
            )
        }
    )


def dense():
    b = Builder()
    weights = b.constant(np.random.default_rng(0).standard_normal((8, 5)), "float32")
    return b.program({"y": b.op("exp", b.matmul(b.input("x", "float32", 8), weights))})


@cache
def assembly(write, level):
    program, machine = BACKEND.prepare(write(), Target("tvm")), Machine(level)
    written = write_function(program, Schedule.construct(program, machine), machine)
    return compile_functions(written.functions, machine).mod.inspect_source("asm")


@pytest.mark.parametrize("level", BYTES_COMPARED)
def test_tests_of_trees_fill_registers(level):
    assert re.search(BYTES_COMPARED[level], assembly(trees, level))


@pytest.mark.parametrize("level", FLOATS_MULTIPLIED)
def test_products_fill_registers(level):
    assert re.search(FLOATS_MULTIPLIED[level], assembly(dense, level))
    assert not MULTIPLIED_ALONE.search(assembly(dense, level))


@pytest.mark.parametrize("level", BYTES_COMPARED)
@pytest.mark.parametrize("write", [trees, dense])
def test_kernels_call_no_mathematics(write, level):
    called = set(CALLED.findall(assembly(write, level)))
    assert {"tiles"} <= called <= NEEDED


def test_every_level_is_looked_at():
    assert LEVELS.keys() - {"generic"} == BYTES_COMPARED.keys() == FLOATS_MULTIPLIED.keys()
