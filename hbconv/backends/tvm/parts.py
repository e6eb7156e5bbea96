"""Parts: functions that a program calls for a tile, compiled apart, so that all programs that have one in common share its code.

Where its constants lie, and how many of what they hold, a part reads from its numbers, which are data: models of one kind share it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy.typing as npt
import tvm_ffi
from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.entry import Entry
from hbconv.backends.tvm.kernel import ANY, SCRATCH, Kernel
from hbconv.backends.tvm.machine import Machine
from hbconv.backends.tvm.memory import Place, storage
from hbconv.backends.tvm.schedule import Schedule
from hbconv.tensor import TensorType

__all__ = ["Part", "make_part"]


@dataclass(frozen=True, eq=False)
class Part:
    """A function ``part(rows, pointers...)``: pointers to the places that it is called on, then to what any kernel works on. It calls no other.

    Parameters
    ----------
    structure : tvm_ffi.StructuralKey
        The function, equal to those of the same code.
    numbers : tuple of int or array
        What it reads as its numbers: of an array where it lies in the table of its dtype.
    scratch : dict of str to int
        Entries of each dtype that it needs for each row of the tile.
    """

    structure: Any
    numbers: tuple[int | npt.NDArray[Any], ...]
    scratch: dict[str, int]


class _PartKernel(Kernel):
    """The function under construction: where constants lie is not written into its code."""

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        super().__init__(schedule, machine)
        self._offsets: dict[int, Any] = {}

    def offset(self, data: npt.NDArray[Any]) -> Any:
        """Read where a constant lies."""
        if id(data) not in self._offsets:
            self._offsets[id(data)] = self.number(data)
        return self._offsets[id(data)]


@lru_cache(maxsize=4)
def make_part(emit: Callable[..., None], schedule: Schedule, machine: Machine, types: tuple[TensorType, ...], *arguments: Any) -> Part:
    """Write what ``emit(kernel, *places of the types, *arguments)`` does as a function of its own."""
    kernel = _PartKernel(schedule, machine)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("part")
        T.func_attr({"tirx.noalias": True})
        kernel.rows_live = T.arg("rows", T.int32())
        given = [T.arg(f"place{i}", T.ptr(storage(kind.dtype))) for i, kind in enumerate(types)]
        kernel.take_pointers(lambda kind, dtype: T.arg(f"{kind}_{dtype}", T.ptr(dtype)))
        T.func_ret(ir.PrimType("int32"))
        kernel.declare_buffers()
        buffers = [T.decl_buffer((ANY,), storage(kind.dtype), data=pointer) for kind, pointer in zip(types, given, strict=True)]
        emit(kernel, *(Place(kind.dtype, kind.shape, buffer=buffer) for kind, buffer in zip(types, buffers, strict=True)), *arguments)
        Entry.end()
    scratch = {dtype: kernel.scratch[dtype].size for dtype in SCRATCH}
    return Part(tvm_ffi.StructuralKey(builder.get()), tuple(kernel.numbers), scratch)
