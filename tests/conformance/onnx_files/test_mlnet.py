"""Graphs of ML.NET's form answer as onnxruntime does: many inputs, of text, bools and ints too."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlnet_files import COLUMNS, MODELS, feeds

import hbconv
from hbconv.sources.verification import TOLERANCE

onnxruntime = pytest.importorskip("onnxruntime")


@cache
def answers(name: str) -> dict[str, Any]:
    """Return what onnxruntime answers, by the names of the outputs."""
    session = onnxruntime.InferenceSession(MODELS[name]().SerializeToString())
    given = {port.name: feeds()[port.name] for port in session.get_inputs()}
    names = [port.name for port in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


@cache
def converted(name: str, backend: str = "reference") -> hbconv.Model:
    return hbconv.convert(MODELS[name](), backend=backend)


def frame(*, labelled: bool = False) -> pd.DataFrame:
    """Return the columns in another order, without the label unless it is computed with."""
    made = {}
    for name, values in feeds().items():
        parts = [name] if values.shape[1] == 1 else [f"{name}_{i}" for i in range(values.shape[1])]
        made |= dict(zip(parts, values.T, strict=True))
    if not labelled:
        del made["Label"]
    return pd.DataFrame(made)[sorted(made, reverse=True)]


def require_equal(expected: Any, found: Any) -> None:
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        assert np.array_equal(found, expected)
        return
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE["float32"], atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_every_output_is_answered(name: str):
    expected = answers(name)
    given = {key: values for key, values in feeds().items() if f"{key}.output" in expected}
    found = converted(name).run([*expected], given)
    for values, own in zip(expected.values(), found, strict=True):
        require_equal(values, own)
        assert own.dtype == values.dtype or values.dtype == object


@pytest.mark.parametrize("name", ["binary", "classes", "one_versus_all", "regression"])
@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_frames_without_the_label_are_enough(name: str, backend: str):
    model = converted(name, backend)
    label = "Score" if name == "regression" else "PredictedLabel"
    found = model.predict(frame(labelled=name == "classes"))
    require_equal(answers(name)[f"{label}.output"].ravel(), found)


def test_a_label_that_becomes_a_key_is_asked_for():
    with pytest.raises(hbconv.InputError, match="Columns are missing: 'Label'"):
        converted("classes").predict(frame())


def test_scores_have_their_methods():
    assert converted("binary").parsed.traits.kind == "classifier"
    assert converted("regression").parsed.traits.kind == "regressor"
    scores = answers("one_versus_all")["Score.output"]
    require_equal(scores, converted("one_versus_all").decision_function(frame()))


def test_a_saved_model_passes_columns_on(tmp_path: Any):
    converted("classes").save(tmp_path / "m.hbc")
    loaded = hbconv.load(tmp_path / "m.hbc", backend="reference")
    names = ["Member.output", "Age.output", "PredictedLabel.output"]
    for name, values in zip(names, loaded.run(names, feeds()), strict=True):
        require_equal(answers("classes")[name], values)


def test_rows_beyond_a_type_are_refused():
    rows = frame().assign(Rooms=300)
    with pytest.raises(hbconv.InputError, match="'Rooms' of the ONNX file holds uint8: 0 to 255"):
        converted("binary").predict(rows)
    with pytest.raises(hbconv.InputError, match="Give ints, not floats"):
        converted("binary").predict(frame().assign(Visits=0.5))


def test_all_columns_must_be_fed():
    given = feeds()
    del given["Label"]
    with pytest.raises(hbconv.InputError, match="Input 'Label' is missing"):
        converted("binary").run(None, given)
    assert {*COLUMNS} == {*feeds()}
