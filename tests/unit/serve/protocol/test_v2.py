"""The Open Inference Protocol over HTTP, asked by httpx; answers are the source's."""

from __future__ import annotations

import json

import numpy as np
import pytest

DATATYPES = {
    "FP64": np.float64,
    "INT64": np.int64,
    "BYTES": object,
    "BOOL": bool,
    "INT32": np.int32,
}


def tensor(name, datatype, values):
    array = np.asarray(values, dtype=object if datatype == "BYTES" else None)
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.tolist()}


def inputs_of(name, rows):
    """Tensors that hold some rows of a source."""
    if name == "mixed":
        return [
            tensor("age", "FP64", rows.age),
            tensor("income", "FP64", rows.income),
            tensor("city", "BYTES", rows.city),
        ]
    if name == "texts":
        return [tensor("x0", "BYTES", rows)]
    return [tensor("X", "FP64", rows)]


def arrays(response):
    assert response.status_code == 200, response.text
    found = {}
    for one in response.json()["outputs"]:
        values = (
            [float(v) if isinstance(v, str) else v for v in one["data"]]
            if one["datatype"].startswith("FP")
            else one["data"]
        )
        found[one["name"]] = np.array(values, DATATYPES[one["datatype"]]).reshape(one["shape"])
    return found


def expected(source, name, rows):
    """The source's answers, under the names of the outputs."""
    estimator = source.estimator
    if name == "targets":
        first, second = estimator.predict_proba(rows)
        return {
            "predict": estimator.predict(rows),
            "predict_proba_0": first,
            "predict_proba_1": second,
        }
    found = {"predict": estimator.predict(rows)}
    if hasattr(estimator, "predict_proba"):
        found["predict_proba"] = estimator.predict_proba(rows)
    if name == "neighbours":
        found["kneighbors_0"], found["kneighbors_1"] = estimator.kneighbors(rows)
    return found


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize("name", ["numbers", "mixed", "targets", "neighbours", "texts"])
def test_answers_are_the_sources(client, sources, name, count):
    source = sources[name]
    rows = source.rows[:count]
    want = expected(source, name, rows)
    body = {"inputs": inputs_of(name, rows), "outputs": [{"name": output} for output in want]}
    found = arrays(client.post(f"/v2/models/{name}/infer", json=body))
    for output, answer in want.items():
        assert found[output].shape == answer.shape
        if answer.dtype.kind == "f":
            np.testing.assert_allclose(found[output], answer, rtol=1e-12)
        else:
            np.testing.assert_array_equal(found[output], answer)


@pytest.mark.parametrize("name", ["numbers", "mixed", "targets", "neighbours", "texts"])
def test_metadata_tell_what_comes(client, sources, name):
    told = client.get(f"/v2/models/{name}").json()
    rows = sources[name].rows[:3]
    chosen = [{"name": one["name"]} for one in told["outputs"]]
    body = {"inputs": inputs_of(name, rows), "outputs": chosen}
    found = client.post(f"/v2/models/{name}/infer", json=body).json()
    outputs = {one["name"]: one for one in found["outputs"]}
    assert [one["name"] for one in told["outputs"]] == list(outputs)
    for one in told["outputs"]:
        assert one["datatype"] == outputs[one["name"]]["datatype"]
        assert [3, *one["shape"][1:]] == outputs[one["name"]]["shape"]
    assert {one["name"] for one in told["inputs"]} == {one["name"] for one in inputs_of(name, rows)}
    assert (told["name"], told["versions"]) == (name, ["1"])


def test_no_rows_have_an_empty_answer(client):
    inputs = [{"name": "X", "datatype": "FP64", "shape": [0, 4], "data": []}]
    found = client.post("/v2/models/numbers/infer", json={"inputs": inputs}).json()
    assert [one["data"] for one in found["outputs"]] == [[]] * len(found["outputs"])


def test_chosen_outputs_come_in_their_order(client, sources):
    request = {
        "id": "mine",
        "inputs": inputs_of("numbers", sources["numbers"].rows[:2]),
        "outputs": [{"name": "predict_proba"}, {"name": "predict"}],
    }
    found = client.post("/v2/models/numbers/versions/1/infer", json=request).json()
    assert [one["name"] for one in found["outputs"]] == ["predict_proba", "predict"]
    assert (found["id"], found["model_name"], found["model_version"]) == ("mine", "numbers", "1")


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "INT64", "UINT16", "FP16", "BOOL"])
def test_values_that_convert_exactly_are_taken(client, sources, datatype):
    rows = [[True, False, True, True]] if datatype == "BOOL" else [[3, 0, 1, 2]]
    inputs = [{"name": "X", "datatype": datatype, "shape": [1, 4], "data": rows}]
    found = arrays(client.post("/v2/models/numbers/infer", json={"inputs": inputs}))
    answer = sources["numbers"].estimator.predict_proba(np.array(rows, float))
    np.testing.assert_allclose(found["predict_proba"], answer, rtol=1e-12)


def test_ints_that_a_float_does_not_hold_are_refused(client):
    inputs = [{"name": "X", "datatype": "INT64", "shape": [1, 4], "data": [2**53 + 1, 0, 0, 0]}]
    found = client.post("/v2/models/numbers/infer", json={"inputs": inputs})
    assert found.status_code == 400
    assert "9007199254740993 as int64, which float64 does not hold exactly" in found.text


def test_infinity_is_a_word_in_json(client, sources):
    rows = np.array([[1e200, 0.0, 0.0, 0.0]])  # one product overflows; of two the sum may be NaN
    found = client.post("/v2/models/huge/infer", json={"inputs": inputs_of("huge", rows)}).json()
    with np.errstate(over="ignore"):
        answer = sources["huge"].estimator.predict(rows)
    assert np.isinf(answer)
    assert found["outputs"][0]["data"] == ["Infinity" if answer > 0 else "-Infinity"]


def test_nan_is_refused_as_the_source_does(client):
    inputs = [{"name": "X", "datatype": "FP64", "shape": [1, 4], "data": [0.5, "NaN", 0.5, None]}]
    found = client.post("/v2/models/numbers/infer", json={"inputs": inputs})
    assert found.status_code == 400
    assert found.json()["error"].startswith("InputError: Input X contains NaN")


def binary(name, datatype, shape, data):
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape,
        "parameters": {"binary_data_size": len(data)},
    }, data


def post_binary(client, model, tensors, length=None, **document):
    heads, blobs = zip(*tensors, strict=True)
    head = json.dumps({"inputs": list(heads), **document}).encode()
    told = {"Inference-Header-Content-Length": str(len(head) if length is None else length)}
    return client.post(f"/v2/models/{model}/infer", content=head + b"".join(blobs), headers=told)


def test_binary_tensors_in_and_out(client, sources):
    rows = sources["mixed"].rows[:2]
    names = [one.encode() for one in rows.city]
    texts = b"".join(len(one).to_bytes(4, "little") + one for one in names)
    tensors = [
        binary("age", "FP64", [2], rows.age.to_numpy().tobytes()),
        binary("income", "FP64", [2, 1], rows.income.to_numpy().tobytes()),
        binary("city", "BYTES", [2], texts),
    ]
    outputs = [
        {"name": "predict", "parameters": {"binary_data": True}},
        {"name": "predict_proba", "parameters": {"binary_data": True}},
        {"name": "decision_function"},
    ]
    found = post_binary(client, "mixed", tensors, outputs=outputs)
    assert found.status_code == 200, found.text
    length = int(found.headers["inference-header-content-length"])
    head = json.loads(found.content[:length])
    labels, probabilities, scores = head["outputs"]
    assert "data" in scores
    assert "data" not in labels
    size = labels["parameters"]["binary_data_size"]
    answer = sources["mixed"].estimator
    said = b"".join(len(one).to_bytes(4, "little") + one.encode() for one in answer.predict(rows))
    assert found.content[length : length + size] == said
    values = np.frombuffer(found.content[length + size :]).reshape(probabilities["shape"])
    np.testing.assert_allclose(values, answer.predict_proba(rows), rtol=1e-12)


@pytest.mark.parametrize("data", [b"", b"\0" * 31, b"\0" * 33, b"\0" * 64])
def test_binary_data_of_another_size_are_refused(client, data):
    found = post_binary(client, "numbers", [binary("X", "FP64", [1, 4], data)])
    assert found.status_code == 400
    assert f"Input 'X' has {len(data)} bytes of data" in found.text


@pytest.mark.parametrize("size", [-1, 33, 1 << 70, True, 1.5, "32"])
def test_sizes_that_lie_are_refused(client, size):
    head = {
        "name": "X",
        "datatype": "FP64",
        "shape": [1, 4],
        "parameters": {"binary_data_size": size},
    }
    found = post_binary(client, "numbers", [(head, b"\0" * 32)])
    assert found.status_code == 400
    assert "binary_data_size is" in found.text


def test_bytes_left_over_are_refused(client):
    found = post_binary(
        client,
        "numbers",
        [
            binary("X", "FP64", [1, 4], b"\0" * 32),
            ({"name": "y", "datatype": "FP64", "shape": [0], "data": []}, b"extra"),
        ],
    )
    assert found.status_code == 400
    assert "5 bytes of binary data belong to no input" in found.text


@pytest.mark.parametrize("length", ["-1", "1.5", "X", "999999", "9" * 40, "٣"])
def test_header_lengths_that_lie_are_refused(server, length):
    import http.client

    connection = http.client.HTTPConnection(server.address)
    connection.putrequest("POST", "/v2/models/numbers/infer")
    connection.putheader("Content-Length", "2")
    connection.putheader("Inference-Header-Content-Length", length.encode())
    connection.endheaders(b"{}")
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x05\0\0\0Rome", "ends beyond"),
        (b"\x01\0\0", "the length of element 0 is cut off"),
        (b"\xff\xff\xff\xffRome", "ends beyond"),
        (b"\x01\0\0\0\xff", "element 0 is not UTF-8"),
        (b"\x01\0\0\0a\x01\0\0\0b", "does not hold the 1 elements"),
        (b"", "holds 0 elements, and its shape 1"),
    ],
)
def test_damaged_texts_are_refused(client, data, why):
    tensors = [
        binary("age", "FP64", [1], b"\0" * 8),
        binary("income", "FP64", [1], b"\0" * 8),
        binary("city", "BYTES", [1], data),
    ]
    found = post_binary(client, "mixed", tensors)
    assert found.status_code == 400
    assert why in found.text


def test_bytes_that_are_no_bools_are_refused(client):
    found = post_binary(client, "numbers", [binary("X", "BOOL", [1, 4], b"\0\1\2\0")])
    assert found.status_code == 400
    assert "a byte that is no bool" in found.text


def test_the_server_and_its_health(client):
    assert client.get("/v2").json()["name"] == "hbconv"
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").status_code == 200
    assert client.get("/v2/models/numbers/ready").status_code == 200
    assert client.get("/v2/models/numbers/versions/1/ready").status_code == 200
    assert client.head("/v2/health/ready").status_code == 200
