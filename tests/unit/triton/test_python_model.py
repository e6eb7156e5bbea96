"""The class for Triton's python backend, given requests as the server gives them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fitted import fit, labels, matrix, table
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.triton.python_model import TritonPythonModel

NUMPY = {"TYPE_STRING": np.object_, "TYPE_FP64": np.float64, "TYPE_INT64": np.int64}


@dataclass
class Tensor:
    name: str
    values: np.ndarray

    def as_numpy(self) -> np.ndarray:
        return self.values


@dataclass
class Request:
    tensors: dict[str, np.ndarray]
    methods: list[str]

    def requested_output_names(self) -> list[str]:
        return self.methods


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Export a model, and load it as the backend does."""
    backend = SimpleNamespace(
        Tensor=Tensor,
        TritonError=str,
        InferenceResponse=lambda output_tensors, error=None: SimpleNamespace(
            answers={t.name: t.values for t in output_tensors}, error=error
        ),
        get_input_tensor_by_name=lambda request, name: Tensor(name, request.tensors[name]),
        triton_string_to_numpy=NUMPY.__getitem__,
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend)

    def load(source: Any, sample: Any) -> TritonPythonModel:
        hbconv.convert(source, "reference", sample=sample).export(
            tmp_path, format="triton", file=".hbc"
        )
        config = (tmp_path / "model/config.pbtxt").read_text()
        outputs = [
            {"name": line.split('"')[1], "data_type": line.split("data_type: ")[1].split()[0]}
            for line in config.splitlines()
            if line.startswith("output")
        ]
        made = TritonPythonModel()
        made.initialize(
            {
                "model_repository": str(tmp_path / "model"),
                "model_version": "1",
                "model_instance_kind": "CPU",
                "model_instance_device_id": "0",
                "model_config": json.dumps({"output": outputs}),
            }
        )
        return made

    return load


def request(x: Any, *methods: str) -> Request:
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        return Request({"X": x}, list(methods))
    tensors = {
        name: x[[name]].to_numpy(float)
        if x[name].dtype.kind == "f"
        else np.array([[t.encode() if isinstance(t, str) else b""] for t in x[name]], object)
        for name in x
    }
    return Request(tensors, list(methods))


def test_requests_are_answered_together(serve):
    made = serve(fit("mixed"), table()[:2])
    first, second = made.execute(
        [request(table()[:3], "predict_proba"), request(table()[3:8], "predict", "predict_proba")]
    )
    np.testing.assert_array_equal(
        first.answers["predict_proba"], fit("mixed").predict_proba(table()[:3])
    )
    assert list(first.answers) == ["predict_proba"]
    assert [b.decode() for b in second.answers["predict"]] == fit("mixed").predict(
        table()[3:8]
    ).tolist()


def test_one_bad_request_harms_no_other(serve):
    bad = matrix()[:2].copy()
    bad[1, 3] = np.nan
    good = request(matrix()[:4], "predict_proba")
    first, second, third = serve(fit("linear"), matrix()[:2]).execute(
        [good, request(bad, "predict"), good]
    )
    assert "NaN" in second.error
    assert second.answers == {}
    for response in (first, third):
        assert response.error is None
        np.testing.assert_allclose(
            response.answers["predict_proba"], fit("linear").predict_proba(matrix()[:4])
        )


def test_requests_are_answered_alone_where_rows_answer_for_each_other(serve):
    """IterativeImputer fills a row without values otherwise beside others than alone."""
    rows = np.where(np.arange(60).reshape(20, 3) % 7 == 0, np.nan, matrix()[:20, :3])
    made = serve(IterativeImputer(random_state=0).fit(rows), rows[:2])
    lone, good = (request(x, "transform") for x in (np.full((1, 3), np.nan), matrix()[:4, :3]))
    first, second = made.execute([lone, good])
    assert first.error == made.execute([lone])[0].error
    assert "All rows hold only missing values" in first.error
    np.testing.assert_array_equal(second.answers["transform"], matrix()[:4, :3])


def test_the_empty_text_stands_for_missing_values(serve):
    frame = table()[["colour"]].copy()
    frame.loc[::5, "colour"] = np.nan
    source = OneHotEncoder(handle_unknown="ignore").fit(frame)
    (response,) = serve(source, frame).execute([request(frame, "transform")])
    np.testing.assert_array_equal(response.answers["transform"], source.transform(frame).toarray())


def test_texts_of_documents(serve):
    texts = np.array(["red äpple", "green pear", "red pear"] * 4)
    source = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["a", "b", "c"] * 4)
    given = np.array([[t.encode()] for t in texts], object)
    (response,) = serve(source, texts).execute([Request({"x0": given}, ["predict"])])
    assert [b.decode() for b in response.answers["predict"]] == source.predict(texts).tolist()


@pytest.mark.parametrize("count", [1, 5])
def test_lists_of_arrays_stand_side_by_side(serve, count):
    y = np.stack([labels() == "low", labels()], 1).astype(str)
    source = MultiOutputClassifier(DecisionTreeClassifier(max_depth=3)).fit(matrix(), y)
    x = matrix()[:count]
    (response,) = serve(source, matrix()[:2]).execute([request(x, "predict", "predict_proba")])
    np.testing.assert_array_equal(
        response.answers["predict_proba"], np.hstack(source.predict_proba(x))
    )
    found = [[b.decode() for b in row] for row in response.answers["predict"]]
    assert found == source.predict(x).tolist()
