"""Real clients: tritonclient over HTTP, curl."""

from __future__ import annotations

import json
import shutil
import subprocess

import numpy as np
import pytest

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
