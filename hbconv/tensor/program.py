"""TensorProgram: a flat list of primitives in SSA form, which every backend takes.

Functions show it, check it, run it by the meaning of its primitives, and find how long its values
are alive.

``Runs`` are neighbouring positions that a ``take`` copies at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.errors import VerificationError
from hbconv.tensor.primitive import PRIMITIVES, OpKind
from hbconv.tensor.types import TensorType

__all__ = [
    "Constant",
    "Input",
    "Instruction",
    "Op",
    "ProgramTypes",
    "Runs",
    "TensorProgram",
    "evaluate",
    "find_few_runs",
    "find_repeats",
    "last_uses",
    "renumber",
    "show_program",
    "verify_program",
]


@dataclass(frozen=True)
class Input:
    """A matrix the program reads: (rows, width)."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Constant:
    """A fixed array, without rows."""

    value: Array
    type: TensorType


@dataclass(frozen=True)
class Op:
    """One primitive applied to earlier instructions, named by their position in the program."""

    primitive: str
    operands: tuple[int, ...]
    type: TensorType
    attributes: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    @property
    def kind(self) -> OpKind | None:
        """OpKind of the primitive; None for one that only a backend knows."""
        primitive = PRIMITIVES.get(self.primitive)
        return primitive.kind if primitive else None

    @property
    def body(self) -> TensorProgram | None:
        """The program that the primitive repeats."""
        return self.attributes.get("body")


Instruction = Input | Constant | Op


@dataclass(frozen=True)
class ProgramTypes:
    """Types of the inputs and outputs of a program, by name, in their order."""

    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


@dataclass(frozen=True)
class TensorProgram:
    """Instructions in order; an instruction's position is its name. Outputs name the results."""

    instructions: tuple[Instruction, ...]
    outputs: Mapping[str, int]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The matrices the program reads, in order."""
        return tuple(i for i in self.instructions if isinstance(i, Input))

    @property
    def types(self) -> ProgramTypes:
        """Types of what it reads and returns."""
        outputs = {name: self.instructions[index].type for name, index in self.outputs.items()}
        return ProgramTypes({i.name: i.type for i in self.inputs}, outputs)

    @property
    def primitives(self) -> frozenset[str]:
        """Names of the primitives in use, also in what is repeated."""
        ops = [i for i in self.instructions if isinstance(i, Op)]
        return frozenset(op.primitive for op in ops).union(
            *(op.body.primitives for op in ops if op.body)
        )

    def __str__(self) -> str:
        return show_program(self)


def renumber(instruction: Instruction, position: Mapping[int, int]) -> Instruction:
    """Return the instruction with its operands at their new positions."""
    if not isinstance(instruction, Op):
        return instruction
    return replace(instruction, operands=tuple(position[i] for i in instruction.operands))


def show_program(program: TensorProgram) -> str:
    """Print a program, an instruction a line.

    Examples
    --------
    >>> from hbconv.tensor.builder import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float32", 2)
    >>> print(b.program({"y": x * b.constant([2.0, 3.0], "float32")}))
    %0 = input x : float32[n, 2]
    %1 = constant [2., 3.] : float32[2]
    %2 = mul %0 %1 : float32[n, 2]
    return y=%2
    """
    lines = [
        f"%{i} = {_show(instruction)} : {instruction.type}"
        for i, instruction in enumerate(program.instructions)
    ]
    return "\n".join(
        [*lines, "return " + ", ".join(f"{name}=%{i}" for name, i in program.outputs.items())]
    )


def _show(instruction: Instruction) -> str:
    if isinstance(instruction, Input):
        return f"input {instruction.name}"
    if isinstance(instruction, Constant):
        return f"constant {instruction.value!r}"
    operands = "".join(f" %{i}" for i in instruction.operands)
    return (
        instruction.primitive
        + operands
        + "".join(f" {k}={_show_attribute(v)}" for k, v in instruction.attributes.items())
    )


def _show_attribute(value: Any) -> str:
    if isinstance(value, TensorProgram):
        return f"<{len(value.instructions)} instructions>"
    return str(value)


def last_uses(program: TensorProgram) -> dict[int, int]:
    """Return the last position that reads each value; outputs are read past the end.

    Values that nothing reads are left out.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 3)
    >>> last_uses(b.program({"y": -(x + x)}))
    {0: 1, 1: 2, 2: 3}
    """
    # Later positions overwrite earlier ones, so the last use is left.
    last = {
        operand: position
        for position, op in enumerate(program.instructions)
        if isinstance(op, Op)
        for operand in op.operands
    }
    return last | dict.fromkeys(program.outputs.values(), len(program.instructions))


MAX_ROW_ENTRIES = 2**31 - 1
"""Entries of a row that int32 can count."""


def verify_program(program: TensorProgram) -> TensorProgram:
    """Return the program, or raise VerificationError.

    Operands precede their use. Types are those that the primitives infer. Constants have the dtype
    and shape that they declare. Outputs exist.
    """
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Constant):
            value, declared = instruction.value, instruction.type
            _require(
                (value.dtype, value.shape, False)
                == (declared.dtype, declared.shape, declared.rows),
                position,
                "constant type",
            )
        if isinstance(instruction, Op):
            _verify_op(program, position, instruction)
    for name, index in program.outputs.items():
        _require(0 <= index < len(program.instructions), index, f"output {name}")
        _require(program.instructions[index].type.rows, index, f"output {name} has no rows")
    return program


def _verify_op(program: TensorProgram, position: int, op: Op) -> None:
    _require(op.primitive in PRIMITIVES, position, f"unknown primitive {op.primitive}")
    _require(all(0 <= i < position for i in op.operands), position, "operand order")
    types = [program.instructions[i].type for i in op.operands]
    inferred = PRIMITIVES[op.primitive].infer(*types, **op.attributes)
    _require(inferred == op.type, position, f"type {op.type} where {inferred} is inferred")
    _require(
        math.prod(op.type.shape) <= MAX_ROW_ENTRIES,
        position,
        f"{op.type} has more entries in a row than int32 counts",
    )
    if op.primitive == "take":
        positions = program.instructions[op.operands[1]]
        size = types[0].shape[op.attributes["axis"]]
        _require(
            isinstance(positions, Constant) and positions.value.are_places(size, -size),
            position,
            f"take of positions beyond {size}",
        )
    if op.body is not None:
        verify_program(op.body)


def _require(condition: bool, position: int, what: str) -> None:
    if not condition:
        raise VerificationError(f"instruction %{position}: {what}")


Rounding = Callable[[Op, Sequence[npt.NDArray[Any]], npt.NDArray[Any]], npt.NDArray[Any]]
"""Takes an operation, its operands and its value; returns a value rounded otherwise."""


def evaluate(
    program: TensorProgram,
    inputs: Mapping[str, npt.NDArray[Any]],
    rounding: Rounding | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Compute the outputs in numpy, an instruction at a time, and round otherwise if asked."""
    values: list[npt.NDArray[Any]] = []
    # Infinities and NaN of an overflow or a zero division are part of the meaning, not a fault.
    with np.errstate(all="ignore"):
        for instruction in program.instructions:
            if isinstance(instruction, Input):
                # The order in memory would choose the order of sums.
                values.append(np.ascontiguousarray(inputs[instruction.name]))
            elif isinstance(instruction, Constant):
                values.append(instruction.value.data)
            else:
                operands = [values[i] for i in instruction.operands]
                meaning = PRIMITIVES[instruction.primitive].evaluate
                value = meaning(*operands, **instruction.attributes)
                values.append(rounding(instruction, operands, value) if rounding else value)
    return {name: values[index] for name, index in program.outputs.items()}


