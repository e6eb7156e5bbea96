"""The server as a process: how it starts and ends, whom it answers, and what it shows."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import sleep

import httpx
import numpy as np
import pytest
from raw_http import get, talking

from hbconv.cli import main

TOKEN = "0123456789abcdef"


def predict(url, rows, **options):
    return httpx.post(f"{url}/v1/models/numbers:predict", json=rows, timeout=60, **options)


def test_many_clients_get_their_own_answers(server, sources):
    source = sources["numbers"]

    def ask(seed):
        rows = np.random.default_rng(seed).normal(size=(1 + seed % 7, 4))
        with httpx.Client(base_url=server.url, timeout=60) as client:
            for _ in range(5):
                found = client.post("/v1/models/numbers:predict", json=rows.tolist()).json()
        shares = [one["predict_proba"]["True"] for one in found["predictions"]]
        np.testing.assert_allclose(shares, source.estimator.predict_proba(rows)[:, 1], rtol=1e-12)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(48)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_are_answered_when_the_server_ends(starting, folder, number):
    served = starting(folder / "numbers.hbc", "--batch-delay-ms", "3000")
    path = f"{served.url}/v1/models/numbers:predict"
    with httpx.Client(timeout=60) as client, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.post, path, json=[[1, 2, 3, i]]) for i in range(8)]
        while "hbconv_requests_running 8.0" not in client.get(f"{served.url}/metrics").text:
            sleep(0.02)
        assert not any(one.done() for one in asked)
        assert served.stop(number) == 0
        assert " ERROR " not in served.log.read_text()  # no worker died at the end
        assert [one.result().status_code for one in asked] == [200] * 8
        assert all(one.result().headers["connection"] == "close" for one in asked)
    with pytest.raises(httpx.ConnectError):
        httpx.get(served.url)


def connect_again_and_again(address):
    while True:
        with suppress(ConnectionResetError), socket.create_connection(address):
            sleep(0.01)


def test_connections_are_refused_at_once_when_the_server_ends(starting, folder):
    served = starting(folder / "numbers.hbc", "--workers", "2")
    host, _, port = served.address.partition(":")
    with talking(served.address) as kept:  # as a pool of clients has; it is waited for
        kept.send(get(b"/v2/health/live"))
        assert kept.answer()[0] == 200
        served.process.send_signal(signal.SIGTERM)
        with pytest.raises(ConnectionRefusedError):
            connect_again_and_again((host, int(port)))
        assert served.process.poll() is None
        assert kept.is_closed()
    assert served.process.wait(60) == 0


def test_a_token(starting, folder, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    served = starting(folder / "numbers.hbc", "--token-file", file)
    rows = [[1, 2, 3, 4]]
    for header in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}):
        found = predict(served.url, rows, headers=header)
        assert (found.status_code, found.headers["www-authenticate"]) == (401, "Bearer")
    model = "/v2/models/numbers"
    for path in ("/metrics", "/openapi.json", "/v2", model, f"{model}/ready", "/v2/models/x/ready"):
        assert httpx.get(served.url + path).status_code == 401
    for path in ("/", "/v2/health/live", "/v2/health/ready"):
        assert httpx.get(served.url + path).status_code == 200
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert predict(served.url, rows, headers=bearer).status_code == 200
    assert "securitySchemes" in httpx.get(f"{served.url}/openapi.json", headers=bearer).text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not there")
def test_tls_and_a_token_of_the_environment(starting, folder, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", key, "-out", certificate,
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    served = starting(
        folder / "numbers.hbc", "--certificate", certificate, "--key", key,
        environment={"HBCONV_TOKEN": TOKEN},
    )  # fmt: skip
    assert served.url.startswith("https://")
    trust = ssl.create_default_context(cafile=str(certificate))
    rows = [[1, 2, 3, 4]]
    assert predict(served.url, rows, verify=trust).status_code == 401
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert predict(served.url, rows, verify=trust, headers=bearer).status_code == 200


def test_a_name(starting, folder):
    served = starting(folder / "numbers.hbc", "--name", "mine", "--host", "127.0.0.1")
    assert httpx.get(f"{served.url}/v2/models/mine").json()["name"] == "mine"
    assert httpx.get(f"{served.url}/v2/models/numbers").status_code == 404


def test_the_page_and_what_it_reads(client):
    page = client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "http://" not in page.text
    assert "https://" not in page.text
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            example = content.get("application/json", {}).get("example")
            found = client.request(method, path, json=example)
            controls = "parameters" in operation and "Start it with --control" in found.text
            assert found.status_code == 200 or controls, found.text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nothing.hbc"], "No file nothing.hbc"),
        (["model.pkl"], "hbconv convert --allow-pickle model.pkl -o model.hbc"),
        (["damaged.hbc"], "damaged.hbc: The model file is damaged"),
        (["short"], "short is no model"),
        (["empty"], "There is no model in empty"),
        (["a b.hbc"], "cannot be part of an address"),
        (["twice"], "are both version 1 of 'one'"),
        (["empty", "--name", "x"], "--name renames one model file"),
        (["damaged.hbc", "--certificate", "x"], "both --certificate and --key"),
        (["damaged.hbc", "--token-file", "short"], "16 or more"),
        (["damaged.hbc", "--token-file", "none"], "No file none"),
        (["damaged.hbc", "--certificate", "none", "--key", "short"], "No file none"),
        (["damaged.hbc", "--certificate", "short", "--key", "short"], "are no certificate in PEM"),
        (["damaged.hbc", "--allowed-host", ""], "--allowed-host names no host"),
        (["damaged.hbc", "--host", "999.1.1.1"], "Cannot listen on 999.1.1.1"),
    ],
)
def test_servers_that_do_not_start_say_why(arguments, why, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("damaged.hbc", "a b.hbc"):
        (tmp_path / name).write_bytes(b"PK\3\4 of manifest.json")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(0))
    (tmp_path / "short").write_bytes(b"x")
    for folder in ("empty", "twice/one"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "twice/one.hbc").write_bytes(b"x")
    (tmp_path / "twice/one/1.hbc").write_bytes(b"x")
    wanted = 1 if why.endswith("is damaged") else 2
    assert main(["serve", *arguments, "--port", "0", "--json"]) == wanted
    assert why in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("--port", "80801", "they go from 0 to 65,535"),
        ("--grpc-port", "-1", "they go from 0 to 65,535"),
        ("--timeout", "0", "no positive number"),
        ("--timeout", "nan", "no positive number"),
        ("--batch-delay-ms", "-1", "no number of milliseconds"),
        ("--max-rows", "0", "no whole number from 1"),
    ],
)
def test_numbers_that_mean_nothing_are_wrong_use(flag, value, why, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "m.hbc", flag, value])
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--port", "--grpc-port"])
def test_a_port_in_use_is_wrong_use(flag, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hbc").write_bytes(b"PK\3\4 of manifest.json")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "m.hbc", "--port", "0", flag, str(port), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)["error"]
    assert told.startswith(f"Cannot listen on 127.0.0.1:{port}: Address already in use. Choose")


def test_a_method_that_the_model_lacks_is_wrong_use(folder, capsys):
    asked = ["serve", str(folder / "numbers.hbc"), "--port", "0", "--methods", "apply", "--json"]
    assert main(asked) == 2
    assert "the model has none of them" in json.loads(capsys.readouterr().out)["error"]


def test_the_server_imports_neither_pandas_nor_pyarrow(folder):
    """Nor any library that models are fitted with."""
    script = (
        "import sys, hbconv.serve.processes.supervisor, hbconv.cli.serve\n"
        "heavy = {'pandas', 'pyarrow', 'sklearn', 'torch', 'tvm', 'onnx', 'scipy', 'polars'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout == "[]\n"
