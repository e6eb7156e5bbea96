"""FusedLoop: one loop for several elementwise primitives, which keeps their values in registers.

EntryLoop: the same along the entries of one row, where a tile holds no other row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.mathematics import REGISTERS
from hbconv.backends.tvm.tir.kernel import Kernel, Register, flat, lanes, position, spread
from hbconv.backends.tvm.tir.memory import InRegister, InTable, Place, in_memory, storage

__all__ = ["EntryLoop", "FusedLoop", "fitting_lanes", "last_inside"]


class FusedLoop:
    """One loop over entries and vectors of rows, for emitters that would each open their own.

    Emitters call it as they call a ``Kernel``. Values pass through registers, not names: TVM's
    facts about a name grow with every name that it is computed from, and so does its time.

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
        self.machine = kernel.machine
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
        # Compared by identity: an emitter that computes an index of its own reads another entry.
        if index is not self._index:
            return self.read(place, index, row)
        if place not in self._values:
            value = self.read(place, index, row)
            self._values[place] = Register(storage(place.dtype), self.lanes, value)
        return self._values[place].get()

    def store(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:
        """Fill a register, and memory too if the value outlives the loop."""
        self._values[place] = Register(storage(place.dtype), self.lanes, value)
        if not isinstance(place, InRegister):
            self.write(place, index, row, self._values[place].get())

    def read(self, place: Place, index: tuple[Any, ...], row: Any) -> Any:
        """Read memory."""
        return self.kernel.load(place, index, row)

    def write(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:
        """Write memory."""
        self.kernel.store(place, index, row, value)

    def constant(self, data: npt.NDArray[Any]) -> Place:
        """Place a constant."""
        return self.kernel.constant(data)

    def entry(self, place: Place, position: Any) -> Any:
        """Read one number of a constant, by its flat position."""
        return self.kernel.entry(place, position)

    def bind(self, value: Any) -> Any:
        """Compute a value once, here."""
        return self.kernel.bind(value)


class EntryLoop(FusedLoop):
    """A loop over vectors of neighbouring entries of one row.

    The last component of its index is a vector of positions. The last vector ends with the axis:
    it overlaps with the one before, whose entries it computes again.
    """

    @classmethod
    @contextmanager
    def open(cls, kernel: Kernel, shape: tuple[int, ...], dtypes: set[str]) -> Iterator[EntryLoop]:
        """Open the loop, for values of the given shape and dtypes; the last axis is no single."""
        size = max(np.dtype(storage(dtype)).itemsize for dtype in dtypes)
        *outer, extent = shape
        width = fitting_lanes(extent, REGISTERS * kernel.machine.vector // size)
        with kernel.over((*outer, -(-extent // width))) as (*index, group):
            entries = tirx.Ramp(kernel.bind(last_inside(group * width, extent, width)), 1, width)
            yield cls(kernel, (*index, entries), entries)

    def read(self, place: Place, index: tuple[Any, ...], row: Any) -> Any:  # noqa: ARG002
        """Read neighbours, the entries that a vector of positions names, or one for all lanes."""
        own = index[len(index) - len(place.shape) :]
        if not own or place.shape[-1] == 1:
            one = (*own[:-1], 0) if own else ()
            return spread(self.kernel.load(place, one, tirx.IntImm("int32", 0)), self.lanes)
        at = self._positions(place, own)
        if isinstance(place, InTable):
            return self.kernel.entry(place, at)
        memory = in_memory(place)
        return self.kernel.buffer(memory)[_behind(self.kernel.start(memory), at)]

    def write(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:  # noqa: ARG002
        """Write neighbours."""
        memory = in_memory(place)
        at = _behind(self.kernel.start(memory), self._positions(place, index))
        T.buffer_store(self.kernel.buffer(memory), value, [at])

    def _positions(self, place: Place, index: tuple[Any, ...]) -> Any:
        *outer, last = index
        return _behind(flat(place.shape[:-1], tuple(outer)) * place.shape[-1], last)


def fitting_lanes(extent: int, most: int) -> int:
    """Return the lanes of vectors along an axis: a power of two."""
    return min(most, 1 << (extent.bit_length() - 1))


def last_inside(first: Any, extent: int, width: int) -> Any:
    """Return where a vector begins that would begin at ``first``, if it must end with the axis."""
    return tirx.min(first, tirx.IntImm("int32", extent - width)) if extent % width else first


def _behind(first: Any, positions: Any) -> Any:
    """Return positions counted from a first one."""
    if isinstance(positions, tirx.Ramp):
        return tirx.Ramp(position(first, positions.base), positions.stride, positions.lanes)
    return positions + spread(position(first), int(str(positions.ty).partition("x")[2]))
