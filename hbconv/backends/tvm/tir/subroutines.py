"""Write functions that a program calls for a tile, which are compiled separately.

Programs that have a subroutine in common share its code. A subroutine reads the positions and
sizes of its constants from runtime parameters, which are data: models of one kind share it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy.typing as npt
import tvm_ffi
from tvm import ir
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.backends.tvm.tir.kernel import ANY, SCRATCH, EntryPoint, Kernel, Subroutine
from hbconv.backends.tvm.tir.memory import InBuffer, InScratch, Place, storage
from hbconv.tensor import TensorType

__all__ = ["make_subroutine", "outline_part"]


class _SubroutineKernel(Kernel):
    """The function under construction; its code does not contain positions of constants."""

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        super().__init__(schedule, machine)
        self._offsets: dict[int, Any] = {}

    def offset(self, data: npt.NDArray[Any]) -> Any:
        """Read the position of a constant."""
        if id(data) not in self._offsets:
            # Identity suffices, as ``numbers`` keeps the array alive.
            self._offsets[id(data)] = self.number(data)
        return self._offsets[id(data)]


class _OutlinedKernel(_SubroutineKernel):
    """The function under construction, on its caller's scratch.

    Its code does not contain positions in scratch either.
    """

    def __init__(self, caller: Kernel) -> None:
        super().__init__(caller.schedule, caller.machine)
        self.scratch = caller.scratch
        self._starts: dict[Place, Any] = {}

    def start(self, place: InScratch | InBuffer) -> Any:
        """Read the entry that a value begins at."""
        if place not in self._starts:
            # Places compare by identity, and the caller holds them while this is written.
            self._starts[place] = self.number(place.offset)
        return self._starts[place]


# Methods of a model request the same forest one after another, so few entries serve.
@lru_cache(maxsize=4)
def make_subroutine(
    emit: Callable[..., None],
    schedule: Schedule,
    machine: Machine,
    types: tuple[TensorType, ...],
    *arguments: Any,
) -> Subroutine:
    """Write ``emit(kernel, *places, *arguments)`` as a function, on places of the given types."""
    kernel = _SubroutineKernel(schedule, machine)
    with IRBuilder() as builder, _function(kernel, types) as places:
        emit(kernel, *places, *arguments)
    # The caller takes this scratch for as long as the call lasts.
    scratch = {dtype: kernel.scratch[dtype].size for dtype in SCRATCH}
    return Subroutine(tvm_ffi.StructuralKey(builder.get()), tuple(kernel.numbers), scratch)


@contextmanager
def outline_part(caller: Kernel) -> Iterator[Kernel]:
    """Write what follows as a function on the values of the caller, which calls it at the end."""
    kernel = _OutlinedKernel(caller)
    with IRBuilder() as builder, _function(kernel, ()):
        yield kernel
    caller.call(Subroutine(tvm_ffi.StructuralKey(builder.get()), tuple(kernel.numbers), {}))


@contextmanager
def _function(kernel: Kernel, types: tuple[TensorType, ...]) -> Iterator[list[InBuffer]]:
    """Write the head of a function around its body, and yield the places of the given types."""
    with T.prim_func(s_tir=True):
        T.func_name("part")
        T.func_attr({"tirx.noalias": True})
        kernel.rows_live = T.arg("rows", T.int32())
        pointers = [T.arg(f"place{i}", T.ptr(storage(kind.dtype))) for i, kind in enumerate(types)]
        kernel.take_pointers(lambda kind, dtype: T.arg(f"{kind}_{dtype}", T.ptr(dtype)))
        T.func_ret(ir.PrimType("int32"))
        kernel.declare_buffers()
        buffers = [
            T.decl_buffer((ANY,), storage(kind.dtype), data=pointer)
            for kind, pointer in zip(types, pointers, strict=True)
        ]
        yield [
            InBuffer(kind.dtype, kind.shape, buffer)
            for kind, buffer in zip(types, buffers, strict=True)
        ]
        EntryPoint.end()
