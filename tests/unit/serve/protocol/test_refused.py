"""Requests that are refused: each with its status and a reason, and the server goes on."""

from __future__ import annotations

import gzip
import json
import socket
import zlib

import pytest

GOOD = {"inputs": [{"name": "X", "datatype": "FP64", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


def changed(**changes):
    return {"inputs": [GOOD["inputs"][0] | changes]}


def post(client, body, **options):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post("/v2/models/numbers/infer", content=content, **options)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON"),
        (b'{"inputs": [', "no JSON"),
        (b'{"inputs": [\xff]}', "no JSON"),
        (b'{"inputs": NaN}', """near '{"inputs": NaN}'. Write "NaN" in quotes, or null"""),
        (b"[" * 100_000, "no JSON"),
        (b'{"a":' * 50_000, "no JSON"),
        (b"[]", "no JSON object with a list"),
        ({"inputs": {}}, "no JSON object with a list"),
        ({"inputs": [1]}, '"inputs" is no list of objects'),
        ({"inputs": []}, "Inputs are missing: 'X'"),
        (changed(name="y"), "Unknown inputs: 'y'"),
        (changed(name=None), "has no name"),
        ({"inputs": GOOD["inputs"] * 2}, "is there twice"),
        (changed(datatype="FP65"), "has datatype 'FP65'"),
        (changed(datatype=["FP64"]), "has datatype"),
        (changed(datatype="BF16"), "has datatype 'BF16'"),
        (changed(shape=[-1, 4]), "no shape of a tensor"),
        (changed(shape=[1 << 62, 4]), "no shape of a tensor"),
        (changed(shape=[1 << 39, 1 << 39]), "no shape of a tensor"),
        (changed(shape=[1.0, 4]), "no shape of a tensor"),
        (changed(shape=[True, 4]), "no shape of a tensor"),
        (changed(shape=[]), "no shape of a tensor"),
        (changed(shape=None), "no shape of a tensor"),
        (changed(shape=[1] * 9), "no shape of a tensor"),
        (changed(shape=[2, 4]), "the data holds 4 values, and its shape [2, 4] 8"),
        (changed(shape=[1 << 30, 4]), "1073741824 rows, and the server takes 2000"),
        (changed(shape=[1, 1 << 30]), "the data holds 4 values"),
        (changed(shape=[1, 1 << 30], datatype="BYTES"), "1073741824 rows, and the server takes 2000"),
        (changed(shape=[4]), "has shape [4]; the model takes [-1, 4]"),
        (changed(shape=[4, 1]), "has shape [4, 1]; the model takes [-1, 4]"),
        (changed(data=None), "has no list of data"),
        (changed(data=[[1, 2, 3], [4]]), "do not have its shape"),
        (changed(data=[[[1], 2, 3, 4]]), "element 0 is [1]"),
        (changed(data=[1, 2, 3, "4"]), "element 3 is '4'"),
        (changed(data=[1, 2, 3, {}]), "element 3 is {}"),
        (changed(data=[1, 2, 3, True]), "element 3 is True"),
        (changed(datatype="INT64", data=[1, 2, 3, 4.5]), "element 3 is 4.5"),
        (changed(datatype="UINT8", data=[1, 2, 3, 256]), "exceeds uint8"),
        (changed(datatype="FP32", data=[1, 2, 3, 1e39]), "exceeds float32"),
        (changed(datatype="BYTES", data=["1", "2", "3", "4"]), "holds text"),
        (changed(datatype="BYTES", data=["1", "2", "3", 4]), "Input 'X': element 3 is 4, where texts"),
        (changed(parameters={"shared_memory_region": "a"}), "shared memory is not supported"),
        (changed(parameters=[1]), "no JSON object"),
        (GOOD | {"outputs": [{"name": "predic"}]}, "Did you mean 'predict'"),
        (GOOD | {"outputs": [{"name": "predict"}] * 2}, "named twice"),
        (GOOD | {"outputs": [{"name": "predict", "parameters": {"classification": 2}}]}, "extension"),
        (GOOD | {"outputs": 3}, "no list of objects"),
        (GOOD | {"id": 3}, "is no text"),
    ],
)  # fmt: skip
def test_bad_requests_have_their_reason(client, body, why):
    found = post(client, body)
    assert found.status_code == 400, found.text
    assert why in found.json()["error"]
    assert post(client, GOOD).status_code == 200


def test_too_many_rows(client):
    found = post(client, changed(shape=[2001, 4], data=[0] * 8004))
    assert found.status_code == 400
    assert "2001 rows, and the server takes 2000" in found.text


def test_answers_that_are_too_large(client):
    inputs = [{"name": "X", "datatype": "FP64", "shape": [2000, 4], "data": [0] * 8000}]
    document = {"inputs": inputs, "outputs": [{"name": "kneighbors_0"}]}
    assert client.post("/v2/models/neighbours/infer", json=document).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/numbers/infer", 405),
        ("POST", "/v2/models/numbers", 405),
        ("DELETE", "/v2/models/numbers", 405),
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/none/ready", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("GET", "/v2/models/numbers/versions/2", 404),
        ("GET", "/v2/models/numbers/versions/x/ready", 404),
        ("POST", "/v1/models/none:predict", 404),
        ("POST", "/v1/models/numbers/x:predict", 404),
        ("POST", "/v1/models/:predict", 404),
        ("GET", "/v3", 404),
        ("GET", "/v2/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/v2/models/%2e%2e%2fx", 404),
    ],
)
def test_other_paths_and_methods(client, method, path, status):
    found = client.request(method, path)
    assert found.status_code == status
    assert found.json()["error"]


