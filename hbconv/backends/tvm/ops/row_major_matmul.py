"""Emit matrix products and similar sums: blocks of rows by columns, with totals in registers.

A product of an input matrix with few columns of weights reads the input's rows where they are.
Vectors run along a row, and their lanes are summed at the end. Entries are cast, and scaled by
constants, as they are read: to make 10,000 rows of 100 columns float32 first took twice as long as
their product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.elementwise import Kind, larger, product, smaller
from hbconv.backends.tvm.ops.loops import FusedLoop
from hbconv.backends.tvm.ops.packed_weights import PANEL, all_inputs, pack, panels, used_inputs
from hbconv.backends.tvm.passes.flag_beyond import FLAG_BEYOND
from hbconv.backends.tvm.passes.fuse_products import SQUARE, EpilogueStep
from hbconv.backends.tvm.tir.kernel import Kernel, literal, spread
from hbconv.backends.tvm.tir.memory import InTable, Place, RowMajor
from hbconv.backends.tvm.tir.transpose import live_rows
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["accumulate", "add_product", "add_scaling", "find_row_major", "matmul", "multiply"]

Term = Callable[[Kind, Any, Any, Any], Any]
Spans = Callable[[npt.NDArray[Any]], npt.NDArray[np.int32]]

STEPS: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": product,
    "maximum": larger,
    "minimum": smaller,
    SQUARE: product,
}
"""What may follow a product, over vectors of rows."""
REGISTERS_BY_COLUMNS = {1: 8, 2: 4}
"""Registers of rows of narrow blocks: eight sums in flight hide the latency of an addition."""
REGISTERS = 2
"""Registers of rows of all other blocks: 16 registers then hold sums, entries and weights."""
# 10,000 rows: Ridge of 100 columns took 1.20 ms by columns and 0.42 by rows, 3 classes of 54
# columns 0.75 and 0.40.
MAX_COLUMNS = 16
"""Columns of weights up to which this is faster than turning rows into columns."""
SUMS = 12
"""Vectors of sums in flight: four of sixteen registers are left for entries and weights."""
REGISTERS_APART = {1: 4, 2: 2}
"""Registers of rows where the input is given column by column: each column of a panel has sums."""


def height(k: Kernel, dtype: str, columns: int) -> int:
    """Return the rows of a block: full registers, and at most the tile."""
    # Fewer columns leave registers free, which take more rows.
    registers = REGISTERS_BY_COLUMNS.get(columns, REGISTERS)
    return min(k.tile, max(1, k.lanes // np.dtype(dtype).itemsize) * registers)


def multiply(
    k: Kernel, out: Place, x: Place, weights: npt.NDArray[Any], epilogue: Sequence[EpilogueStep]
) -> None:
    """Compute ``x @ weights``, and the epilogue; zeros at the ends of a block are skipped."""
    _multiply_panels(k, out, x, weights, add_product, used_inputs, epilogue)


def add_product(_: Kind, total: Any, entry: Any, weight: Any) -> Any:
    """Add a term of a product; LLVM may fuse both steps."""
    return total + entry * weight


def finish(
    k: Kernel | FusedLoop,
    epilogue: Sequence[EpilogueStep],
    kind: Kind,
    total: Any,
    index: tuple[Any, ...],
    row: Any,
) -> Any:
    """Apply the epilogue to the total of one column."""
    value = k.bind(total)
    for primitive, constant in epilogue:
        operand = value if constant is None else k.load(k.constant(constant.data), index, row)
        value = k.bind(STEPS[primitive](kind, value, operand))
    return value


def accumulate(
    k: Kernel,
    out: Place,
    x: Place,
    weights: npt.NDArray[Any],
    term: Term,
    epilogue: Sequence[EpilogueStep] = (),
) -> None:
    """Compute ``total = term(kind, total, entry, weight)`` over the entries of x, per column."""
    _multiply_panels(k, out, x, weights, term, all_inputs, epilogue)


def _multiply_panels(
    k: Kernel,
    out: Place,
    x: Place,
    weights: npt.NDArray[Any],
    term: Term,
    spans: Spans,
    epilogue: Sequence[EpilogueStep],
) -> None:
    """Let every panel of weights pass the rows of the tile once."""
    batches = math.prod(weights.shape[:-2])
    weights = weights.reshape(batches, *weights.shape[-2:])
    rows = x.view((batches, x.shape[-1]))
    totals = out.view((batches, out.shape[-1]))
    for first, count, columns in panels(out.shape[-1]):
        packed = pack(weights, first, count, columns)
        _multiply_run(k, totals, rows, packed, spans(packed), first, term, epilogue)


def _multiply_run(
    k: Kernel,
    out: Place,
    x: Place,
    packed: npt.NDArray[Any],
    spans: npt.NDArray[np.int32],
    first: int,
    term: Term,
    epilogue: Sequence[EpilogueStep],
) -> None:
    """Multiply by a run of panels of equal width.

    1. Take one register vector of rows per column of the panel as totals.
    2. For each input, load the rows' entries once and add a term to every total.
    3. Finish the totals and store them.
    """
    batches, count, _, columns = packed.shape
    weights = k.constant(packed)
    lanes = height(k, out.dtype, columns)
    kind = Kind(out.dtype, lanes)
    with k.over((batches, count)) as (batch, panel):
        start, stop = _span(k, spans, batch * count + panel)
        with k.vectors(lanes) as row:
            totals = [k.register(out.dtype, kind.number(0), lanes) for _ in range(columns)]  # 1.
            with T.serial(start, stop) as i:  # 2.
                entry = k.bind(k.load(x, (batch, i), row))
                for column, total in enumerate(totals):
                    weight = k.load(weights, (batch, panel, i, column), row)
                    total.set(term(kind, total.get(), entry, weight))
            for column, total in enumerate(totals):  # 3.
                index = (batch, k.bind(panel * columns + (first + column)))
                k.store(out, index, row, finish(k, epilogue, kind, total.get(), index, row))


def _span(k: Kernel, spans: npt.NDArray[np.int32], panel: Any) -> tuple[Any, Any]:
    """Read the first input of a panel and the end of its inputs: numbers if all are alike."""
    # Equal bounds become constants of the code; others are data.
    if (spans == spans[0, 0]).all():
        return int(spans[0, 0, 0]), int(spans[0, 0, 1])
    table = k.constant(spans)
    return k.bind(k.entry(table, panel * 2)), k.bind(k.entry(table, panel * 2 + 1))


SCALING = {
    "div": lambda _, a, b: tirx.Div(a, b),
    **{name: STEPS[name] for name in ("add", "sub", "mul")},
}
"""What may be done to entries, cast or not, before a product, over vectors along a row."""


def find_row_major(k: Kernel, program: TensorProgram) -> frozenset[int]:
    """Return the positions of inputs that stay in rows, and of their scaling before a product."""
    positions: set[int] = set()
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Input):
            positions.update([position] if _is_multiplied(k, program, instruction) else [])
        elif (
            isinstance(instruction, Op)
            and instruction.primitive in (*SCALING, "cast")
            and instruction.operands[0] in positions
        ):
            positions.add(position)
    return frozenset(positions)


def _is_multiplied(k: Kernel, program: TensorProgram, matrix: Input) -> bool:
    """Whether an input is only read by narrow products, and a row of it fills a vector."""
    (width,) = matrix.type.shape
    dtype = matrix.type.dtype
    return (
        dtype.startswith("float")
        and width >= _lanes(k, dtype)
        and _ends_narrow(program, program.instructions.index(matrix), MAX_COLUMNS)
    )


def _ends_narrow(program: TensorProgram, index: int, most: int) -> bool:
    """Whether a value is only read by products of at most ``most`` columns, scaled or not.

    Scaling is repeated for each panel of weights, so a scaled value may meet one panel only. So may
    a cast one: its vectors are half as full.
    """
    readers = [
        (position, op)
        for position, op in enumerate(program.instructions)
        if isinstance(op, Op) and index in op.operands and op.primitive != FLAG_BEYOND
    ]
    # An output needs the value in columns, so it cannot stay in rows.
    if index in program.outputs.values() or not readers:
        return False
    return all(
        _is_narrow(program, op, most)
        or (_is_scaling(program, op, index) and _ends_narrow(program, position, PANEL))
        for position, op in readers
    )


def _is_narrow(program: TensorProgram, op: Op, most: int) -> bool:
    weights = program.instructions[op.operands[1]] if op.primitive == "matmul" else None
    return (
        isinstance(weights, Constant)
        and weights.value.data.ndim == 2
        and 0 < weights.value.data.shape[1] <= most
    )


def _is_scaling(program: TensorProgram, op: Op, index: int) -> bool:
    # fast LinearRegression of 100 features, 10,000 rows: 1,009 us with a cast before, 598 with one
    # inside.
    if op.primitive == "cast":
        return isinstance(program.instructions[index], Input) and op.type.dtype.startswith("float")
    if op.primitive not in SCALING or op.operands[0] != index:
        return False
    constant = program.instructions[op.operands[1]]
    return isinstance(constant, Constant) and constant.value.data.shape in (op.type.shape, (1,))


def add_scaling(
    primitive: str, operands: tuple[Place, ...], attributes: Mapping[str, Any]
) -> RowMajor | None:
    """Return rows with one more step of scaling; None if the first operand is not in rows."""
    x = operands[0]
    if not isinstance(x, RowMajor):
        return None
    if primitive == "cast":
        return replace(x, dtype=attributes["dtype"])
    if primitive not in SCALING:
        return None
    numbers = np.array(np.broadcast_to(operands[1].numpy(), x.shape))
    step = primitive, InTable(x.dtype, x.shape, numbers)
    return replace(x, scaling=(*x.scaling, step))


def _lanes(k: Kernel, dtype: str) -> int:
    return k.machine.vector // np.dtype(dtype).itemsize


def _row_lanes(k: Kernel, x: RowMajor) -> int:
    """Return the entries of a row that are added at once: those of a vector, before a cast."""
    return min(_lanes(k, x.dtype), _lanes(k, x.matrix.dtype))


def matmul(
    k: Kernel, out: Place, x: Place, w: Place, epilogue: Sequence[EpilogueStep] = ()
) -> None:
    """Emit ``matmul``."""
    if not isinstance(x, RowMajor):
        multiply(k, out, x, w.numpy(), epilogue)
        return
    if x.apart is None:
        _multiply(k, out, x, w.numpy(), epilogue)
        return
    with T.If(x.apart.given):
        with T.Then():
            _multiply_apart(k, out, x, x.apart.place, w.numpy(), epilogue)
        with T.Else():
            _multiply(k, out, x, w.numpy(), epilogue)


def _multiply(
    k: Kernel, out: Place, x: RowMajor, weights: npt.NDArray[Any], epilogue: Sequence[EpilogueStep]
) -> None:
    """Compute the product for some rows at a time, one panel of columns after the other."""
    heights = (_height(columns) for _, _, columns in panels(weights.shape[1]))
    height = min(k.tile, *heights)
    kind = Kind(x.dtype, height)
    # Transposed, so that a vector of weights runs along a row, as a vector of entries does.
    table = k.constant(np.ascontiguousarray(weights.T))
    with k.vectors(height) as some:
        rows = [k.bind(x.first + row) for row in live_rows(k, some)]
        for first, count, columns in panels(weights.shape[1]):
            with T.serial(count) as panel:
                start = k.bind(panel * columns + first)
                for column, total in enumerate(_panel(k, x, table, rows, start, columns)):
                    index = (k.bind(start + column),)
                    k.store(out, index, some, finish(k, epilogue, kind, total, index, some))


def _height(columns: int) -> int:
    """Return the rows at a time: a power of two, to be summed in pairs."""
    # Products of 3 columns once held more sums than registers: two pipelines took 45 and 85 ns a
    # row, now 34 and 72.
    return 1 << ((SUMS // columns).bit_length() - 1)


def _panel(
    k: Kernel, x: RowMajor, weights: Place, rows: list[Any], start: Any, columns: int
) -> list[Any]:
    """Return, for each column of a panel, the vector of the rows' products.

    1. Add whole vectors of entries times weights, for every row and column.
    2. Add the rest as a vector that ends with the row; entries that were added before are zeros.
    3. Sum the lanes.
    """
    (width,) = x.shape
    lanes = _row_lanes(k, x)
    totals = [
        [k.register(x.dtype, literal(0, x.dtype, lanes), lanes) for _ in rows]
        for _ in range(columns)
    ]

    def add(position: Any, skip: int) -> None:
        read = _entries(k, x, rows, position, lanes)
        entries = [k.bind(_without(entry, x.dtype, skip, lanes)) for entry in read]
        for column, sums in enumerate(totals):
            weight = k.bind(k.entries(weights, (start + column) * width + position, lanes))
            for entry, total in zip(entries, sums, strict=True):
                total.set(total.get() + entry * weight)

    with T.serial(width // lanes) as block:  # 1.
        add(k.bind(block * lanes), 0)
    if width % lanes:  # 2.
        add(width - lanes, lanes - width % lanes)
    return [_lane_sums(k, [total.get() for total in sums], lanes) for sums in totals]  # 3.


def _entries(k: Kernel, x: RowMajor, rows: list[Any], position: Any, lanes: int) -> list[Any]:
    """Read neighbouring entries of each row, and scale them."""
    entries = [x.matrix.load(row, tirx.Ramp(position, 1, lanes)) for row in rows]
    if x.matrix.dtype != x.dtype:
        entries = [tirx.Cast(f"{x.dtype}x{lanes}", entry) for entry in entries]
    kind = Kind(x.dtype, lanes)
    for primitive, constant in x.scaling:
        operand = k.bind(k.entries(constant, position, lanes))
        entries = [k.bind(SCALING[primitive](kind, k.bind(entry), operand)) for entry in entries]
    return entries


def _without(vector: Any, dtype: str, skip: int, lanes: int) -> Any:
    """Make the first entries of a vector zeros."""
    if not skip:
        return vector
    zeros = literal(0, dtype, lanes)
    return tirx.Shuffle([vector, zeros], [lanes + i if i < skip else i for i in range(lanes)])


def _lane_sums(k: Kernel, vectors: list[Any], lanes: int) -> Any:
    """Return the vector of the sums of each vector's lanes: neighbours are added pair by pair."""
    size = len(vectors) * lanes
    joined = k.bind(tirx.Shuffle(vectors, list(range(size))))
    while size > len(vectors):
        # Neighbours pair by pair: each halving sums one bit of the lane.
        even, odd = (tirx.Shuffle([joined], list(range(first, size, 2))) for first in (0, 1))
        joined = k.bind(even + odd)
        size //= 2
    return joined


