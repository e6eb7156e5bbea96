"""Real clients: tritonclient over HTTP, httpx as the page shows it, curl."""

from __future__ import annotations

import doctest
import io
import json
import shutil
import subprocess
from contextlib import redirect_stdout

import numpy as np
import pytest
from docs.pages import ROOT, blocks

triton = pytest.importorskip("tritonclient.http", reason="tests/clients.txt is not installed")


@pytest.fixture
def asking(server):
    with triton.InferenceServerClient(server.address) as found:
        yield found


def infer_input(name, array, *, binary):
    datatype = {"f": "FP64", "O": "BYTES"}[array.dtype.kind]
    found = triton.InferInput(name, array.shape, datatype)
    found.set_data_from_numpy(array, binary_data=binary)
    return found


def mixed_inputs(rows, *, binary):
    city = rows.city.to_numpy(dtype=object)
    if binary:
        city = np.array([one.encode() for one in city], object)
    return [
        infer_input("age", rows.age.to_numpy(), binary=binary),
        infer_input("income", rows.income.to_numpy(), binary=binary),
        infer_input("city", city, binary=binary),
    ]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("packing", [None, "gzip", "deflate"])
def test_tritonclient(asking, sources, binary, packing):
    source = sources["mixed"]
    outputs = [
        triton.InferRequestedOutput(name, binary_data=binary)
        for name in ("predict", "predict_proba")
    ]
    found = asking.infer(
        "mixed",
        mixed_inputs(source.rows, binary=binary),
        outputs=outputs,
        request_id="a",
        request_compression_algorithm=packing,
    )
    labels = [one.decode() if isinstance(one, bytes) else one for one in found.as_numpy("predict")]
    assert labels == source.estimator.predict(source.rows).tolist()
    answer = source.estimator.predict_proba(source.rows)
    np.testing.assert_allclose(found.as_numpy("predict_proba"), answer, rtol=1e-12)
    assert found.get_response()["id"] == "a"


def test_tritonclient_with_chosen_outputs(asking, sources):
    source = sources["numbers"]
    inputs = [infer_input("X", source.rows, binary=True)]
    outputs = [triton.InferRequestedOutput(name) for name in ("predict", "decision_function")]
    found = asking.infer("numbers", inputs, outputs=outputs)
    answer = source.estimator.decision_function(source.rows)
    np.testing.assert_allclose(found.as_numpy("decision_function"), answer, rtol=1e-12)
    np.testing.assert_array_equal(found.as_numpy("predict"), source.estimator.predict(source.rows))


def test_tritonclient_asks_for_what_is_there(asking):
    assert asking.is_server_live()
    assert asking.is_server_ready()
    assert asking.is_model_ready("mixed")
    assert asking.is_model_ready("mixed", "1")
    assert asking.get_server_metadata()["name"] == "hbconv"
    told = asking.get_model_metadata("mixed")
    assert [one["name"] for one in told["inputs"]] == ["age", "income", "city"]


def test_tritonclient_is_told_the_configuration(asking):
    told = asking.get_model_config("mixed", "1")
    assert (told["name"], told["max_batch_size"]) == ("mixed", 0)
    assert told["input"][0] == {"name": "age", "data_type": "TYPE_FP64", "dims": [-1]}
    assert told["output"][1] == {"name": "predict_proba", "data_type": "TYPE_FP64", "dims": [-1, 2]}
    assert asking.get_model_config("numbers")["input"][0]["dims"] == [-1, 4]


def test_tritonclient_is_told_statistics(asking, sources):
    rows = sources["huge"].rows

    def told():
        (found,) = asking.get_inference_statistics("huge", "1")["model_stats"]
        kinds = found["inference_stats"]
        return (
            *(found["inference_count"], found["execution_count"]),
            *(kinds["success"]["count"], kinds["success"]["ns"] > 0, kinds["fail"]["count"]),
        )

    rows_before, batches, answered, _, failed = told()
    asking.infer("huge", [infer_input("X", rows, binary=True)])
    with pytest.raises(triton.InferenceServerException):
        asking.infer("huge", [infer_input("X", rows[:, :2], binary=True)])
    assert told() == (rows_before + len(rows), batches + 1, answered + 1, True, failed + 1)
    every = {found["name"] for found in asking.get_inference_statistics()["model_stats"]}
    assert every >= {"huge", "mixed", "numbers"}


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda c: c.get_system_shared_memory_status(), "Shared memory is not supported"),
        (lambda c: c.register_system_shared_memory("a", "/a", 8), "Shared memory is not supported"),
        (lambda c: c.unregister_cuda_shared_memory(), "Shared memory of CUDA is not supported"),
        (lambda c: c.get_trace_settings(), "Traces are not supported"),
        (lambda c: c.update_trace_settings("numbers", {}), "Traces are not supported"),
        (lambda c: c.get_log_settings(), "The log is set at the start"),
        (lambda c: c.load_model("numbers"), "Start it with --control"),
        (lambda c: c.load_model("numbers", config="{}"), "from its files alone"),
        (lambda c: c.unload_model("numbers"), "Start it with --control"),
        (lambda c: c.get_model_config("none"), "There is no model 'none'"),
        (lambda c: c.get_inference_statistics("none"), "There is no model 'none'"),
        (lambda c: c.get_model_metadata("mixed", "7"), "has no version '7'"),
    ],
)
def test_tritonclient_is_told_what_is_absent(asking, ask, why):
    with pytest.raises(triton.InferenceServerException, match=why):
        ask(asking)


def test_tritonclient_lists_models_and_asks_without_waiting(asking, sources):
    index = asking.get_model_repository_index()
    assert {"name": "mixed", "version": "1", "state": "READY", "reason": ""} in index
    source = sources["numbers"]
    waiting = asking.async_infer("numbers", [infer_input("X", source.rows, binary=True)])
    found = waiting.get_result().as_numpy("predict")
    np.testing.assert_array_equal(found, source.estimator.predict(source.rows))


def test_tritonclient_is_told_why(asking, sources):
    with pytest.raises(triton.InferenceServerException, match="Unknown inputs: 'y'"):
        asking.infer("numbers", [infer_input("y", sources["numbers"].rows, binary=True)])


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_curl(server):
    record = json.dumps([{"age": 30, "income": 51.5, "city": "Rome"}])
    address = f"{server.url}/v1/models/mixed:predict"
    found = subprocess.run(
        ["curl", "-s", "--fail", address, "-d", record], capture_output=True, check=True
    )
    assert set(json.loads(found.stdout)["predictions"][0]) == {"predict", "predict_proba"}


def test_the_examples_of_the_page(starting, tmp_path, monkeypatch):
    """They print what the page says, asked of the model that the page makes."""
    monkeypatch.chdir(tmp_path)
    page = list(blocks(ROOT / "docs/serving.md"))
    for block in page:
        if (block.language, block.note) == ("python", ""):
            exec(block.text, {})
    served = starting("model.hbc", "--backend", "reference")
    asked = [i for i, block in enumerate(page) if block.note.startswith("asks ")]
    assert [page[i].note for i in asked] == ["asks httpx", "asks tritonclient"]
    for i in asked:
        with redirect_stdout(io.StringIO()) as printed:
            exec(page[i].text.replace("127.0.0.1:8000", served.address), {})
        same = doctest.OutputChecker().check_output(
            page[i + 1].text, printed.getvalue(), doctest.ELLIPSIS
        )
        assert same, printed.getvalue()
