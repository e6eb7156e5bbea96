"""Files with bytes changed at random end in an answer or a named error."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_trees as trees
import pytest
from onnx import ModelProto, TensorProto, helper

import hbconv


def changed(data: bytes, rng: Any) -> bytes:
    """Return the file with a few bytes changed, or cut off."""
    damaged = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
    return bytes(damaged[: int(rng.integers(len(damaged)))] if rng.random() < 0.2 else damaged)


@pytest.mark.parametrize("seed", range(40))
def test_changed_bytes(seed: int, tmp_path: Any):
    rng = np.random.default_rng(seed)
    source = trees.classifier(seed, 3, lambda _: range(3)) if seed % 2 else trees.ensemble(seed)
    path = tmp_path / "m.onnx"
    for _ in range(5):
        path.write_bytes(changed(source.SerializeToString(), rng))
        try:
            hbconv.convert(path, backend="reference").run(None, {"X": trees.rows()})
        except hbconv.HbconvError as error:
            assert str(error)  # noqa: PT017


def one_operator(kind: str, constants: dict[str, Any], **attributes: Any) -> ModelProto:
    """Return a model of one core operator, which reads ``X`` and constants."""
    node = helper.make_node(kind, ["X", *constants], ["y"], **attributes)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [
        helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        for name, values in constants.items()
    ]
    graph = helper.make_graph([node], "one", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


REFUSED = {
    "sums over the rows": one_operator("ReduceSum", {"axes": [0]}),
    "rows in a column": one_operator("Reshape", {"shape": [-1]}),
    "rows cut off": one_operator("Slice", {"starts": [1], "ends": [2], "axes": [0]}),
    "rows repeated": one_operator("Tile", {"repeats": [2, 1]}),
    "a billion columns": one_operator("Tile", {"repeats": [1, 1 << 40]}),
    "an axis that is not there": one_operator("ReduceSum", {"axes": [7]}),
    "an operator that is not read": one_operator("Einsum", {}, equation="ij->i"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_row_by_row_is_refused(what: str):
    with pytest.raises(hbconv.ConversionError):
        hbconv.convert(REFUSED[what])


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomUniform"])
def test_chance_is_refused(kind: str):
    model = one_operator("Identity", {})
    made = helper.make_node(kind, [], ["r"], shape=[3])
    model.graph.node[0].CopyFrom(helper.make_node("Add", ["X", "r"], ["y"]))
    model.graph.node.insert(0, made)
    with pytest.raises(hbconv.UnsupportedError, match="chance"):
        hbconv.convert(model)


def test_a_loop_over_constants_is_refused():
    """It would run for as long as the file says."""
    true, time = (helper.make_tensor(n, t, [], [v]) for n, t, v in (
        ("true", TensorProto.BOOL, True), ("time", TensorProto.INT64, 1)))  # fmt: skip
    given = [helper.make_tensor_value_info("i", TensorProto.INT64, []),
             helper.make_tensor_value_info("go", TensorProto.BOOL, [])]  # fmt: skip
    out = helper.make_tensor_value_info("on", TensorProto.BOOL, [])
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"])], "body", given, [out])
    model = one_operator("Identity", {})
    model.graph.initializer.extend([true, time])
    model.graph.node.insert(0, helper.make_node("Loop", ["time", "true"], ["l"], body=body))
    with pytest.raises(hbconv.UnsupportedError, match="Loop"):
        hbconv.convert(model)
