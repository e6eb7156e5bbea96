"""Branches of constants are taken; those that depend on rows are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hbconv

onnxruntime = pytest.importorskip("onnxruntime")

ROWS = np.array([[0.5, -1, 2], [3, 0, -2]], np.float32)


def branch(name: str, factor: float) -> Any:
    """Return a branch that multiplies what is outside it by a constant of its own."""
    constant = numpy_helper.from_array(np.float32([factor]), "factor")
    node = helper.make_node("Mul", ["X", "factor"], [name])
    return helper.make_graph(
        [node], name, [], [helper.make_empty_tensor_value_info(name)], [constant]
    )


def model_of(conditions: list[Any], *, width: int | None = 3) -> ModelProto:
    """Return a model whose If has the branches of twice and half its rows."""
    choice = helper.make_node(
        "If", ["cond"], ["y"], then_branch=branch("twice", 2), else_branch=branch("half", 0.5)
    )
    stored = [
        numpy_helper.from_array(np.array(values), name)
        for name, values in (("one", [1]), ("three", [3]), ("true", True))
    ]
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([*conditions, choice], "branches", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def of_width(asked: str, axis: int = 1) -> list[Any]:
    """Return the operators that compare the size of an axis, as exporters of torch write them."""
    return [
        helper.make_node("Shape", ["X"], ["size"], start=axis, end=axis + 1),
        helper.make_node("Equal", ["size", asked], ["cond"]),
    ]


@pytest.mark.parametrize("asked", ["one", "three"])
def test_a_branch_of_the_width_is_taken(asked: str):
    model = model_of(of_width(asked))
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"X": ROWS})
    (found,) = hbconv.convert(model, backend="reference").run(None, {"X": ROWS})
    assert np.array_equal(found, expected)


def test_a_branch_of_a_constant_is_taken():
    model = model_of([helper.make_node("Not", ["true"], ["cond"])])
    assert np.array_equal(hbconv.convert(model, backend="reference").transform(ROWS), ROWS / 2)


def test_branches_of_rows_are_refused():
    with pytest.raises(hbconv.UnsupportedError, match="number of rows"):
        hbconv.convert(model_of(of_width("one", axis=0)))
    sums = [
        helper.make_node("ReduceMax", ["X"], ["top"], keepdims=0),
        helper.make_node("Cast", ["top"], ["cond"], to=TensorProto.BOOL),
    ]
    with pytest.raises(hbconv.UnsupportedError):
        hbconv.convert(model_of(sums))
    first = helper.make_node("ReduceMax", ["X"], ["top"], axes=[1])
    least = model_of([first, helper.make_node("Cast", ["top"], ["cond"], to=TensorProto.BOOL)])
    least.opset_import[0].version = 13
    with pytest.raises(hbconv.UnsupportedError, match="If with cond='computed from the rows'"):
        hbconv.convert(least)
