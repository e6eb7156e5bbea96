"""The entry of a compiled function: two numbers, read without checks.

Checks of every argument would take LLVM as long as the rest of the function.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx.script import builder as T  # noqa: N812

__all__ = ["EntryPoint"]

VALUE = 15
"""TVM's number of the field ``value`` of an argument's record."""
PACKED = 1
"""TVM's number for the calling convention of tvm_ffi."""


class EntryPoint:
    """The head of a function ``name(rows, addresses)``; made first, it declares the arguments.

    The addresses are records of 16 bytes, each of which ends in an address.
    """

    def __init__(self, name: str) -> None:
        T.func_name(f"__tvm_ffi_{name}")
        T.func_attr({"tirx.noalias": True, "calling_conv": PACKED})
        T.arg("self", T.handle())
        arguments = T.arg("arguments", T.handle())
        T.arg("count", T.int32())
        T.arg("result", T.handle())
        T.func_ret(ir.PrimType("int32"))
        self.rows = T.Bind(tirx.Cast("int32", tirx.tvm_struct_get(arguments, 0, VALUE, "int64")))
        self._addresses = T.Bind(tirx.tvm_struct_get(arguments, 1, VALUE, "handle"))
        self._count = 0

    def pointer(self, dtype: str) -> Any:
        """Read the next address."""
        self._count += 1
        return T.Bind(
            tirx.reinterpret(
                T.ptr(dtype).ty,
                tirx.tvm_struct_get(self._addresses, self._count - 1, VALUE, "handle"),
            )
        )

    @staticmethod
    def body() -> Any:
        """Begin what works on the memory behind the pointers; LLVM may assume that none overlap."""
        return T.attr(tirx.IntImm("int32", 0), "compute_scope", "tiles")

    @staticmethod
    def end() -> None:
        """Report success."""
        T.Return(tirx.IntImm("int32", 0))
