"""Files of skl2onnx answer as onnxruntime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exported_files import CASES, REFUSED, Case, exported, rows_of

import hbconv
from hbconv.sources.verification import TOLERANCE

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")


def session_of(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def feeds_of(rows: Any) -> dict[str, Any]:
    if not hasattr(rows, "iloc"):
        return {"X": rows}
    columns = {name: rows[[name]].to_numpy() for name in rows}
    return {k: v.astype(object) if v.dtype.kind in "OUT" else v for k, v in columns.items()}


def require_equal(expected: Any, found: Any) -> None:
    if isinstance(expected, list) and not isinstance(expected[0], dict):
        for part, own in zip(expected, found, strict=True):
            require_equal(part, own)
        return
    if isinstance(expected, list):
        assert [list(row) for row in expected] == [list(row) for row in found]
        expected = np.array([list(row.values()) for row in expected])
        found = np.array([list(row.values()) for row in found])
    assert found.shape == expected.shape
    if expected.dtype.kind in "OUib":
        assert np.array_equal(found, expected)
        return
    size = TOLERANCE["float32"]
    np.testing.assert_allclose(found, expected, rtol=size, atol=size)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answers_as_onnxruntime(case: Case):
    model = exported(case)
    feeds = feeds_of(rows_of(case))
    converted = hbconv.convert(model, backend="reference")
    names = [output.name for output in model.graph.output]
    for expected, found in zip(
        session_of(model).run(None, feeds), converted.run(names, feeds), strict=True
    ):
        require_equal(expected, found)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refuses_by_name(case: Case):
    with pytest.raises(hbconv.UnsupportedError, match="is not supported"):
        hbconv.convert(exported(case), backend="reference")


def test_there_are_a_hundred_files():
    assert len(CASES) >= 100


@pytest.mark.parametrize("name", ["RandomForest-two", "GradientBoosting-texts"])
@pytest.mark.parametrize("backend", ["torch", "tvm", "onnx"])
def test_trees_answer_on_backends(name: str, backend: str):
    case = next(case for case in CASES if case.name == name)
    model = exported(case)
    converted = hbconv.convert(model, backend=backend)
    rows = rows_of(case)
    label, scores = session_of(model).run(None, {"X": rows})
    assert np.array_equal(converted.predict(rows), label)
    size = 0.0 if "Forest" in name else TOLERANCE["float32"]
    np.testing.assert_allclose(converted.predict_proba(rows), scores, rtol=0, atol=size)


def test_answers_of_several_targets_are_lists(tmp_path: Any):
    case = next(case for case in CASES if case.name == "LogisticLabels")
    rows = rows_of(case)
    label, scores = session_of(exported(case)).run(None, {"X": rows})
    hbconv.convert(exported(case), backend="torch").save(tmp_path / "m.hbc")
    loaded = hbconv.load(tmp_path / "m.hbc", backend="torch")
    assert np.array_equal(loaded.predict(rows), label)
    require_equal(scores, loaded.predict_proba(rows))
    require_equal(scores, loaded.run(["probabilities"], {"X": rows})[0])


def test_saved_models_keep_their_session(tmp_path: Any):
    case = next(case for case in CASES if case.name == "RandomForest-zipmap")
    converted = hbconv.convert(exported(case), backend="reference")
    converted.save(tmp_path / "m.hbc")
    loaded = hbconv.load(tmp_path / "m.hbc")
    rows = rows_of(case)
    (expected,) = converted.run(["output_probability"], {"X": rows})
    assert loaded.run(["output_probability"], {"X": rows}) == [expected]


def test_frames_are_read_by_input_names():
    case = next(case for case in CASES if case.name.startswith("Forest-mixed"))
    converted = hbconv.convert(exported(case), backend="reference")
    rows = rows_of(case)
    (label,) = session_of(exported(case)).run(["output_label"], feeds_of(rows))
    assert np.array_equal(converted.predict(rows[rows.columns[::-1]]), label)
    assert np.array_equal(converted.predict(rows.to_dict("list")), label)


def test_sessions_name_what_is_wrong():
    converted = hbconv.convert(exported(CASES[0]), backend="reference")
    rows = rows_of(CASES[0])
    with pytest.raises(hbconv.InputError, match="There is no input 'x'"):
        converted.run(None, {"x": rows})
    with pytest.raises(hbconv.InputError, match="missing"):
        converted.run(None, {})
    with pytest.raises(hbconv.InputError, match="has shape"):
        converted.run(None, {"X": rows[:, :2]})
    with pytest.raises(hbconv.OptionError, match="Unknown output"):
        converted.run(["labels"], {"X": rows})
