"""Write a TensorProgram into a graph, an instruction at a time.

The functions that write each primitive as ONNX operators.

Each is called as ``function(writer, *operands, **attributes)`` and returns the name of the result.
``emit`` adds ``iterate``, whose body is a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import helper

from hbconv.backends.onnx import elementwise, shapes, trees
from hbconv.backends.onnx.writer import DTYPES, GraphWriter, Tensor
from hbconv.tensor import Constant, Input, TensorProgram

__all__ = ["EMITS", "emit_model", "emit_program"]

Emit = Callable[..., str]


def _plain(operator: str) -> Emit:
    return lambda w, *xs: w.node(operator, *(x.name for x in xs))


OPERATORS: Mapping[str, Emit] = {
    **{primitive: _plain(operator) for primitive, operator in {
        "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
        "relu": "Relu", "floor": "Floor", "ceil": "Ceil", "rint": "Round",
        "isnan": "IsNaN", "isinf": "IsInf", "not": "Not",
        "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow",
        "minimum": "Min", "maximum": "Max",
        "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual",
    }.items()},
    "tanh": elementwise.tanh,
    "asin": elementwise.asin,
    "sin": elementwise.circular("Sin", 0),
    "cos": elementwise.circular("Cos", 1),
    "ne": elementwise.not_equal,
    "and": elementwise.logical("And", "BitwiseAnd"),
    "or": elementwise.logical("Or", "BitwiseOr"),
    "xor": elementwise.logical("Xor", "BitwiseXor"),
    "shift_left": elementwise.shift("LEFT"),
    "shift_right": elementwise.shift("RIGHT"),
    "where": elementwise.where,
    "cast": elementwise.cast,
    "matmul": shapes.matmul,
    "pairwise": elementwise.pairwise,
    "nearest": elementwise.nearest,
    "take": shapes.take,
    "gather": shapes.gather,
    "lookup": shapes.lookup,
    "concat": shapes.concat,
    "reshape": shapes.reshape,
    "scatter": shapes.scatter,
    "expand": shapes.expand,
    "reduce_sum": shapes.reduction("ReduceSum"),
    "reduce_prod": shapes.reduction("ReduceProd"),
    "reduce_max": shapes.extreme("ReduceMax"),
    "reduce_min": shapes.extreme("ReduceMin"),
    "argmax": shapes.argmax,
    "ordered_sum": shapes.ordered_sum,
    "cumsum": shapes.cumsum,
    "sort": shapes.sort,
    "topk": shapes.topk,
    "bucketize": shapes.bucketize,
    "tree_scores": trees.tree_scores,
    "tree_leaves": trees.tree_leaves,
}  # fmt: skip


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
