"""Check that a TensorProgram is well formed."""

import math

from hbconv.errors import VerificationError
from hbconv.tensor.primitive import PRIMITIVES
from hbconv.tensor.program import Constant, Op, TensorProgram

__all__ = ["verify_program"]

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
