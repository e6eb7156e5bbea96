"""Write a TensorProgram into a SELECT, an instruction at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hbconv.backends.sql.elementwise import ELEMENTWISE, Emit
from hbconv.backends.sql.shapes import SHAPES
from hbconv.backends.sql.trees import TREES
from hbconv.backends.sql.writer import Cells, Operation, SelectWriter
from hbconv.tensor import Constant, Input, Op, TensorProgram

__all__ = ["EMITS", "write_program"]

EMITS: Mapping[str, Emit] = {**ELEMENTWISE, **SHAPES, **TREES}
"""The function that writes each primitive."""


def write_program(
    w: SelectWriter, program: TensorProgram, inputs: Mapping[str, Cells]
) -> dict[str, Cells]:
    """Write the cells of the outputs, reading those of the inputs."""
    ops = [op for op in program.instructions if isinstance(op, Op)]
    uses = Counter(i for op in ops for i in op.operands) + Counter(program.outputs.values())
    values: list[Any] = []
    for number, instruction in enumerate(program.instructions):
        if isinstance(instruction, Input):
            values.append(inputs[instruction.name])
        elif isinstance(instruction, Constant):
            values.append(w.array(instruction.value.data))
        else:
            operands = [values[i] for i in instruction.operands]
            made = EMITS[instruction.primitive](w, _operation(program, instruction), *operands)
            values.append(w.store_all(made) if uses[number] > 1 else made)
    return {name: values[index] for name, index in program.outputs.items()}


def _operation(program: TensorProgram, op: Op) -> Operation:
    sources = tuple(program.instructions[i].type.dtype for i in op.operands)
    return Operation(op.primitive, op.type.dtype, op.type.shape, sources, op.attributes)
