"""Write a TensorProgram into a graph, an instruction at a time.

``EMITS`` has the function that writes each primitive as ONNX operators. It is called as
``function(writer, *operands, **attributes)`` and returns the name of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper

from hbconv.backends.onnx import distances, elementwise, shapes, trees
from hbconv.backends.onnx.row_blocks import emit_in_blocks, find_block
from hbconv.backends.onnx.summed_squares import summed_squares
from hbconv.backends.onnx.writer import DTYPES, GraphWriter, Tensor
from hbconv.tensor import Builder, Constant, Input, TensorProgram, Value
from hbconv.tensor.decompositions import (
    DECOMPOSITIONS,
    Rule,
    compare_small_tables,
    rank_donors,
)
from hbconv.tensor.summed_squares import find_summed_squares

__all__ = ["EMITS", "REWRITES", "emit_model", "emit_program", "emit_rows"]

Emit = Callable[..., str]


def _plain(operator: str) -> Emit:
    return lambda w, *xs: w.node(operator, *(x.name for x in xs))


def _arithmetic(operator: str, neutral: float) -> Emit:
    """Return the emitter of an operator that a neutral number does not change.

    ONNX Runtime removes it where the other operand is that number *as float32*: division by
    0.9999999999999999, or addition of 1e-50 (1.31, ``NoopElimination``). It keeps operators whose
    constant has more dimensions than the other operand.
    """

    def emit(w: GraphWriter, *xs: Tensor) -> str:
        names = [x.name for x in xs]
        for position, x in enumerate(xs):
            other = xs[1 - position]
            if x.value is not None and other.value is None and _is_nearly(x.value, neutral):
                names[position] = w.constant(x.value.reshape((1,) * (len(other.shape) + 2)))
                return w.node("Squeeze", w.node(operator, *names), w.constant([0], "int64"))
        return w.node(operator, *names)

    return emit


def _is_nearly(value: npt.NDArray[Any], number: float) -> bool:
    """Whether a constant is a number once it is rounded to float32, and not before."""
    if value.size != 1 or value.dtype != np.float64:
        return False
    with np.errstate(over="ignore"):
        return bool(value.astype(np.float32).item() == number != value.item())


OPERATORS: Mapping[str, Emit] = {
    **{primitive: _plain(operator) for primitive, operator in {
        "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
        "relu": "Relu", "floor": "Floor", "ceil": "Ceil", "rint": "Round",
        "isnan": "IsNaN", "isinf": "IsInf", "not": "Not",
        "pow": "Pow",
        "minimum": "Min", "maximum": "Max",
        "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual",
    }.items()},
    "add": _arithmetic("Add", 0.0),
    "sub": _arithmetic("Sub", 0.0),
    "mul": _arithmetic("Mul", 1.0),
    "div": _arithmetic("Div", 1.0),
    "tanh": elementwise.tanh,
    "asin": elementwise.asin,
    "sin": elementwise.sin,
    "cos": elementwise.cos,
    "fmod": elementwise.fmod,
    "trunc_divide": elementwise.trunc_divide,
    "ne": elementwise.not_equal,
    "and": elementwise.logical("And", "BitwiseAnd"),
    "or": elementwise.logical("Or", "BitwiseOr"),
    "xor": elementwise.logical("Xor", "BitwiseXor"),
    "shift_left": elementwise.shift("LEFT"),
    "shift_right": elementwise.shift("RIGHT"),
    "where": elementwise.where,
    "cast": elementwise.cast,
    "matmul": shapes.matmul,
    "pairwise": distances.pairwise,
    "nearest": distances.nearest,
    "topk_donors": distances.topk_donors,
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
    for name, value in emit_rows(w, program, inputs).items():
        w.output(w.named_node(name, "Identity", value.name), value.dtype, value.shape)
    return w.model("program")


def emit_rows(
    w: GraphWriter, program: TensorProgram, inputs: Mapping[str, str]
) -> dict[str, Tensor]:
    """Append the program's nodes, in blocks of rows where that is faster; return its outputs."""
    rows = find_block(program)
    if not rows:
        return emit_program(w, program, inputs)

    def emit(inner: GraphWriter, given: Sequence[Tensor]) -> list[Tensor]:
        names = {x.name: value.name for x, value in zip(program.inputs, given, strict=True)}
        return [*emit_program(inner, program, names).values()]

    given = [Tensor(inputs[x.name], x.type) for x in program.inputs]
    return dict(zip(program.outputs, emit_in_blocks(w, given, rows, emit), strict=True))


