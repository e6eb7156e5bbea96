"""Ints are divided, moved and looked up as onnxruntime does, rows behind one another too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import hbconv

onnxruntime = pytest.importorskip("onnxruntime")

Numbers = npt.NDArray[Any]
Steps = Sequence[tuple[str, list[str], str, dict[str, Any]]]
BACKENDS = ("reference", "torch", "tvm", "onnx")


def model_of(steps: Steps, constants: Mapping[str, Numbers], dtype: int, width: int) -> ModelProto:
    """Return a model of operators: their names, inputs, output and attributes."""
    nodes = [helper.make_node(kind, ins, [out], **given) for kind, ins, out, given in steps]
    stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("X", dtype, [None, width])
    y = helper.make_empty_tensor_value_info(steps[-1][2])
    graph = helper.make_graph(nodes, "ints", [x], [y], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def require_as_runtime(model: ModelProto, rows: Numbers, backend: str = "reference") -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"X": rows})
    (found,) = hbconv.convert(model, backend=backend).run(None, {"X": rows})
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


def ints(dtype: type[np.generic], width: int) -> Numbers:
    """Return ints about zero, about multiples of divisors, and as large as are divided."""
    rng = np.random.default_rng(0)
    most = min(np.iinfo(dtype).max, 2**53) - 1
    near = rng.integers(-40, 40, (60, width))
    multiples = rng.integers(-99, 99, (60, width)) * 7 + rng.integers(-1, 2, (60, width))
    ends = rng.choice([most, -most, most - 1, 1 - most], (60, width))
    large = rng.integers(-most, most, (200, width))
    return np.concatenate([near, multiples, ends, large]).astype(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_ints_are_divided_toward_zero(dtype: type[np.generic], backend: str) -> None:
    steps = [("Div", ["X", "by"], "y", {})]
    by = np.array([2, -3, 7, 2**31 - 1], dtype)
    kind = TensorProto.INT32 if dtype is np.int32 else TensorProto.INT64
    require_as_runtime(model_of(steps, {"by": by}, kind, 4), ints(dtype, 4), backend)


def test_ints_are_divided_by_ints_of_the_rows() -> None:
    steps: Steps = [
        ("Slice", ["X", "zero", "one", "one"], "a", {}),
        ("Slice", ["X", "one", "two", "one"], "b", {}),
        ("Div", ["a", "b"], "y", {}),
    ]
    places = {name: np.array([i]) for i, name in enumerate(("zero", "one", "two"))}
    model = model_of(steps, places, TensorProto.INT64, 2)
    rows = ints(np.int64, 2)
    require_as_runtime(model, rows[rows[:, 1] != 0])
    converted = hbconv.convert(model, backend="reference")
    with pytest.raises(hbconv.InputError, match="divides by 0"):
        converted.run(None, {"X": np.array([[1, 0]])})
    with pytest.raises(hbconv.InputError, match=r"up to 2\*\*53"):
        converted.run(None, {"X": np.array([[2**53 + 1, 1]])})


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rests_of_ints_have_the_sign_of_the_divisor(dtype: type[np.generic], backend: str) -> None:
    by = np.array([2, -3, 7, -(2**31)], dtype)
    kind = TensorProto.INT32 if dtype is np.int32 else TensorProto.INT64
    model = model_of([("Mod", ["X", "by"], "y", {})], {"by": by}, kind, 4)
    require_as_runtime(model, ints(dtype, 4), backend)


def test_rests_of_no_number_are_refused() -> None:
    """The first ends the process of onnxruntime, and the second is none of its operators."""
    model = model_of([("Mod", ["X", "X"], "y", {})], {}, TensorProto.INT64, 2)
    converted = hbconv.convert(model, backend="reference")
    with pytest.raises(hbconv.InputError, match=r"Mod .* divides by 0"):
        converted.run(None, {"X": np.array([[1, 0]])})
    model = model_of([("Mod", ["X", "X"], "y", {})], {}, TensorProto.FLOAT, 2)
    with pytest.raises(hbconv.UnsupportedError, match="fmod=0"):
        hbconv.convert(model)


def test_a_quotient_beyond_its_type_is_refused() -> None:
    """It ends the process of onnxruntime, so that it is not asked."""
    steps = [("Div", ["X", "by"], "y", {})]
    model = model_of(steps, {"by": np.int32([-1, 2])}, TensorProto.INT32, 2)
    least = np.iinfo(np.int32).min
    converted = hbconv.convert(model, backend="reference")
    (found,) = converted.run(None, {"X": np.array([[least + 1, least]], np.int32)})
    assert found.tolist() == [[-(least + 1), least // 2]]
    with pytest.raises(hbconv.InputError, match="quotient beyond int32"):
        converted.run(None, {"X": np.array([[least, 0]], np.int32)})


def test_a_constant_of_zero_divides_nothing() -> None:
    model = model_of([("Div", ["X", "by"], "y", {})], {"by": np.int64(0)}, TensorProto.INT64, 2)
    with pytest.raises(hbconv.ConversionError, match="divides by 0"):
        hbconv.convert(model, backend="reference")


FLAT: Mapping[str, Steps] = {
    "scaled": [
        ("Flatten", ["X"], "f", {"axis": 0}),
        ("Mul", ["f", "two"], "m", {}),
        ("Flatten", ["m"], "g", {}),
        ("Add", ["g", "f"], "a", {}),
    ],
    "chosen": [
        ("Flatten", ["X"], "f", {"axis": 0}),
        ("Cast", ["X"], "n", {"to": TensorProto.INT64}),
        ("Flatten", ["n"], "g", {"axis": 0}),
        ("Gather", ["table", "g"], "t", {"axis": 0}),
        ("GreaterOrEqual", ["f", "t"], "c", {}),
        ("Not", ["c"], "d", {}),
        ("Where", ["d", "t", "two"], "a", {}),
    ],
    "one from the front": [
        ("Reshape", ["X", "line"], "r", {}),
        ("Flatten", ["r"], "f", {"axis": 0}),
        ("Neg", ["f"], "a", {}),
    ],
}
CONSTANTS = {
    "two": np.array([[2.0]], np.float32),
    "table": np.array([5, -1, 0.25, 3], np.float32),
    "line": np.array([-1, 3, 1]),
}
BACK: Steps = [("Shape", ["X"], "s", {}), ("Reshape", ["a", "s"], "y", {})]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FLAT)
def test_rows_behind_one_another_are_computed_with(name: str, backend: str) -> None:
    model = model_of([*FLAT[name], *BACK], CONSTANTS, TensorProto.FLOAT, 3)
    rows = np.random.default_rng(0).uniform(-4, 3.9, (50, 3)).astype(np.float32)
    require_as_runtime(model, rows, backend)
    require_as_runtime(model, rows[:1], backend)


@pytest.mark.parametrize("number", [-5.0, 4.0, 1e9])
def test_positions_outside_are_refused(number: float) -> None:
    model = model_of([*FLAT["chosen"], *BACK], CONSTANTS, TensorProto.FLOAT, 3)
    converted = hbconv.convert(model, backend="reference")
    with pytest.raises(hbconv.InputError, match="reads position -4 to 3, not beyond"):
        converted.run(None, {"X": np.array([[0, 1, number]], np.float32)})


def test_rows_behind_one_another_beside_a_table_of_them_are_refused() -> None:
    """Which constant stands beside which entry depends on the number of rows."""
    steps: Steps = [
        ("Flatten", ["X"], "f", {"axis": 0}),
        ("Add", ["f", "three"], "a", {}),
        *BACK,
    ]
    three = {"three": np.arange(3, dtype=np.float32)}
    with pytest.raises(hbconv.UnsupportedError, match="rows behind one another"):
        hbconv.convert(model_of(steps, three, TensorProto.FLOAT, 3))
