"""The primitive ``iterate`` as ONNX's Loop, whose body is a graph of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import helper

from hbconv.backends.onnx.writer import DTYPES, GraphWriter, Tensor

if TYPE_CHECKING:
    from hbconv.tensor import TensorProgram

__all__ = ["iterate"]


def iterate(w: GraphWriter, state: Tensor, given: Tensor, body: TensorProgram, steps: int) -> str:
    """Write a Loop that ends early where a step changes nothing; its body reads ``given`` from the graph around it."""
    from hbconv.backends.onnx.emit import (
        emit_program,
    )  # the table of primitives, which names this one

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