def emit_program(
    w: GraphWriter, program: TensorProgram, inputs: Mapping[str, str]
) -> dict[str, Tensor]:
    """Append the program's nodes, reading the named values as its inputs; return its outputs."""
    values: list[Tensor] = []
    summed = find_summed_squares(program)
    for position, instruction in enumerate(program.instructions):
        if isinstance(instruction, Input):
            values.append(Tensor(inputs[instruction.name], instruction.type))
        elif isinstance(instruction, Constant):
            values.append(
                Tensor(w.constant(instruction.value), instruction.type, instruction.value.data)
            )
        else:
            w.source = instruction.source
            operands = (values[i] for i in instruction.operands)
            emit: Emit = summed_squares if position in summed else EMITS[instruction.primitive]
            name = emit(w, *operands, **instruction.attributes)
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
    # NaN equals nothing, itself included, so it would keep the loop going to its last step.
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
            helper.make_tensor_value_info(before, DTYPES[state.dtype], [None, *state.shape]),
        ],
        [
            helper.make_tensor_value_info(results[0], DTYPES["bool"], []),
            helper.make_tensor_value_info(results[1], DTYPES[state.dtype], [None, *state.shape]),
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


def embedding_sum(b: Builder, tokens: Value, weights: Value, table: Value) -> Value:
    """Add up the rows of the table, times their weights, in any order: by one ReduceSum."""
    return b.reduce("reduce_sum", b.lookup(table, tokens) * b.reshape(weights, *weights.shape, 1))


MAX_UNIT_ROWS = 1 << 22
"""Bytes of unit vectors up to which they are copied: longer ones are compares of codes."""


def one_hot(b: Builder, codes: Value, sizes: Value, **attributes: Any) -> Value:
    """Copy the unit vector of each code: ``Gather`` copies a row of a table at once."""
    counts = b.array_of(sizes).tolist()
    dtype = attributes["dtype"]
    if (
        not counts
        or sum(count * count for count in counts) * np.dtype(dtype).itemsize > MAX_UNIT_ROWS
    ):
        return DECOMPOSITIONS["one_hot"](b, codes, sizes, **attributes)
    parts = []
    for column, count in enumerate(counts):
        # The last row, of zeros, is for codes that are none of the column's.
        units = np.concatenate([np.eye(count), np.zeros((1, count))]).astype(dtype)
        code = b.take(codes, [column])
        is_unit = (code >= b.constant(0, "int32")) & (code < b.constant(count, "int32"))
        row = b.where(is_unit, code, b.constant(count, "int32"))
        parts.append(b.reshape(b.lookup(b.constant(units), row), count))
    return b.concat(parts)


MAX_COMPARED = 3
"""Numbers in a table up to which comparing codes with each beats ``Gather``.

Per column and row, ``Gather`` takes 6 to 12 ns by the machine, and a compare with its choice 2 to
4.
"""

REWRITES: dict[str, Rule] = {
    "embedding_sum": embedding_sum,
    "lookup_codes": compare_small_tables(MAX_COMPARED, of_all_entries=True),
    "nearest_donors": rank_donors,
    "one_hot": one_hot,
}
"""Primitives that ONNX Runtime computes faster in other forms than the decompositions of all."""
