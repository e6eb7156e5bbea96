"""Files whose input is a mapping answer as onnxruntime does, mapping by mapping."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline

import hbconv

onnxruntime = pytest.importorskip("onnxruntime")

TYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
TEXT = TensorProto.STRING
INT = TensorProto.INT64
ROWS = [{"a": 1.5, "z": 2}, {"b": -3, "a": True}, {"a": float("nan"), "b": 1e39}, {"c": 4.0}]


def model_of(kind: str, key: int = TEXT, dtype: str = "float32", **attributes: Any) -> ModelProto:
    value = helper.make_tensor_type_proto(TYPES[dtype], [])
    given = helper.make_value_info("X", helper.make_map_type_proto(key, value))
    node = helper.make_node(kind, ["X"], ["y"], domain="ai.onnx.ml", **attributes)
    out = TYPES["int64" if attributes.get("cast_to") == "TO_INT64" else dtype]
    made = helper.make_tensor_value_info("y", out, None)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "maps", [given], [made])
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def require_as_runtime(model: ModelProto, rows: list[dict[Any, Any]]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = np.concatenate([session.run(None, {"X": row})[0] for row in rows])
    converted = hbconv.convert(model, backend="reference")
    (found,) = converted.run(None, {"X": rows})
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(converted.run(None, {"X": rows[0]})[0], expected[:1])
    np.testing.assert_array_equal(converted.transform(rows), expected)


def test_known_names_have_a_column():
    require_as_runtime(model_of("DictVectorizer", string_vocabulary=["b", "a", "c"]), ROWS)
    numbered = [{1: 1.5}, {0: 3, 7: 2}, {np.int64(-4): np.float32(0.5)}]
    require_as_runtime(model_of("DictVectorizer", INT, int64_vocabulary=[0, -4, 1]), numbered)


@pytest.mark.parametrize("to", ["TO_FLOAT", "TO_INT64"])
def test_positions_are_columns(to: str):
    model = model_of("CastMap", INT, cast_to=to, map_form="SPARSE", max_map=3)
    require_as_runtime(model, [{1: 1.5}, {0: 3.7, 7: 2.0}, {2: -2.7, 0: -0.4}])
    with pytest.raises(hbconv.InputError, match="got the name -1"):
        hbconv.convert(model, backend="reference").transform([{-1: 1.0}])


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_values_of_other_types(dtype: str):
    """Python cannot feed these to onnxruntime; the standard says what they are."""
    model = hbconv.convert(model_of("DictVectorizer", dtype=dtype, string_vocabulary=["b", "a"]))
    found = model.transform([{"a": 2**53 - 1, "q": 1}, {"b": 3}])
    assert found.dtype == dtype
    assert found.tolist() == [[0, 2**53 - 1], [3, 0]]


@pytest.mark.parametrize("row", [{"a": "x"}, {"a": None}, {1: 2.0}, {b"a": 1.0}, "a", 3])
def test_other_mappings_are_refused(row: Any):
    model = hbconv.convert(
        model_of("DictVectorizer", string_vocabulary=["a", "b"]), backend="reference"
    )
    with pytest.raises(hbconv.InputError):
        model.transform([row])


def test_ints_take_no_floats():
    model = model_of("DictVectorizer", dtype="int64", string_vocabulary=["a", "b"])
    with pytest.raises(hbconv.InputError, match="reads int64, and got"):
        hbconv.convert(model, backend="reference").transform([{"a": 1.5}])


@cache
def exported() -> tuple[Any, list[dict[str, float]]]:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType

    rows = [{"a": float(i % 3), "b": i * 7 % 5.0} if i % 2 else {"d": float(i)} for i in range(40)]
    forest = RandomForestClassifier(5, max_depth=4, random_state=0)
    source = make_pipeline(DictVectorizer(sparse=False), forest)
    source.fit(rows, [i % 3 for i in range(40)])
    given = [("X", DictionaryType(StringTensorType([1]), FloatTensorType([])))]
    return to_onnx(source, initial_types=given, target_opset={"": 18, "ai.onnx.ml": 3}), rows


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
def test_exports_take_lists_of_mappings(backend: str):
    model, rows = exported()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = [session.run(None, {"X": row}) for row in rows]
    labels, maps = hbconv.convert(model, backend=backend).run(None, {"X": rows})
    assert labels.tolist() == [label for (label,), _ in expected]
    for (own,), found in zip((maps for _, maps in expected), maps, strict=True):
        assert [*own] == [*found]
        np.testing.assert_allclose([*found.values()], [*own.values()], rtol=1e-6)


def test_saved_models_read_mappings(tmp_path: Any):
    model, rows = exported()
    converted = hbconv.convert(model, backend="reference")
    converted.save(tmp_path / "m.hbc")
    loaded = hbconv.load(tmp_path / "m.hbc", backend="reference")
    assert np.array_equal(loaded.predict(rows), converted.predict(rows))


def test_what_is_not_answered_is_named():
    dense = model_of("CastMap", INT, cast_to="TO_FLOAT", map_form="DENSE")
    with pytest.raises(hbconv.UnsupportedError, match="CastMap with map_form='DENSE'"):
        hbconv.convert(dense)
    texts = model_of("CastMap", INT, cast_to="TO_STRING", map_form="SPARSE", max_map=2)
    with pytest.raises(hbconv.UnsupportedError, match="cast_to='TO_STRING'"):
        hbconv.convert(texts)
    beside = model_of("DictVectorizer", string_vocabulary=["a", "b"])
    beside.graph.input.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None, 1]))
    with pytest.raises(hbconv.UnsupportedError, match="must be the only input"):
        hbconv.convert(beside)