def test_bodies_that_are_too_large(client):
    assert post(client, b" " * ((1 << 20) + 1)).status_code == 413


def test_chunked_bodies_that_are_too_large(client):
    found = client.post("/v2/models/numbers/infer", content=(b" " * 65536 for _ in range(17)))
    assert found.status_code == 413


@pytest.mark.parametrize("packed", [gzip.compress, zlib.compress])
def test_packed_bodies(client, packed):
    name = "gzip" if packed is gzip.compress else "deflate"
    body = packed(json.dumps(GOOD).encode())
    assert post(client, body, headers={"Content-Encoding": name}).status_code == 200
    assert post(client, body[:-5], headers={"Content-Encoding": name}).status_code == 400
    assert post(client, b"{}", headers={"Content-Encoding": name}).status_code == 400
    bomb = packed(b" " * (1 << 24))
    assert post(client, bomb, headers={"Content-Encoding": name}).status_code == 413


def test_other_packings(client):
    found = post(client, b"{}", headers={"Content-Encoding": "br"})
    assert (found.status_code, "br is not known" in found.text) == (415, True)


def test_pages_of_other_sites_may_not_ask(client, server):
    assert post(client, GOOD, headers={"Origin": "https://evil.example"}).status_code == 403
    assert post(client, GOOD, headers={"Origin": "null"}).status_code == 403
    assert post(client, GOOD, headers={"Origin": server.url}).status_code == 200


def talk(server, sent):
    """Send bytes, close the sending side, and return all that comes."""
    host, _, port = server.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        received = b""
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(65536):
                received += data
        except OSError:  # The server closed the connection first.
            pass
        return received


HEAD = b"POST /v2/models/numbers/infer HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 100,
        b"GET",
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + b"Content-Length: abc\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        HEAD + b"Content-Length: 10\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"X: " + b"a" * (1 << 20),
        b"GET /v2 HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_broken_http_harms_nobody(server, client, sent):
    assert b"200 OK" not in talk(server, sent) or b"Upgrade" in sent
    assert post(client, GOOD).status_code == 200


def test_two_requests_in_one_packet(server):
    body = json.dumps(GOOD).encode()
    one = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert talk(server, one * 2).count(b"200 OK") == 2
