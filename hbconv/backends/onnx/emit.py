"""Write a TensorProgram into a graph, an instruction at a time."""

from __future__ import annotations

from collections.abc import Mapping

from hbconv.backends.onnx.table import EMITS
from hbconv.backends.onnx.writer import GraphWriter, Tensor
from hbconv.tensor import Constant, Input, TensorProgram

__all__ = ["emit_model", "emit_program"]


def emit_model(program: TensorProgram) -> bytes:
    """Write the program as a model with its own inputs and outputs."""
    w = GraphWriter([*(i.name for i in program.inputs), *program.outputs])
    inputs = {i.name: w.input(i.name, i.type.dtype, i.type.shape[0]) for i in program.inputs}
    for name, value in emit_program(w, program, inputs).items():
        w.output(w.named_node(name, "Identity", value.name), value.dtype, value.shape)
    return w.model("program")


def emit_program(
    w: GraphWriter, program: TensorProgram, inputs: Mapping[str, str]
) -> dict[str, Tensor]:
    """Append the program's nodes, reading the named values as its inputs; return its outputs."""
    values: list[Tensor] = []
    for instruction in program.instructions:
        if isinstance(instruction, Input):
            values.append(Tensor(inputs[instruction.name], instruction.type))
        elif isinstance(instruction, Constant):
            values.append(
                Tensor(w.constant(instruction.value), instruction.type, instruction.value.data)
            )
        else:
            w.source = instruction.source
            operands = (values[i] for i in instruction.operands)
            name = EMITS[instruction.primitive](w, *operands, **instruction.attributes)
            values.append(Tensor(name, instruction.type))
    w.source = ""
    return {name: values[index] for name, index in program.outputs.items()}
