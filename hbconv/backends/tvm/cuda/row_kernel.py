"""RowKernel: the schedule of a CUDA device. A tile is one row, and a thread takes one tile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from hbconv.backends.tvm.target.machine import Machine
from hbconv.backends.tvm.target.schedule import Schedule
from hbconv.backends.tvm.tir.kernel import Kernel

__all__ = ["RowKernel"]

ONE_ROW = Schedule(tile=1, block=1, lanes=1)
NO_VECTORS = Machine(vector=8)


class RowKernel(Kernel):
    """The function of one row under construction: there is no loop over rows, and no vector.

    It calls no functions of hbconv's, for NVRTC compiles long functions well enough.
    """

    calls_subroutines = False

    def __init__(self) -> None:
        super().__init__(ONE_ROW, NO_VECTORS)
        self.rows_live = tirx.IntImm("int32", 1)

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Take the row."""
        yield tirx.IntImm("int32", 0)

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:  # noqa: ARG002
        """Take the row."""
        yield tirx.IntImm("int32", 0)

    def number(self, value: int | npt.NDArray[Any]) -> Any:
        """Write a runtime parameter into the code."""
        return tirx.IntImm("int32", self.offset(value) if isinstance(value, np.ndarray) else value)
