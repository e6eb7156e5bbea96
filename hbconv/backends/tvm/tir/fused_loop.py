"""FusedLoop: one loop for several elementwise primitives, which keeps their values in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.tir.kernel import Kernel, Register, lanes
from hbconv.backends.tvm.tir.memory import InRegister, Place, storage

__all__ = ["FusedLoop"]

REGISTERS = 2
"""Registers of a vector: two dependency chains overlap, and all values still fit the registers."""


class FusedLoop:
    """One loop over entries and vectors of rows, for emitters that would each open their own.

    It answers emitters as a ``Kernel`` does. Values pass through registers, not names: TVM's facts
    about a name grow with every name that it is computed from, and so does its time.

    Parameters
    ----------
    kernel : Kernel
        The function under construction.
    index : tuple
        The entry at hand.
    row : Ramp, or int expression
        The rows at hand.
    """

    def __init__(self, kernel: Kernel, index: tuple[Any, ...], row: Any) -> None:
        self.kernel = kernel
        self.lanes = lanes(row)
        self._index = index
        self._row = row
        self._values = dict[Place, Register]()

    @classmethod
    @contextmanager
    def open(cls, kernel: Kernel, shape: tuple[int, ...], dtypes: set[str]) -> Iterator[FusedLoop]:
        """Open the loop, for values of the given shape and dtypes."""
        size = max(np.dtype(storage(dtype)).itemsize for dtype in dtypes)
        most = min(kernel.lanes, REGISTERS * kernel.machine.vector // size)
        with kernel.over(shape) as index, kernel.vectors(most) as row:
            yield cls(kernel, index, row)

    @contextmanager
    def over(self, shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Take the entry at hand."""
        yield self._index

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:  # noqa: ARG002
        """Take the vector at hand."""
        yield self._row

    def map_vectors(
        self, out: Place, operands: tuple[Place, ...], function: Callable[..., Any]
    ) -> None:
        """Compute the entry at hand from the operands' entries there."""
        values = (self.load(x, self._index, self._row) for x in operands)
        self.store(out, self._index, self._row, function(*values))

    def load(self, place: Place, index: tuple[Any, ...], row: Any) -> Any:
        """Read a register, or memory into a register; another entry comes from memory."""
        if index is not self._index:
            return self.kernel.load(place, index, row)
        if place not in self._values:
            value = self.kernel.load(place, index, row)
            self._values[place] = Register(storage(place.dtype), self.lanes, value)
        return self._values[place].get()

    def store(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:
        """Fill a register, and memory too if the value outlives the loop."""
        self._values[place] = Register(storage(place.dtype), self.lanes, value)
        if not isinstance(place, InRegister):
            self.kernel.store(place, index, row, self._values[place].get())

    def constant(self, data: npt.NDArray[Any]) -> Place:
        """Place a constant."""
        return self.kernel.constant(data)

    def entry(self, place: Place, position: Any) -> Any:
        """Read one number of a constant, by its flat position."""
        return self.kernel.entry(place, position)

    def bind(self, value: Any) -> Any:
        """Compute a value once, here."""
        return self.kernel.bind(value)
