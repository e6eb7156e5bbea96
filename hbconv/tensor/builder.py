"""Builder: writes a TensorProgram; lowerings read like numpy.

A ``Value`` has all entries of its rows, and ``SparseRows`` their nonzeros alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.target import Precision
from hbconv.tensor.primitive import PRIMITIVES
from hbconv.tensor.program import Constant, Input, Instruction, Op, TensorProgram, renumber
from hbconv.tensor.types import TensorType

__all__ = ["Builder", "SparseRows", "Value"]


@dataclass(frozen=True, eq=False)
class Value:
    """An instruction under construction; arithmetic on it appends primitives."""

    builder: Builder
    index: int
    type: TensorType

    @property
    def dtype(self) -> str:
        """Dtype name."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape, without the rows."""
        return self.type.shape

    def __add__(self, other: Value) -> Value:
        return self.builder.op("add", self, other)

    def __sub__(self, other: Value) -> Value:
        return self.builder.op("sub", self, other)

    def __mul__(self, other: Value) -> Value:
        return self.builder.op("mul", self, other)

    def __truediv__(self, other: Value) -> Value:
        return self.builder.op("div", self, other)

    def __lt__(self, other: Value) -> Value:
        return self.builder.op("lt", self, other)

    def __le__(self, other: Value) -> Value:
        return self.builder.op("le", self, other)

    def __gt__(self, other: Value) -> Value:
        return self.builder.op("gt", self, other)

    def __ge__(self, other: Value) -> Value:
        return self.builder.op("ge", self, other)

    def __and__(self, other: Value) -> Value:
        return self.builder.op("and", self, other)

    def __or__(self, other: Value) -> Value:
        return self.builder.op("or", self, other)

    def __invert__(self) -> Value:
        return self.builder.op("not", self)

    def __neg__(self) -> Value:
        return self.builder.op("neg", self)


