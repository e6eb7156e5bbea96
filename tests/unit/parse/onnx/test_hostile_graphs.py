"""Whole graphs that ask for all memory, for other files or for no answer end in a named error."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hbconv

ROWS = np.ones((2, 3), np.float32)


def model_of(nodes: list[Any], constants: dict[str, Any], width: int = 3) -> ModelProto:
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, width])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "hostile", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def node(kind: str, *names: str, **attributes: Any) -> Any:
    *given, made = names
    return helper.make_node(kind, given, [made], **attributes)


def doubled(kind: str, first: str, times: int, **attributes: Any) -> list[Any]:
    """Return a chain of operators that read the one before twice; the last is ``y``."""
    names = [first, *(f"t{i}" for i in range(times - 1)), "y"]
    return [node(kind, a, a, b, **attributes) for a, b in pairwise(names)]


def summed(*nodes: Any) -> list[Any]:
    """Return operators whose constant ``c`` is added up, and its sum to the rows."""
    return [*nodes, node("ReduceSum", "c", "sum"), node("Add", "X", "sum", "y")]


MANY = np.ones((1, 20_000), np.float32)
TOO_LARGE = {
    "rows that double": model_of(doubled("Concat", "X", 40, axis=1), {}),
    "a constant a hundred times": model_of(
        summed(node("Concat", *["a"] * 100, "c", axis=0)), {"a": np.zeros(1 << 20, np.float32)}
    ),
    "products of all columns": model_of(
        [node("Reshape", "X", "wide", "a"), node("Reshape", "X", "high", "b"), node("Mul", "a", "b", "y")],
        {"wide": [-1, 1, 9000], "high": [-1, 9000, 1]},
        9000,
    ),
    "products of all constants": model_of(
        summed(node("Mul", "a", "b", "c")), {"a": MANY, "b": MANY.T}
    ),
    "a constant of a billion": model_of(
        summed(node("OneHot", "a", "depth", "values", "c")),
        {"a": [0], "depth": 10**9, "values": [0.0, 1.0]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_memory_does_not_hold_is_refused(what: str):
    with pytest.raises(hbconv.ConversionError, match=r"takes up to|any size"):
        hbconv.convert(TOO_LARGE[what])


def test_long_chains_are_answered():
    """A sum of hundreds of parts is no damage."""
    model = hbconv.convert(model_of(doubled("Add", "X", 120), {}), backend="reference")
    assert np.array_equal(model.transform(ROWS), np.ldexp(ROWS, 120))


def test_names_made_twice_and_cycles_are_refused():
    twice = [node("Neg", "X", "a"), node("Abs", "X", "a"), node("Neg", "a", "y")]
    with pytest.raises(hbconv.ConversionError, match="makes 'a', which is there already"):
        hbconv.convert(model_of(twice, {}))
    with pytest.raises(hbconv.ConversionError, match="makes 'X', which is there already"):
        hbconv.convert(model_of([node("Neg", "X", "X"), node("Neg", "X", "y")], {}))
    cycle = [node("Add", "X", "b", "a"), node("Neg", "a", "b"), node("Neg", "a", "y")]
    with pytest.raises(hbconv.ConversionError, match="which nothing before it makes"):
        hbconv.convert(model_of(cycle, {}))


@pytest.mark.parametrize("width", [-1, 1 << 40])
def test_widths_that_are_none(width: int):
    with pytest.raises(hbconv.ConversionError, match=r"does not tell|columns"):
        hbconv.convert(model_of([node("Neg", "X", "y")], {}, width))


def outside(location: str, *, attribute: bool = False) -> ModelProto:
    """Return a model whose weights lie in another file."""
    tensor = TensorProto(name="w", data_type=1, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    model = model_of([node("Add", "X", "w", "y")], {})
    if attribute:
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    else:
        model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize("attribute", [False, True])
def test_a_model_in_memory_reads_no_file(
    attribute: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "w.bin").write_bytes(ROWS[0].tobytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hbconv.UnsupportedError, match="data_location='EXTERNAL'"):
        hbconv.convert(outside("w.bin", attribute=attribute))


def test_a_file_reads_only_beside_itself(tmp_path: Path):
    (tmp_path / "in").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        (folder / "w.bin").write_bytes(ROWS[0].tobytes())
    path = tmp_path / "in" / "m.onnx"
    onnx.save(outside("w.bin"), path)
    assert np.array_equal(hbconv.convert(path, backend="reference").transform(ROWS), ROWS * 2)
    for location in ("../w.bin", str(tmp_path / "w.bin")):
        path.write_bytes(outside(location).SerializeToString())
        with pytest.raises(hbconv.ConversionError, match=r"m.onnx cannot be read"):
            hbconv.convert(path)
