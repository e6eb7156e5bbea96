"""Write a TensorProgram into a graph, an instruction at a time."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import helper

from hbconv.backends.onnx.table import OPERATORS, Emit
from hbconv.backends.onnx.writer import DTYPES, GraphWriter, Tensor
from hbconv.tensor import Constant, Input, TensorProgram

__all__ = ["EMITS", "emit_model", "emit_program"]


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


def iterate(w: GraphWriter, state: Tensor, given: Tensor, body: TensorProgram, steps: int) -> str:
    """Write ``iterate`` as a Loop, whose body is a graph of its own.

    The Loop ends early if a step changes nothing. Its body reads ``given`` from the graph around.
    """
    inner = w.inner()
    step, go_on, before = (inner.fresh(hint) for hint in ("step", "go_on", "state"))
    after = emit_program(inner, body, {"state": before, "given": given.name})["state"]
    same = inner.node(
        "Or", inner.node("Equal", before, after.name), inner.node("IsNaN", after.name)
    )
    changes = inner.node("ReduceSum", inner.cast(inner.node("Not", same), "int32"), keepdims=0)
    results = (
        inner.node("Greater", changes, inner.constant(0, "int32")),
        inner.node("Identity", after.name),
    )
    graph = inner.graph(
        inner.fresh("body"),
        [
            helper.make_tensor_value_info(step, DTYPES["int64"], []),
            helper.make_tensor_value_info(go_on, DTYPES["bool"], []),
            helper.make_tensor_value_info(before, DTYPES[state.dtype], ["n", *state.shape]),
        ],
        [
            helper.make_tensor_value_info(results[0], DTYPES["bool"], []),
            helper.make_tensor_value_info(results[1], DTYPES[state.dtype], ["n", *state.shape]),
        ],
    )
    return w.named_node(
        w.fresh("Loop"),
        "Loop",
        w.constant(steps, "int64"),
        w.constant(True, "bool"),
        state.name,
        body=graph,
    )


EMITS: Mapping[str, Emit] = {**OPERATORS, "iterate": iterate}
"""The function that writes each primitive."""