class Builder:
    """Collects instructions, merging equal ones; ``program`` closes it.

    Parameters
    ----------
    precision : {"exact", "fast"}
        ``"fast"`` turns every float64 into float32 as it is written, but for ``matmul_wide``.
    """

    def __init__(self, precision: Precision = "exact") -> None:
        self.precision = precision
        self.source = ""
        self._instructions: list[Instruction] = []
        self._values: dict[Any, Value] = {}

    def dtype(self, name: str) -> str:
        """Dtype to use where the source model uses the named one."""
        return "float32" if self.precision == "fast" and name == "float64" else name

    def input(self, name: str, dtype: str, width: int) -> Value:
        """Declare a matrix that the program reads."""
        kind = TensorType(dtype, (width,))
        return self._append(Input(name, kind), ("input", name))

    def constant(self, value: Array | npt.ArrayLike, dtype: str | None = None) -> Value:
        """Write a constant, in the given dtype or its own; numbers beyond it are infinite."""
        array = Array.of(value)
        wanted = self.dtype(dtype or array.dtype)
        with np.errstate(over="ignore"):
            array = array if array.dtype == wanted else Array.of(array, wanted)
        return self._append(
            Constant(array, TensorType(array.dtype, array.shape, rows=False)), array
        )

    def op(self, primitive: str, *operands: Value, **attributes: Any) -> Value:
        """Append a primitive.

        One of a constant alone, such as a cast, is computed at once, as if for a single row.
        """
        kind = PRIMITIVES[primitive].infer(*(v.type for v in operands), **attributes)
        first = self._instructions[operands[0].index]
        if isinstance(first, Constant) and not kind.rows:
            # The meaning of a primitive expects an axis of rows, which a constant lacks.
            return self.constant(
                PRIMITIVES[primitive].evaluate(first.value.data[None], **attributes)[0]
            )
        indexes = tuple(v.index for v in operands)
        key = (
            primitive,
            indexes,
            # A program holds dicts, so it does not hash; bodies that are equal but not one object
            # stay apart.
            tuple((k, id(v) if isinstance(v, TensorProgram) else v) for k, v in attributes.items()),
        )
        return self._append(Op(primitive, indexes, kind, attributes, self.source), key)

    def array_of(self, x: Value) -> npt.NDArray[Any]:
        """Return the value of a constant."""
        instruction = self._instructions[x.index]
        if not isinstance(instruction, Constant):
            raise ValueError(f"{x.type} is not a constant")
        return instruction.value.data

    def program(self, outputs: Mapping[str, Value]) -> TensorProgram:
        """Close the program, dropping what no output needs; declared inputs stay."""
        needed = {v.index for v in outputs.values()} | {
            i for i, x in enumerate(self._instructions) if isinstance(x, Input)
        }
        # Operands precede their use, so one pass from the end finds all that is needed.
        for index in range(len(self._instructions) - 1, -1, -1):
            instruction = self._instructions[index]
            if index in needed and isinstance(instruction, Op):
                needed.update(instruction.operands)
        position = {old: new for new, old in enumerate(sorted(needed))}
        kept = tuple(renumber(self._instructions[old], position) for old in position)
        return TensorProgram(kept, {name: position[v.index] for name, v in outputs.items()})

    def _append(self, instruction: Instruction, key: Any) -> Value:
        if key not in self._values:
            self._values[key] = Value(self, len(self._instructions), instruction.type)
            self._instructions.append(instruction)
        return self._values[key]

    # Shorthands for the primitives that are not operators.

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert to a dtype; nothing where x has it."""
        wanted = self.dtype(dtype)
        return x if x.dtype == wanted else self.op("cast", x, dtype=wanted)

    def promote(self, *xs: Value) -> tuple[Value, ...]:
        """Cast all to numpy's common dtype."""
        common = np.result_type(*(x.dtype for x in xs)).name
        return tuple(self.cast(x, common) for x in xs)

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Take x where the condition holds, else y."""
        return self.op("where", condition, x, y)

    def matmul(self, x: Value, w: Value) -> Value:
        """Multiply by a constant matrix."""
        return self.op("matmul", x, w)

    def matmul_wide(self, x: Value, w: Array) -> Value:
        """Multiply by a constant matrix and add up in float64, in every precision."""
        kind = TensorType("float64", w.shape, rows=False)
        weights = self._append(Constant(Array.of(w, "float64"), kind), ("wide", w))
        wide = x if x.dtype == "float64" else self.op("cast", x, dtype="float64")
        return self.op("matmul", wide, weights)

    def take(self, x: Value, indices: npt.ArrayLike, axis: int = 0) -> Value:
        """Take fixed positions of a static axis; nothing where they are all of it in order."""
        positions = np.asarray(indices, dtype=np.int32)
        if np.array_equal(positions, np.arange(x.shape[axis])):
            return x
        return self.op("take", x, self.constant(positions), axis=axis)

    def lookup(self, table: Value, index: Value) -> Value:
        """Read a constant table at computed positions."""
        return self.op("lookup", table, index)

    def lookup_codes(self, tables: Sequence[npt.NDArray[Any]], codes: Value) -> Value:
        """Read each column's own table; its first entry is for the code -1."""
        table = self.constant(np.concatenate(tables))
        return self.op("lookup_codes", table, codes, sizes=tuple(len(t) for t in tables))

    def one_hot(self, codes: Value, sizes: Sequence[int], dtype: str) -> Value:
        """Write a one at the code of each column; columns of no codes vanish."""
        kept = np.flatnonzero(sizes)
        numbers = np.asarray(sizes, np.int32)[kept]
        return self.op(
            "one_hot",
            self.take(codes, kept),
            self.constant(numbers),
            width=int(numbers.sum()),
            dtype=self.dtype(dtype),
        )

    def gather(self, x: Value, index: Value) -> Value:
        """Read each row of x at its own positions."""
        return self.op("gather", x, index)

    def concat(self, xs: Sequence[Value], axis: int = 0) -> Value:
        """Join along a static axis."""
        return xs[0] if len(xs) == 1 else self.op("concat", *xs, axis=axis)

    def reshape(self, x: Value, *shape: int) -> Value:
        """Change the static shape."""
        return x if x.shape == shape else self.op("reshape", x, shape=shape)

    def reduce(self, primitive: str, x: Value, axis: int = 0) -> Value:
        """Reduce a static axis away."""
        return self.op(primitive, x, axis=axis)

    def iterate(
        self,
        steps: int,
        state: Value,
        given: Value,
        write: Callable[[Builder, Value, Value], Value],
    ) -> Value:
        """Append ``state = write(builder, state, given)``, repeated ``steps`` times on matrices.

        ``write`` must use the builder that it is passed.
        """
        inner = Builder(self.precision)
        inner.source = self.source
        after = write(
            inner,
            *(
                inner.input(name, x.dtype, x.shape[0])
                for name, x in (("state", state), ("given", given))
            ),
        )
        return self.op("iterate", state, given, body=inner.program({"state": after}), steps=steps)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of ``width`` columns, as the columns of nonzeros (tokens) and their values (weights).

    Parameters
    ----------
    tokens : Value of int32, shape (n_rows, m)
        Column of each nonzero. A row of fewer than m is padded with ``width``, which is no column.
    weights : Value, shape (n_rows, m)
        Zero for padding.
    width : int
        Number of columns.
    """

    tokens: Value
    weights: Value
    width: int

    @property
    def dtype(self) -> str:
        """Dtype of the weights."""
        return self.weights.dtype

    def with_weights(self, weights: Value) -> SparseRows:
        """Return rows with other values in the same columns."""
        return replace(self, weights=weights)

    def at_tokens(
        self, b: Builder, columns: npt.NDArray[Any], none: float, dtype: str | None = None
    ) -> Value:
        """Read one constant for each nonzero from a vector over the columns.

        Padding reads ``none``.
        """
        # The token of padding is the width, so it reads the entry behind those of the columns.
        table = np.append(columns, np.asarray(none, columns.dtype))
        return b.lookup(b.constant(table, dtype), self.tokens)

    def selected(self, b: Builder, columns: npt.NDArray[np.integer[Any]]) -> SparseRows | None:
        """Select columns: renumber their nonzeros, and turn all others into padding.

        Return None if a column is selected twice.
        """
        width = len(columns)
        if len(np.unique(columns)) < width:
            return None
        # One entry more for the token of padding, which becomes that of the new width.
        names = np.full(self.width + 1, width, np.int32)
        names[columns] = np.arange(width)
        tokens = b.lookup(b.constant(names), self.tokens)
        padding = b.op("eq", tokens, b.constant(width, "int32"))
        weights = b.where(padding, b.constant(0, self.dtype), self.weights)
        return SparseRows(tokens, weights, width)

    def written_out(self, b: Builder) -> Value:
        """Return the dense rows."""
        return b.op("scatter", self.tokens, self.weights, width=self.width)
