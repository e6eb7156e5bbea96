"""Backend ``reference``: numpy, an instruction at a time.

Slow and obvious: every other backend is tested against it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Arrays, Artifact, Backend
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, TensorProgram
from hbconv.tensor.program import evaluate
from hbconv.trees.strategy import strategies

__all__ = ["Reference", "ReferenceArtifact", "evaluate"]


class ReferenceArtifact(Artifact):
    """A program, interpreted at each call."""

    def __init__(self, program: TensorProgram) -> None:
        self.program = program

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Evaluate the program; what it passes on unchanged is copied, as on other backends."""
        values = evaluate(self.program, inputs)
        return {name: _copy_if_shared(value, inputs) for name, value in values.items()}


def _copy_if_shared(value: npt.NDArray[Any], inputs: Arrays) -> npt.NDArray[Any]:
    shared = any(np.may_share_memory(value, x) for x in inputs.values())
    return value.copy() if shared else value


class Reference(Backend):
    """The numpy interpreter."""

    name = "reference"
    emits = PRIMITIVES

    def native_trees(self, target: Target) -> frozenset[str]:  # noqa: ARG002
        """Return all strategies: ``Forest`` finds the leaf that a row reaches."""
        return frozenset(strategies())

    def emit(self, program: TensorProgram, target: Target) -> Artifact:  # noqa: ARG002
        """Keep the program."""
        return ReferenceArtifact(program)


BACKEND = Reference()
