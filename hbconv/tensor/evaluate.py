"""Run a program by the meaning of its primitives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor.primitive import PRIMITIVES
from hbconv.tensor.program import Constant, Input, TensorProgram

__all__ = ["evaluate"]


def evaluate(
    program: TensorProgram, inputs: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Compute the outputs in numpy, an instruction at a time."""
    values: list[npt.NDArray[Any]] = []
    with np.errstate(all="ignore"):
        for instruction in program.instructions:
            if isinstance(instruction, Input):
                values.append(inputs[instruction.name])
            elif isinstance(instruction, Constant):
                values.append(instruction.value.data)
            else:
                operands = (values[i] for i in instruction.operands)
                values.append(
                    PRIMITIVES[instruction.primitive].evaluate(*operands, **instruction.attributes)
                )
    return {name: values[index] for name, index in program.outputs.items()}