def _multiply_apart(
    k: Kernel,
    out: Place,
    x: RowMajor,
    columns_of_x: Place,
    weights: npt.NDArray[Any],
    epilogue: Sequence[EpilogueStep],
) -> None:
    """Compute the product of an input that is given column by column, to the bits of that by rows.

    Vectors run along rows. So each lane of a product by rows is a sum of its own, which takes the
    same entries in the same order.
    """
    table = k.constant(np.ascontiguousarray(weights.T))
    for first, count, columns in panels(weights.shape[1]):
        height = min(k.tile, _lanes(k, x.dtype) * REGISTERS_APART.get(columns, 1))
        kind = Kind(x.dtype, height)
        with T.serial(count) as panel, k.vectors(height) as some:
            start = k.bind(panel * columns + first)
            sums = _LaneSums(k, x, columns_of_x, table, some, kind, start, columns)
            for column, total in enumerate(sums.of_lanes(0, sums.lanes)):
                index = (k.bind(start + column),)
                k.store(out, index, some, finish(k, epilogue, kind, total, index, some))


@dataclass(frozen=True, eq=False)
class _LaneSums:
    """Sums of a panel of columns of weights, for a vector of rows.

    Parameters
    ----------
    k : Kernel
    x : RowMajor
    columns_of_x : Place
        The columns of x.
    weights : Place
        Transposed: shape (columns, inputs).
    rows : vector of int
    kind : Kind
    start : int expression
        The panel's first column of weights.
    count : int
        Columns of the panel.
    """

    k: Kernel
    x: RowMajor
    columns_of_x: Place
    weights: Place
    rows: Any
    kind: Kind
    start: Any
    count: int

    @property
    def lanes(self) -> int:
        """Lanes of a product by rows."""
        return _row_lanes(self.k, self.x)

    def of_lanes(self, first: int, lanes: int) -> list[Any]:
        """Return the sums of some lanes for each column: neighbours are added pair by pair."""
        if lanes == 1:
            return self._of_lane(first)
        half = lanes // 2
        low, high = self.of_lanes(first, half), self.of_lanes(first + half, half)
        return [self.k.bind(a + b) for a, b in zip(low, high, strict=True)]

    def _of_lane(self, lane: int) -> list[Any]:
        """Return the sums of the entries in one lane: of whole vectors, then of the rest."""
        k, (width,), zero = self.k, self.x.shape, self.kind.number(0)
        totals = [k.register(self.x.dtype, zero, self.kind.lanes) for _ in range(self.count)]
        with T.serial(width // self.lanes) as block:
            position = k.bind(block * self.lanes + lane)
            self._add(totals, position, self._entries(position))
        rest = width % self.lanes
        if rest:
            # A vector that ends with the row: entries that were added before are zeros.
            position = width - self.lanes + lane
            entries = self._entries(position) if lane >= self.lanes - rest else zero
            self._add(totals, position, entries)
        return [total.get() for total in totals]

    def _add(self, totals: list[Any], position: Any, entries: Any) -> None:
        (width,) = self.x.shape
        for column, total in enumerate(totals):
            weight = self.k.entry(self.weights, (self.start + column) * width + position)
            total.set(total.get() + entries * spread(weight, self.kind.lanes))

    def _entries(self, position: Any) -> Any:
        """Read an entry of each row, and scale it."""
        k, x, kind = self.k, self.x, self.kind
        entries = k.load(self.columns_of_x, (position,), self.rows)
        if x.matrix.dtype != x.dtype:
            entries = tirx.Cast(f"{x.dtype}x{kind.lanes}", entries)
        for primitive, constant in x.scaling:
            operand = spread(k.bind(k.entry(constant, position)), kind.lanes)
            entries = SCALING[primitive](kind, k.bind(entries), operand)
        return k.bind(entries)
