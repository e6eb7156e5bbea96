"""Kernel: writes one TIR function over tiles of rows, for emitters of loops, loads and stores.

A compiled function takes one record and checks none of it: checks of every argument would take LLVM
as long as the rest of the function. Positions are sums with their constants last, as processors
address memory.

RowKernel: writes the function of one row, for the emitters of the tile compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.machine.calling_convention import SYMBOL
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import ONE_ROW, Schedule
from hbconv.backends.tvm.tir.memory import (
    ConstantTables,
    InBuffer,
    InScratch,
    InTable,
    Place,
    RowVector,
    Scratch,
    in_memory,
    storage,
)
from hbconv.errors import VerificationError

__all__ = [
    "EntryPoint",
    "Kernel",
    "Register",
    "RowKernel",
    "Subroutine",
    "beyond",
    "code_within",
    "flat",
    "lanes",
    "literal",
    "position",
    "require_fit",
    "spread",
]

TO_READ_SOON = (0, 2, 1)
"""Arguments of ``llvm.prefetch``: to read, into the second-level cache, data."""
SCRATCH = ("float32", "float64", "int32", "int64", "uint8", "uint16")
TABLES = ("float32", "float64", "int32", "int64", "uint8", "uint16")
ARGUMENTS = (("table", TABLES), ("number", ("int32",)), ("scratch", SCRATCH))
ANY = 2**31 - 1
"""Declared size of a buffer whose size is unknown."""
MOST_WORDS = 2**16
"""Declared length of a record, which is unknown."""


def literal(value: float, dtype: str, lanes: int) -> Any:
    """Return a number in all lanes."""
    scalar = (
        tirx.FloatImm(dtype, float(value))
        if dtype.startswith("float")
        else tirx.IntImm(dtype, int(value))
    )
    return spread(scalar, lanes)


def spread(value: Any, lanes: int) -> Any:
    """Return a value in all lanes."""
    return tirx.Broadcast(value, lanes) if lanes > 1 else value


def code_within(k: Kernel, value: Any, last: Any, dtype: str, lanes: int = 1) -> Any:
    """Return a value, or a vector of values, as an int from 0 to ``last``.

    It is clamped before it is converted, since it may be anything, NaN too.
    """
    # NaN fails the compare and becomes the last code.
    inside = k.bind(tirx.Select(value <= last, value, last))
    zero = literal(0, dtype, lanes)
    target = "int32" if lanes == 1 else f"int32x{lanes}"
    return tirx.Cast(target, tirx.Select(inside >= zero, inside, zero))


class Register:
    """A variable in processor registers: a buffer so small that LLVM gives it no memory.

    It has one entry of a vector dtype: TVM would read and write scalar entries one by one.
    """

    def __init__(self, dtype: str, lanes: int, value: Any) -> None:
        self.buffer = T.alloc_buffer((1,), f"{dtype}x{lanes}" if lanes > 1 else dtype)
        self.set(value)

    def set(self, value: Any) -> None:
        """Assign."""
        T.buffer_store(self.buffer, value, [0])

    def get(self) -> Any:
        """Read."""
        return self.buffer[0]


@dataclass(frozen=True, eq=False)
class Subroutine:
    """A function ``part(rows, pointers...)`` of its own, which calls no other.

    The pointers are those of the places that it is called on, then those of any kernel.

    Parameters
    ----------
    structure : tvm_ffi.StructuralKey
        The function; equal for equal code.
    numbers : tuple of int or array
        Its runtime parameters. An array denotes its position in the table of its dtype.
    scratch : dict of str to int
        Entries of each dtype that it needs for each row of the tile.
    """

    structure: Any
    numbers: tuple[int | npt.NDArray[Any], ...]
    scratch: dict[str, int]


class Kernel:
    """The function under construction, inside the loop over tiles.

    A value of static shape (d, e) is stored as (d, e, tile). An operator is a loop over d and e
    around a loop over vectors of rows. Lanes past the last row hold leftovers, which must not be
    used as positions: whatever looks up by a value loops over live rows.

    Attributes
    ----------
    schedule : Schedule
    machine : Machine
    symbol : str
        Name of the function; those of its subroutines begin with it.
    tile : int
        Rows of a tile.
    lanes : int
        Rows of a vector.
    rows_live : int expression
        Rows of the tile at hand.
    tables : ConstantTables
        Constants so far.
    scratch : dict of str to Scratch
        Scratch by dtype.
    numbers : list of int or array
        Runtime parameters so far; an array denotes its position in the table of its dtype.
    subroutines : dict of StructuralKey to str
        Names of the subroutines that are called.
    calls_subroutines : bool
        Whether sections of a long program may become functions of their own.
    """

    calls_subroutines = True

    def __init__(self, schedule: Schedule, machine: Machine, symbol: str = SYMBOL) -> None:
        self.schedule = schedule
        self.machine = machine
        self.symbol = symbol
        self.tile = schedule.tile
        self.lanes = schedule.lanes
        self.tables = ConstantTables()
        self.scratch = {dtype: Scratch() for dtype in SCRATCH}
        self.numbers: list[int | npt.NDArray[Any]] = []
        self.subroutines: dict[Any, str] = {}
        self.rows_live: Any = None
        self._pointers: dict[tuple[str, str], Any] = {}
        self._buffers: dict[tuple[str, str], Any] = {}

    def take_pointers(self, take: Callable[[str, str], Any]) -> None:
        """Take pointers to tables, runtime parameters and scratch from ``take(kind, dtype)``."""
        self._pointers = {
            (kind, dtype): take(kind, dtype) for kind, dtypes in ARGUMENTS for dtype in dtypes
        }

    def declare_buffers(self) -> None:
        """Declare buffers at the pointers."""
        self._buffers = {
            key: T.decl_buffer((ANY,), key[1], data=pointer, align=64)
            for key, pointer in self._pointers.items()
        }

    # Memory.

    def constant(self, data: npt.NDArray[Any]) -> InTable:
        """Place a constant."""
        return InTable(data.dtype.name, data.shape, data)

    def take(self, dtype: str, shape: tuple[int, ...]) -> InScratch:
        """Take scratch for a value."""
        # A value without columns is one entry: numpy's product of nothing is 1.
        return InScratch(dtype, shape, self.scratch[storage(dtype)].take(int(np.prod(shape))))

    def give(self, place: Place) -> None:
        """Give a value's scratch back."""
        if isinstance(place, InScratch):
            self.scratch[storage(place.dtype)].give(place.offset, place.size)

    @contextmanager
    def temporary(self, dtype: str, shape: tuple[int, ...]) -> Iterator[InScratch]:
        """Take scratch for as long as the block lasts."""
        place = self.take(dtype, shape)
        yield place
        self.give(place)

    # Loops.

    @contextmanager
    def over(self, shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
        """Loop over static dimensions."""
        with ExitStack() as stack:
            yield tuple(stack.enter_context(T.serial(extent)) for extent in shape)

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:
        """Loop over the tile by vectors, and yield the vector of row positions.

        The last vector may extend past the last live row. So vectors must end where the tile does:
        behind it is another value, or nothing.
        """
        lanes = require_fit(lanes or self.lanes, self.tile)
        with T.serial((self.rows_live + (lanes - 1)) // lanes) as group:
            yield tirx.Ramp(group * lanes, 1, lanes)

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Loop over the live rows one at a time."""
        with T.serial(self.rows_live) as row:
            yield row

    @contextmanager
    def blocks_of(self, rows: int) -> Iterator[None]:
        """Write what follows for blocks of other sizes than those of the schedule."""
        schedule = self.schedule
        self.schedule = replace(schedule, block=require_fit(rows, self.tile))
        yield
        self.schedule = schedule

    # Loads and stores.

    def bind(self, value: Any) -> Any:
        """Compute a value once, here.

        A float passes through a register, not a name: TVM's facts about a name grow with every
        name that it is computed from, and so does its time.
        """
        dtype, _, count = str(value.ty).partition("x")
        if dtype.startswith("float"):
            return Register(dtype, int(count or 1), value).get()
        return T.Bind(value)

    def load(self, place: Place, index: tuple[Any, ...], row: Any) -> Any:
        """Read an entry for one row or a vector of rows; ``index`` broadcasts from the right."""
        if isinstance(place, RowVector):
            if lanes(row) == 1:
                return self.entry(place, row)
            return self.entries(place, row.base, lanes(row))
        if isinstance(place, InTable):
            value = self.entry(place, flat(place.shape, index))
            return spread(value, lanes(row))
        memory = in_memory(place)
        return self.buffer(memory)[self._address(memory, flat(place.shape, index), row)]

    def entry(self, place: Place, entry: Any) -> Any:
        """Read one number of a constant by its flat position, or several by theirs."""
        at = beyond(self.offset(place.numpy()), entry)
        return self._buffers["table", storage(place.dtype)][at]

    def entries(self, place: Place, first: Any, count: int) -> Any:
        """Read neighbouring numbers of a constant as a vector."""
        return self.entry(place, tirx.Ramp(first, 1, count))

    def fetch(self, entry: Any) -> None:
        """Fetch the cache line of a number in memory, which may lie past the end of its table."""
        # A fetch of no memory does nothing, so nobody has to count to the end.
        address = tirx.address_of(entry)
        T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *TO_READ_SOON))

    def store(self, place: Place, index: tuple[Any, ...], row: Any, value: Any) -> None:
        """Write an entry for one row or a vector of rows."""
        memory = in_memory(place)
        address = self._address(memory, flat(place.shape, index), row)
        T.buffer_store(self.buffer(memory), value, [address])

    def buffer(self, place: InScratch | InBuffer) -> Any:
        """Return the memory that a value lies in."""
        if isinstance(place, InBuffer):
            return place.buffer
        return self._buffers["scratch", storage(place.dtype)]

    def _address(self, place: InScratch | InBuffer, entry: Any, row: Any) -> Any:
        return beyond((entry + self.start(place)) * self.tile, row)

    def register(self, dtype: str, value: Any, width: int = 0) -> Register:
        """Make a register of the tile's lanes."""
        return Register(dtype, width or self.lanes, value)

    def variable(self, dtype: str, value: Any) -> Register:
        """Make a register of one number."""
        return Register(dtype, 1, value)

    # Subroutines, and their runtime parameters.

    def offset(self, data: npt.NDArray[Any]) -> Any:
        """Return the position of a constant in the table of its dtype."""
        return self.tables.offset(data)

    def start(self, place: InScratch | InBuffer) -> Any:
        """Return the entry of its scratch or buffer that a value begins at."""
        return place.offset

    def number(self, value: int | npt.NDArray[Any]) -> Any:
        """Return a runtime parameter: a number, or the position of a constant in its table.

        It is data, so that models which differ in it share the code.
        """
        self.numbers.append(value)
        return self._buffers["number", "int32"][len(self.numbers) - 1]

    def call(self, subroutine: Subroutine, *places: Place) -> None:
        """Call a subroutine on places, with scratch and runtime parameters of its own."""
        first = len(self.numbers)
        self.numbers += subroutine.numbers
        # Equal functions have one name, and are compiled once.
        name = self.subroutines.setdefault(
            subroutine.structure, f"{self.symbol}_part{len(self.subroutines)}"
        )
        begin: dict[tuple[str, str], int] = {("number", "int32"): first}
        with ExitStack() as stack:
            for dtype, size in subroutine.scratch.items():
                scratch = stack.enter_context(self.temporary(dtype, (size,)))
                begin["scratch", dtype] = scratch.offset * self.tile
            pointers = [
                tirx.address_of(buffer[begin.get(key, 0)]) for key, buffer in self._buffers.items()
            ]
            memory = [in_memory(place) for place in places]
            addresses = [tirx.address_of(self.buffer(m)[m.offset * self.tile]) for m in memory]
            T.evaluate(tirx.call_extern("int32", name, self.rows_live, *addresses, *pointers))

    # Loops that many primitives share.

    def map_vectors(
        self, out: Place, operands: tuple[Place, ...], function: Callable[..., Any]
    ) -> None:
        """Compute every entry of ``out`` from the operands' entries there, in vectors."""
        with self.over(out.shape) as index, self.vectors() as row:
            self.store(out, index, row, function(*(self.load(x, index, row) for x in operands)))

    def map_rows(
        self, out: Place, operands: tuple[Place, ...], function: Callable[..., Any]
    ) -> None:
        """Compute every entry of ``out`` from the operands' entries there, row by row."""
        with self.over(out.shape) as index, self.rows() as row:
            self.store(out, index, row, function(*(self.load(x, index, row) for x in operands)))


def require_fit(lanes: int, rows: int) -> int:
    """Return a number of lanes that divides a number of rows.

    Raises
    ------
    VerificationError
        The last vector would extend past the rows.
    """
    if rows % lanes:
        raise VerificationError(f"Vectors of {lanes} rows extend past the end of {rows}.")
    return lanes


def lanes(row: Any) -> int:
    """Return the number of rows of a row position: one, or those of a vector."""
    return int(row.lanes) if isinstance(row, tirx.Ramp) else 1


def flat(shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    """Return the position of an index in row-major order; dimensions of one entry broadcast."""
    position: Any = 0
    for extent, i in zip(shape, index[len(index) - len(shape) :], strict=True):
        position = position * extent + (i if extent != 1 else 0)
    return position


class EntryPoint:
    """The head of a function of the calling convention; made first, it declares the argument.

    Parameters
    ----------
    name : str
        Symbol of the function.
    """

    def __init__(self, name: str) -> None:
        T.func_name(name)
        # Buffers never overlap, so LLVM vectorizes without tests for it.
        T.func_attr({"tirx.noalias": True})
        call = T.arg("call", T.ptr("int64"))
        T.func_ret(ir.PrimType("int32"))
        self._words = T.decl_buffer((MOST_WORDS,), "int64", data=call)
        self.rows = T.Bind(tirx.Cast("int32", self._words[0]))
        self._count = 0

    def word(self) -> Any:
        """Read the next word."""
        return T.Bind(self._next())

    def pointer(self, dtype: str) -> Any:
        """Read the next address."""
        return T.Bind(tirx.reinterpret(T.ptr(dtype).ty, self._next()))

    def _next(self) -> Any:
        self._count += 1
        return self._words[self._count]

    @staticmethod
    def body() -> Any:
        """Begin what works on the memory behind the pointers; LLVM may assume that none overlap."""
        return T.attr(tirx.IntImm("int32", 0), "compute_scope", "tiles")

    @staticmethod
    def end() -> None:
        """Report success."""
        T.Return(tirx.IntImm("int32", 0))


def position(*terms: Any) -> Any:
    """Add terms, all that is constant in them last.

    Neighbouring reads differ by a constant then, which takes no instruction of its own.

    Examples
    --------
    >>> i, j = (tirx.Var(name, "int32") for name in "ij")
    >>> position((i + 2) * 8, j + 5)
    i * 8 + j + 21
    """
    rest, constant = None, 0
    for term in terms:
        variable, number = _split(term)
        rest, constant = _sum(rest, variable), constant + number
    if rest is None:
        return tirx.IntImm("int32", constant)
    # A constant at the end becomes the offset of an address, without an instruction.
    return rest + constant if constant else rest


def beyond(first: Any, row: Any) -> Any:
    """Return the position of a row, or those of a vector of rows, counted from a first one."""
    if isinstance(row, tirx.Ramp):
        return tirx.Ramp(position(first, row.base), row.stride, row.lanes)
    return position(first, row)


def _split(term: Any) -> tuple[Any, int]:
    """Return what varies in a term, None for nothing, and what does not."""
    if isinstance(term, int | np.integer | tirx.IntImm):
        return None, int(term)
    if isinstance(term, tirx.Add):
        (left, low), (right, high) = _split(term.a), _split(term.b)
        return _sum(left, right), low + high
    if isinstance(term, tirx.Mul) and isinstance(term.b, tirx.IntImm):
        # A factor applies to what varies and to the constant alike.
        factor = int(term.b)
        varying, number = _split(term.a)
        return (None if varying is None else varying * factor), number * factor
    return term, 0


def _sum(left: Any, right: Any) -> Any:
    if left is None or right is None:
        return right if left is None else left
    return left + right


class RowKernel(Kernel):
    """The function of one row under construction: a tile is one row, and a vector one entry.

    So the entries of a value lie one after another, which ``EntryLoop`` makes vectors of.
    """

    calls_subroutines = False

    def __init__(self, machine: Machine, symbol: str = SYMBOL) -> None:
        super().__init__(ONE_ROW, machine, symbol)
        self.rows_live = tirx.IntImm("int32", 1)

    @contextmanager
    def rows(self) -> Iterator[Any]:
        """Take the row."""
        yield tirx.IntImm("int32", 0)

    @contextmanager
    def vectors(self, lanes: int = 0) -> Iterator[Any]:  # noqa: ARG002
        """Take the row."""
        yield tirx.IntImm("int32", 0)
