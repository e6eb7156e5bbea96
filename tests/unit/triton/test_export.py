"""Repositories for Triton: folders, versions, and what config.pbtxt tells, read by its own parser."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from fitted import fit, labels, matrix, rows, table
from google.protobuf import text_format
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tritonclient.grpc import model_config_pb2

import hbconv
from hbconv.backends.torch.jit import load
from hbconv.errors import BackendError, OptionError, StoreError

DTYPES = {
    model_config_pb2.TYPE_FP32: np.float32,
    model_config_pb2.TYPE_FP64: np.float64,
    model_config_pb2.TYPE_INT64: np.int64,
    model_config_pb2.TYPE_STRING: np.object_,
}


def model(name: str, **options: Any) -> hbconv.Model:
    return hbconv.convert(fit(name), "reference", sample=rows(name)[:2], **options)


def config_of(folder: Any) -> Any:
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def told(tensor: Any) -> tuple[str, Any, list[int], bool]:
    return (
        tensor.name,
        DTYPES[tensor.data_type],
        list(tensor.dims),
        tensor.HasField("reshape") and not list(tensor.reshape.shape),
    )


def batch(config: Any, sent: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return what a backend is given of a batch of requests, as the config tells Triton."""
    given = []
    for tensor in config.input:
        name, dtype, dims, flat = told(tensor)
        values = sent[name]
        assert (values.dtype, list(values.shape[1:])) == (dtype, dims)
        given.append(values.reshape(len(values)) if flat else values)
    return given


def test_torchscript_takes_what_the_config_tells(tmp_path):
    model("mixed").export(tmp_path / "repo", format="triton", name="churn")
    config = config_of(tmp_path / "repo/churn")
    assert (config.name, config.backend, config.max_batch_size) == ("churn", "pytorch", 65536)
    assert [told(tensor) for tensor in config.input] == [
        ("x", np.float64, [2], False),
        ("colour", np.object_, [1], True),
    ]
    assert [told(tensor) for tensor in config.output] == [
        ("predict__0", np.int64, [1], True),
        ("predict_proba__1", np.float64, [3], False),
        ("predict_log_proba__2", np.float64, [3], False),
    ]
    assert config.dynamic_batching.max_queue_delay_microseconds == 100
    assert [(g.count, g.kind) for g in config.instance_group] == [
        (1, model_config_pb2.ModelInstanceGroup.KIND_CPU)
    ]
    assert config.parameters["INFERENCE_MODE"].string_value == "true"
    interface = json.loads(config.parameters["hbconv.json"].string_value)
    assert interface["outputs"][0]["classes"] == [["high", "low", "middle"]]

    program = load(str(tmp_path / "repo/churn/1/model.pt"))
    assert [a.name for a in program.forward.schema.arguments[1:]] == ["x", "colour"]
    x = table()[:9]
    numbers, texts = batch(
        config,
        {"x": x[["age", "fare"]].to_numpy(), "colour": x[["colour"]].to_numpy(object)},
    )
    answers = program(torch.tensor(numbers), texts.tolist())
    for answer, tensor in zip(answers, config.output, strict=True):
        _, dtype, dims, flat = told(tensor)
        assert answer.numpy().dtype == dtype
        assert list(answer.shape[1:]) == ([] if flat else dims)
    np.testing.assert_array_equal(answers[1].numpy(), fit("mixed").predict_proba(x))


@pytest.mark.parametrize("name", ["mixed", "linear"])
def test_onnx_takes_what_the_config_tells(tmp_path, name):
    model(name).export(tmp_path, format="triton", file=".onnx")
    config = config_of(tmp_path / "model")
    assert config.backend == "onnxruntime"
    session = onnxruntime.InferenceSession(tmp_path / "model/1/model.onnx")
    x = rows(name)[:5]
    sent = {
        t.name: x[[t.name]].to_numpy(object if t.name == "colour" else float)
        if name == "mixed"
        else x
        for t in config.input
    }
    given = dict(zip(sent, batch(config, sent), strict=True))
    answers = session.run([t.name for t in config.output], given)
    for answer, tensor in zip(answers, config.output, strict=True):
        _, dtype, dims, flat = told(tensor)
        assert answer.dtype == dtype
        assert list(answer.shape[1:]) == ([] if flat else dims)
    assert answers[0].tolist() == fit(name).predict(x).tolist()


def test_the_python_form_holds_every_model_that_takes_tensors(tmp_path):
    """Also one whose texts become tokens; its labels are text."""
    texts = np.array(["red apple", "green pear", "red pear"] * 4)
    source = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["a", "b", "c"] * 4)
    hbconv.convert(source, "reference", sample=texts).export(
        tmp_path, format="triton", file=".hbc", name="words"
    )
    config = config_of(tmp_path / "words")
    assert config.backend == "python"
    assert [told(tensor) for tensor in config.input] == [("x0", np.object_, [1], False)]
    assert told(config.output[0]) == ("predict", np.object_, [1], True)
    assert {p.name for p in (tmp_path / "words/1").iterdir()} == {"model.py", "model.hbc"}


@pytest.mark.parametrize(("device", "gpus"), [("cuda", []), ("cuda:1", [1])])
def test_instances_of_a_model_for_the_gpu_run_there(tmp_path, device, gpus):
    model("forest").export(tmp_path, format="triton", device=device)
    (group,) = config_of(tmp_path / "model").instance_group
    assert (group.kind, list(group.gpus)) == (model_config_pb2.ModelInstanceGroup.KIND_GPU, gpus)
    program = load(str(tmp_path / "model/1/model.pt"))
    np.testing.assert_allclose(
        program(torch.tensor(matrix()))[1].numpy(), fit("forest").predict_proba(matrix())
    )


def test_an_export_adds_a_version(tmp_path):
    for _ in range(3):
        model("linear").export(tmp_path, format="triton", name="m")
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["1", "2", "3", "config.pbtxt"]
    with pytest.raises(StoreError, match="give the model another name"):
        model("forest").export(tmp_path, format="triton", name="m")
    with pytest.raises(StoreError, match="give the model another name"):
        model("linear").export(tmp_path, format="triton", name="m", file=".onnx")
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "config.pbtxt",
        *["model.pt"] * 3,
    ]


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    dicts = [{"a": 1.0}, {"b": 2.0}]
    neighbours = hbconv.convert(KNeighborsClassifier(2).fit(matrix(), labels()), "reference")
    assert set(neighbours.methods) > set(neighbours.parsed.exported)
    empty = OneHotEncoder().fit(np.array([["a", None], ["b", np.nan]], object))
    for source, file, message in (
        (DictVectorizer().fit(dicts), ".hbc", "no tensors of mappings"),
        (DictVectorizer().fit(dicts), ".pt", "become tokens"),
        (empty, ".hbc", "has missing values"),
        (empty, ".pt", "has missing values"),
    ):
        with pytest.raises(BackendError, match=message):
            hbconv.convert(source, "reference").export(tmp_path, format="triton", file=file)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tritn"}, "Did you mean 'triton'"),
        ({"format": "triton", "file": ".onx"}, "Did you mean '.onnx'"),
        ({"format": "triton", "name": "../m"}, "does not name a folder"),
        ({"format": "triton", "name": ""}, "does not name a folder"),
        ({"format": "triton", "device": "gpu"}, "device"),
        ({"format": "triton", "device": "cuda", "file": ".hbc"}, "does not run on 'cuda'"),
        ({"name": "m"}, "has no option 'name'"),
    ],
)
def test_unknown_options_are_refused(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        model("linear").export(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []
