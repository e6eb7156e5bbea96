"""Operators answer as onnxruntime where it has rules of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_trees as trees
import pytest
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

import hbconv

onnxruntime = pytest.importorskip("onnxruntime")

ML = {"domain": "ai.onnx.ml"}
NAN = float("nan")
INF = float("inf")
HARD = np.array(
    [[NAN, 1, 2], [1, NAN, 2], [1, 1, NAN], [INF, -INF, 3], [NAN, NAN, NAN], [300, 0, -400]],
    np.float32,
)
PLAIN = np.array([[0.25, -0.5, 1], [0, 2, -1]], np.float32)
SVM = {"n_supports": 1, "support_vectors": [1.0, 2, 3], "kernel_params": [0.5, 0, 3], "rho": [0.1],
       "kernel_type": "RBF", "coefficients": [0.7]}  # fmt: skip


def model_of(
    kind: str, outputs: int = 1, opset: int = 13, ml: int = 3, **attributes: Any
) -> ModelProto:
    """Return a model of one operator; attributes that are arrays become its inputs."""
    stored = {k: v for k, v in attributes.items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in attributes.items() if k not in stored}
    made = ["y", "z"][:outputs]
    node = helper.make_node(kind, ["X", *stored], made, **plain)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 3])
    constants = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph([node], "one", [x], [ValueInfoProto(name=n) for n in made], constants)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", ml)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def require_as_runtime(model: ModelProto, rows: Any) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"X": rows})
    found = hbconv.convert(model, backend="reference").run(None, {"X": rows})
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_transforms_of_one_prediction(transform: str):
    linear = {"coefficients": [0.1, 0.2, 0.3], "intercepts": [0.4]}
    for kind, given in (("LinearRegressor", linear), ("SVMRegressor", SVM)):
        require_as_runtime(model_of(kind, **ML, **given, post_transform=transform), PLAIN)
    if transform != "PROBIT":
        require_as_runtime(trees.regressor(1, post_transform=transform), trees.rows())


@pytest.mark.parametrize(
    "kind", ["Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"]
)
def test_functions_of_angles(kind: str):
    require_as_runtime(model_of(kind), PLAIN)
    require_as_runtime(model_of(kind), HARD / 100)


def test_rests_of_floats_have_the_sign_of_the_number():
    by = np.array([0.3, -0.7, 2.5], np.float32)
    require_as_runtime(model_of("Mod", by=by, fmod=1), np.concatenate([PLAIN, HARD]))


@pytest.mark.parametrize("number", range(5))
def test_numbers_of_transforms(number: int):
    require_as_runtime(trees.ensemble(2, post_transform=number), trees.rows())


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_two_classes_of_one_linear_score(transform: str):
    given = {"coefficients": [0.1, -2, 0.3], "intercepts": [0.04], "classlabels_ints": [3, 7]}
    require_as_runtime(
        model_of("LinearClassifier", 2, **ML, **given, post_transform=transform), PLAIN
    )


def test_largest_score_beside_nan():
    given = {"coefficients": [0.1, -2, 0.3, -0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
             "intercepts": [0.04, 0, 0.1], "classlabels_ints": [4, 5, 6]}  # fmt: skip
    require_as_runtime(model_of("LinearClassifier", 2, **ML, **given), HARD)


HARD_CASES = {
    "ArgMax": model_of("ArgMax", axis=1),
    "ArgMin": model_of("ArgMin", axis=1),
    "LogSoftmax": model_of("LogSoftmax", axis=1),
    "ReduceLogSumExp": model_of("ReduceLogSumExp", axes=[1]),
    "Clip": model_of("Clip", opset=9),
    "Clip from below": model_of("Clip", opset=9, min=0.5),
    "Normalizer": model_of("Normalizer", **ML, norm="MAX"),
    "NaN is no key": model_of("LabelEncoder", **ML, keys_floats=[1, NAN], values_floats=[7.0, 9.0]),
    "NaN is a key": model_of(
        "LabelEncoder", **ML, ml=4, keys_floats=[1, NAN], values_floats=[7.0, 9.0]
    ),
    "Slice to the front": model_of(
        "Slice", a=np.array([1]), b=np.array([-(1 << 63)]), c=np.array([1]), d=np.array([-1])
    ),
    "Slice before the front": model_of(
        "Slice", a=np.array([-9]), b=np.array([-99]), c=np.array([1]), d=np.array([-1])
    ),
    "Gemm without C": model_of(
        "Gemm", w=np.ones((3, 2), np.float32), c=np.full(2, NAN, np.float32), beta=0.0
    ),
}


@pytest.mark.parametrize("what", HARD_CASES)
def test_rows_of_nan_and_infinity(what: str):
    require_as_runtime(HARD_CASES[what], HARD)


def reading_table() -> ModelProto:
    """Return a model that reads a table of three entries at the positions of X."""
    x = helper.make_tensor_value_info("X", TensorProto.INT64, [None, 2])
    node = helper.make_node("Gather", ["t", "X"], ["y"])
    stored = [numpy_helper.from_array(np.array([7, 8, 9], np.float32), "t")]
    graph = helper.make_graph([node], "one", [x], [ValueInfoProto(name="y")], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("backend", ["reference", "tvm", "torch"])
@pytest.mark.parametrize("wrong", [3, -4, 1 << 33])
def test_positions_outside_of_a_table_are_refused(backend: str, wrong: int):
    model = hbconv.convert(reading_table(), backend=backend)
    (found,) = model.run(None, {"X": np.array([[0, 2], [-1, -3]])})
    assert found.tolist() == [[7, 9], [9, 7]]
    with pytest.raises(hbconv.InputError, match="Gather"):
        model.run(None, {"X": np.array([[0, 2], [wrong, 1]])})


def test_large_ints_are_clipped_exactly():
    x = helper.make_tensor_value_info("X", TensorProto.INT64, [None, 3])
    bound = numpy_helper.from_array(np.array(0), "low")
    node = helper.make_node("Clip", ["X", "low"], ["y"])
    graph = helper.make_graph([node], "one", [x], [ValueInfoProto(name="y")], [bound])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    rows = np.array([[2**53 + 1, -3, -(2**63)], [2**63 - 1, 5, 0]])
    (found,) = hbconv.convert(model, backend="reference").run(None, {"X": rows})
    assert np.array_equal(found, np.maximum(rows, 0))


def test_unknown_categories_without_zeros_are_refused():
    model = model_of("OneHotEncoder", **ML, cats_int64s=[0, 2], zeros=0)
    known = np.float32([[0, 2, 2]])
    require_as_runtime(model, known)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match="zeros = 0"):
        session.run(None, {"X": known + 1})
    with pytest.raises(hbconv.InputError, match="a category that it does not know"):
        hbconv.convert(model, backend="reference").run(None, {"X": known + 1})


@pytest.mark.parametrize("kept", [0, 1, 12])
def test_axes_are_kept_by_one_alone(kept: int):
    require_as_runtime(model_of("ArgMax", axis=1, keepdims=kept), PLAIN)
    require_as_runtime(model_of("ReduceMean", axes=[1], keepdims=kept), PLAIN)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_tells_no_order_of_nan(largest: int):
    model = model_of("TopK", 2, opset=18, k=np.array([2]), largest=largest)
    require_as_runtime(model, PLAIN)
    converted = hbconv.convert(model, backend="reference")
    with pytest.raises(hbconv.InputError, match=r"TopK .* ranks NaN"):
        converted.run(None, {"X": HARD})
