"""Run a program by the meaning of its primitives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.primitive import PRIMITIVES
from hbconv.tensor.program import Constant, Input, Op, TensorProgram

__all__ = ["Rounding", "evaluate"]

Rounding = Callable[[Op, Sequence[npt.NDArray[Any]], npt.NDArray[Any]], npt.NDArray[Any]]
"""Takes an operation, its operands and its value; returns a value rounded otherwise."""


def evaluate(
    program: TensorProgram,
    inputs: Mapping[str, npt.NDArray[Any]],
    rounding: Rounding | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Compute the outputs in numpy, an instruction at a time, and round otherwise if asked."""
    values: list[npt.NDArray[Any]] = []
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
