"""The entry of a compiled function: one record, read without checks.

Checks of every argument would take LLVM as long as the rest of the function.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx
from tvm.tirx.script import builder as T  # noqa: N812

__all__ = ["EntryPoint"]

MOST_WORDS = 2**16
"""Declared length of a record, which is unknown."""


class EntryPoint:
    """The head of a function of the calling convention; made first, it declares the argument.

    Parameters
    ----------
    name : str
        Symbol of the function.
    """

    def __init__(self, name: str) -> None:
        T.func_name(name)
        T.func_attr({"tirx.noalias": True})
        call = T.arg("call", T.ptr("int64"))
        T.func_ret(ir.PrimType("int32"))
        self._words = T.decl_buffer((MOST_WORDS,), "int64", data=call)
        self.rows = T.Bind(tirx.Cast("int32", self._words[0]))
        self._count = 0

    def pointer(self, dtype: str) -> Any:
        """Read the next address."""
        self._count += 1
        return T.Bind(tirx.reinterpret(T.ptr(dtype).ty, self._words[self._count]))

    @staticmethod
    def body() -> Any:
        """Begin what works on the memory behind the pointers; LLVM may assume that none overlap."""
        return T.attr(tirx.IntImm("int32", 0), "compute_scope", "tiles")

    @staticmethod
    def end() -> None:
        """Report success."""
        T.Return(tirx.IntImm("int32", 0))
