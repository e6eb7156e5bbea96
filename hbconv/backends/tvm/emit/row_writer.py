"""RowProgramWriter: writes a program as what is done with one row, in the memory of the caller."""

from __future__ import annotations

from hbconv.backends.tvm.emit.program import ProgramWriter
from hbconv.backends.tvm.tir.memory import InBuffer, Place
from hbconv.backends.tvm.tir.row_kernel import RowKernel
from hbconv.tensor import Input, Op, TensorProgram

__all__ = ["RowProgramWriter"]


class RowProgramWriter(ProgramWriter):
    """The body of the function: inputs and outputs are read and written where they lie."""

    def __init__(
        self,
        kernel: RowKernel,
        program: TensorProgram,
        inputs: dict[str, InBuffer],
        outputs: dict[str, InBuffer],
    ) -> None:
        super().__init__(kernel, program)
        self.inputs = inputs
        self.outputs = outputs
        self.finished: set[str] = set()

    def read(self, instruction: Input) -> Place:
        """Return the row of an input."""
        return self.inputs[instruction.name]

    def room(self, position: int, op: Op) -> Place:
        """Write an output where it belongs."""
        for name, index in self.program.outputs.items():
            if index == position:
                self.finished.add(name)
                return self.outputs[name]
        return super().room(position, op)

    def finish(self, name: str, place: Place) -> None:
        """Copy an output that is an input, a view, or another output too."""
        if name not in self.finished:
            target = self.outputs[name].view((place.size,))
            self.kernel.map_rows(target, (place.view((place.size,)),), lambda value: value)
