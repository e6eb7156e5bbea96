"""Run compiled functions in this process where no library can be made of them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.binary.code_generation import compile_functions
from hbconv.backends.tvm.target.calling_convention import SYMBOL, KernelFunction, Record
from hbconv.backends.tvm.target.machine import Machine

__all__ = ["load_in_process"]

NAME = "call"
PACKED = 1
"""TVM's number for the calling convention of tvm_ffi."""
VALUE = 15
"""TVM's number of the field ``value`` of an argument's record."""


def load_in_process(functions: Mapping[str, Any], machine: Machine) -> KernelFunction:
    """Compile a kernel to memory, and return it; TVM stays loaded for it."""
    call = compile_functions({f"__tvm_ffi_{NAME}": _caller(), **functions}, machine)[NAME]

    def kernel(record: Record) -> None:
        call(ctypes.addressof(record))

    return kernel


def _caller() -> Any:
    """Write a function of tvm_ffi that calls the kernel."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(f"__tvm_ffi_{NAME}")
        T.func_attr({"calling_conv": PACKED})
        T.arg("self", T.handle())
        arguments = T.arg("arguments", T.handle())
        T.arg("count", T.int32())
        T.arg("result", T.handle())
        T.func_ret(ir.PrimType("int32"))
        record = tirx.tvm_struct_get(arguments, 0, VALUE, "handle")
        T.evaluate(tirx.call_extern("int32", SYMBOL, record))
        T.Return(tirx.IntImm("int32", 0))
    return builder.get()
