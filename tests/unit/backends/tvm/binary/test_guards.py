"""Guards: a kernel that touches memory outside its buffers ends the call, or the process.

Vectors that would do so are not compiled.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from hbconv.backends.tvm.binary import guards
from hbconv.backends.tvm.binary.guards import BEFORE, BEHIND, CANARIES, GuardedLoop, make_loop
from hbconv.backends.tvm.binary.loop import CompiledLoop, LoopCode
from hbconv.backends.tvm.machine.machine import VECTORS, Machine
from hbconv.backends.tvm.machine.schedule import FEW
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.transpose import side
from hbconv.errors import OptionError, VerificationError

MATRICES = [np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((3, 1)), np.zeros((3, 0))]
BUFFERS = [
    "matrix 0, float32[3, 2]",
    "matrix 1, float64[3, 1]",
    "matrix 2, float64[3, 0]",
    "table 0, int32[5]",
    "scratch 0, uint8[24]",
]


def writing(number, offset):
    """A kernel that writes a byte so far from the beginning of one of its buffers."""

    def function(record):
        ctypes.memset(record[1 + number] + offset, 1, 1)

    code = LoopCode(function, [np.arange(5, dtype=np.int32)], {"uint8": 24}, None)
    return GuardedLoop(CANARIES, code)


@pytest.mark.parametrize("far", [0, 63, 1000])
@pytest.mark.parametrize(("number", "size"), [(0, 24), (1, 24), (2, 0), (3, 20), (4, 24)])
def test_what_is_written_beyond_a_buffer_is_told(number, size, far):
    with pytest.raises(
        VerificationError,
        match=f"for 3 rows on float32.* wrote past the end of {BUFFERS[number]}".replace(
            "[", r"\["
        ),
    ):
        writing(number, size + far).run(3, MATRICES)
    with pytest.raises(
        VerificationError,
        match=f"wrote before the beginning of {BUFFERS[number]}".replace("[", r"\["),
    ):
        writing(number, -1 - far).run(3, MATRICES)


@pytest.mark.parametrize(("number", "size"), [(0, 24), (1, 24), (4, 24)])
def test_what_is_written_inside_is_there(number, size):
    matrices = [matrix.copy() for matrix in MATRICES]
    writing(number, size - 1).run(3, matrices)
    changed = [
        not np.array_equal(after, before) for after, before in zip(matrices, MATRICES, strict=True)
    ]
    assert changed == [number == i for i in range(3)]


def test_bound_calls_are_guarded():
    places, run, workspace = writing(1, 24).bind(MATRICES)
    np.testing.assert_array_equal(places[0], MATRICES[0])
    with pytest.raises(VerificationError, match="past the end of matrix 1"):
        run(workspace.record(3, places))


def test_scratch_holds_leftovers_before_a_call():
    seen = []

    def function(record):
        seen.append(ctypes.string_at(record[2], 8))
        ctypes.memset(record[2], 0, 8)

    loop = GuardedLoop(CANARIES, LoopCode(function, [], {"uint8": 8}, None))
    for _ in range(2):
        loop.run(1, [np.zeros((1, 1))])
    assert seen == [b"\xff" * 8] * 2


TOUCH = """
import ctypes, sys
import numpy as np
from hbconv.backends.tvm.binary.guards import GuardedLoop
from hbconv.backends.tvm.binary.loop import LoopCode

how, kind, number = sys.argv[1:]
def function(record):
    at = record[1 + int(number)]
    size = (40, 24, 8)[int(number)]
    if kind == "inside":
        ctypes.memset(at, 1, size)
    else:
        ctypes.string_at(at + size if how == "pages-behind" else at - 1, 1)
code = LoopCode(function, [np.zeros(3)], {"uint8": 8}, None)
GuardedLoop(how, code).run(5, [np.zeros((5, 1))])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="such pages are made by mprotect")
@pytest.mark.parametrize("how", [BEHIND, BEFORE])
@pytest.mark.parametrize("number", range(3))
def test_what_is_read_beyond_a_buffer_ends_the_process(how, number):
    inside, beyond = (
        subprocess.run(
            [sys.executable, "-c", TOUCH, how, kind, str(number)], check=False
        ).returncode
        for kind in ("inside", "beyond")
    )
    assert (inside, beyond < 0) == (0, True)


def test_loops_are_guarded_where_the_variable_says_so(monkeypatch):
    monkeypatch.setattr(
        guards, "_read_variable", guards._read_variable.__wrapped__
    )  # it is read once

    def made(value):
        monkeypatch.setenv("HBCONV_GUARD", value)
        return make_loop(LoopCode(lambda record: None, [], {}, None))

    assert type(made("")) is CompiledLoop
    assert type(made(CANARIES)) is GuardedLoop
    with pytest.raises(OptionError, match=r"HBCONV_GUARD 'canary'. Did you mean 'canaries'"):
        made("canary")


@pytest.mark.parametrize("lanes", [3, 16, 32])
def test_vectors_that_go_on_past_the_tile_are_not_written(lanes):
    with (
        pytest.raises(VerificationError, match="extend past the end of 8"),
        Kernel(FEW, Machine()).vectors(lanes),
    ):
        pass


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_blocks_of_a_matrix_are_no_taller_than_the_tile(dtype, vector):
    sizes = [
        side(Kernel(FEW, Machine("x86-64", vector=vector)), dtype, width) for width in (1, 7, 8, 70)
    ]
    assert all(FEW.tile % size == 0 and size * np.dtype(dtype).itemsize <= vector for size in sizes)
    assert sizes == sorted(sizes)
