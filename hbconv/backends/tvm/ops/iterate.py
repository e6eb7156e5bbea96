"""Nested programs: the primitive ``iterate`` repeats a program on its own result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.tensor import TensorProgram

__all__ = ["EMITTERS", "BodyWriter"]


class BodyWriter(Protocol):
    """What writes a program, and programs nested in it."""

    kernel: Kernel

    def write_nested(
        self, body: TensorProgram, inputs: Mapping[str, Place], finish: Callable[[Place], None]
    ) -> None:
        """Write a program of one output on given inputs; ``finish`` takes the output."""


def iterate(
    w: BodyWriter, out: Place, state: Place, given: Place, body: TensorProgram, steps: int
) -> None:
    """Emit ``iterate``: step after step on the rows of a tile, until none of them changes."""
    k = w.kernel
    k.map_vectors(out, (state,), lambda value: value)
    changed = k.variable("int32", literal(1, "int32", 1))
    with T.serial(steps), T.If(changed.get() > 0), T.Then():
        changed.set(literal(0, "int32", 1))
        w.write_nested(
            body, {"state": out, "given": given}, lambda after: _overwrite(k, out, after, changed)
        )


def _overwrite(k: Kernel, state: Place, after: Place, changed: Register) -> None:
    """Overwrite the state, and set ``changed`` if an entry of a live row is another."""
    one = literal(1, "int32", 1)
    with k.over(state.shape) as index, k.rows() as row:
        value = k.bind(k.load(after, index, row))
        same = tirx.EQ(k.load(state, index, row), value)
        changed.set(tirx.Select(same, changed.get(), one))
        k.store(state, index, row, value)


EMITTERS: dict[str, Callable[..., None]] = {"iterate": iterate}
"""Emitters that take the program's writer in place of a kernel, to write the nested program."""
