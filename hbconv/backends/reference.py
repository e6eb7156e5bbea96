"""Backend ``reference``: numpy, an instruction at a time. Slow and obvious: the oracle of every other backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact, Backend
from hbconv.strategy import strategies
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, Constant, Input, TensorProgram

__all__ = ["Reference", "ReferenceArtifact", "evaluate"]


def evaluate(program: TensorProgram, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Run a program by the meaning of its primitives."""
    values: list[npt.NDArray[Any]] = []
    with np.errstate(all="ignore"):
        for instruction in program.instructions:
            if isinstance(instruction, Input):
                values.append(inputs[instruction.name])
            elif isinstance(instruction, Constant):
                values.append(instruction.value.data)
            else:
                operands = (values[i] for i in instruction.operands)
                values.append(PRIMITIVES[instruction.primitive].evaluate(*operands, **instruction.attributes))
    return {name: values[index] for name, index in program.outputs.items()}


class ReferenceArtifact(Artifact):
    """A program and nothing more."""

    def __init__(self, program: TensorProgram) -> None:
        self.program = program

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Evaluate the program."""
        return evaluate(self.program, inputs)


class Reference(Backend):
    """The numpy interpreter."""

    name = "reference"
    emits = PRIMITIVES

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """All: the forest itself says which leaf a row reaches."""
        return frozenset(strategies())

    def emit(self, program: TensorProgram, target: Target) -> Artifact:  # noqa: ARG002
        """Keep the program."""
        return ReferenceArtifact(program)


BACKEND = Reference()