Runs = tuple[tuple[int, int], ...]
"""First position and length of each run."""

LENGTH = 1.5
"""Mean length, for each run there is, from which copying runs beats reading each position.

A run costs the more the more there are: each is a pass over all rows. Measured with 1 to 12 runs of
1 to 25 words in float32 and float64, on torch and ONNX Runtime.
"""

REPEATS = 8
"""Mean number of times, from which copying a repeated position beats reading it each time."""


def find_repeats(indices: npt.NDArray[Any], extent: int) -> Runs:
    """Return each position and how often it is repeated; nothing where that is seldom.

    One-hot encoders take each code once for each category.

    Examples
    --------
    >>> find_repeats(np.repeat([0, 2], [9, 12]), 3)
    ((0, 9), (2, 12))
    >>> find_repeats(np.array([0, 0, 1]), 2)
    ()
    """
    positions = np.where(indices < 0, indices + extent, indices)
    # No position is -1, so the first one begins a run.
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    if not len(starts) or len(positions) < REPEATS * len(starts):
        return ()
    counts = np.diff(starts, append=len(positions))
    return tuple(zip(positions[starts].tolist(), counts.tolist(), strict=True))


def find_few_runs(indices: npt.NDArray[Any], extent: int) -> Runs:
    """Return the runs of the positions that are taken of ``extent``; none where they are many.

    Libraries read single positions of a row slowly, up to 8 ns each, and copy a run of 25 in 20 ns.

    Examples
    --------
    >>> find_few_runs(np.array([4, 5, 6, -2, -1, 0]), 9)
    ((4, 5), (0, 1))
    >>> find_few_runs(np.array([4, 5, 6, 0, 2]), 9)
    ()
    >>> find_few_runs(np.array([3, 2, 1]), 9)
    ()
    """
    positions = np.where(indices < 0, indices + extent, indices)
    # No position is the one after -2, so the first one begins a run.
    starts = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
    if not len(starts) or len(positions) < LENGTH * len(starts) ** 2:
        return ()
    lengths = np.diff(starts, append=len(positions))
    return tuple(zip(positions[starts].tolist(), lengths.tolist(), strict=True))
