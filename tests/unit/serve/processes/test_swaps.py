"""Models that change while requests come, versions side by side, workers and processes that die."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sklearn.dummy import DummyRegressor

import hbconv

ROW = [[0.0, 0.0]]


def save(path, answer):
    """Save a model that answers always the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = DummyRegressor(strategy="constant", constant=answer).fit([[0.0, 1.0]], [0.0])
    hbconv.convert(source, backend="reference").save(path)


def ask(url, name="m"):
    return answer_of(httpx.post(f"{url}/v1/models/{name}:predict", json=ROW, timeout=60))


def answer_of(response):
    assert response.status_code == 200, response.text
    return response.json()["predictions"][0]["predict"]


def until(true, seconds=60):
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.05)


@contextmanager
def asking(url, clients=4):
    """Ask all the time, over connections that are kept; yield the answers and the failures."""
    answers, failures, stop = Counter(), [], threading.Event()

    def run():
        with httpx.Client(base_url=url, timeout=60) as client:
            while not stop.is_set():
                try:
                    answers[answer_of(client.post("/v1/models/m:predict", json=ROW))] += 1
                except (httpx.HTTPError, AssertionError) as error:
                    failures.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers, failures
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def children(parent):
    """Process ids of the children of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def workers(served):
    return [
        worker for generation in children(served.process.pid) for worker in children(generation)
    ]


def test_versions_stand_side_by_side(starting, tmp_path):
    for version in (2, 9, 10):
        save(tmp_path / f"models/m/{version}.hbc", float(version))
    save(tmp_path / "models/other.hbc", 0.0)
    url = starting(tmp_path / "models").url
    assert ask(url) == 10.0
    assert [ask(url, f"m/versions/{version}") for version in (2, 9, 10)] == [2.0, 9.0, 10.0]
    assert ask(url, "other") == 0.0
    assert httpx.get(f"{url}/v2/models/m").json()["versions"] == ["10", "2", "9"]


@pytest.mark.parametrize("count", [1, 2])
def test_a_swap_loses_no_request(starting, tmp_path, count):
    folder = tmp_path / "models"
    save(folder / "m.hbc", 0.0)
    url = starting(folder, "--workers", count).url
    with asking(url) as (answers, failures):
        for number in (1.0, 2.0):
            save(folder / "m.hbc", number)
            until(lambda number=number: answers[number] > 10)
    assert failures == []
    assert set(answers) == {0.0, 1.0, 2.0}
    assert ask(url) == 2.0


def test_models_come_and_go(starting, tmp_path):
    folder = tmp_path / "models"
    save(folder / "m.hbc", 0.0)
    served = starting(folder)
    save(folder / "n.hbc", 1.0)
    until(lambda: httpx.get(f"{served.url}/v2/models/n").status_code == 200)
    (folder / "n.hbc").unlink()
    until(lambda: httpx.get(f"{served.url}/v2/models/n").status_code == 404)
    assert ask(served.url) == 0.0


def test_a_damaged_file_harms_no_model(starting, tmp_path):
    folder = tmp_path / "models"
    save(folder / "m.hbc", 0.0)
    served = starting(folder)
    (folder / "bad.hbc").write_bytes(b"PK")
    until(lambda: "The models go on as they were" in served.log.read_text())
    assert ask(served.url) == 0.0
    save(folder / "m.hbc", 1.0)
    save(folder / "bad.hbc", 2.0)
    until(lambda: ask(served.url) == 1.0)
    assert ask(served.url, "bad") == 2.0


def test_clients_load_and_unload(starting, tmp_path):
    triton = pytest.importorskip("tritonclient.http", reason="tests/clients.txt is not installed")
    folder = tmp_path / "models"
    save(folder / "m.hbc", 0.0)
    save(folder / "n.hbc", 1.0)
    served = starting(folder, "--control")
    with triton.InferenceServerClient(served.address) as client:

        def states():
            index = client.get_model_repository_index()
            return {one["name"]: one["state"] for one in index}

        assert states() == {"m": "READY", "n": "READY"}
        client.unload_model("n")
        assert states() == {"m": "READY", "n": "UNAVAILABLE"}
        assert not client.is_model_ready("n")
        assert client.is_model_ready("m")
        save(folder / "m.hbc", 5.0)
        until(lambda: ask(served.url) == 5.0)
        assert states()["n"] == "UNAVAILABLE"
        client.load_model("n")
        assert states() == {"m": "READY", "n": "READY"}
        assert ask(served.url, "n") == 1.0
        with pytest.raises(triton.InferenceServerException, match="no file of a model 'x'"):
            client.load_model("x")
        with pytest.raises(triton.InferenceServerException, match="There is no model 'x'"):
            client.unload_model("x")
        with pytest.raises(triton.InferenceServerException, match="from its files alone"):
            client.load_model("n", config='{"backend": "python"}')
        client.unload_model("m")
        client.unload_model("n")
        assert client.is_server_ready()
    ready = httpx.post(f"{served.url}/v2/repository/index", json={"ready": True})
    assert ready.json() == []


def test_clients_may_not_load_unless_told(client):
    for action in ("load", "unload"):
        found = client.post(f"/v2/repository/models/numbers/{action}")
        assert (found.status_code, "--control" in found.text) == (403, True)
    index = client.post("/v2/repository/index").json()
    assert {"name": "numbers", "version": "1", "state": "READY", "reason": ""} in index


def test_a_killed_worker_is_replaced(starting, tmp_path):
    save(tmp_path / "m.hbc", 3.0)
    served = starting(tmp_path / "m.hbc", "--workers", 2)
    before = workers(served)
    assert len(before) == 2
    with asking(served.url, clients=4) as (answers, failures):
        until(lambda: answers[3.0] > 50)
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(set(workers(served)) - {before[0]}) == 2)
        asked = answers[3.0]
        until(lambda: answers[3.0] > asked + 50)
    assert set(answers) == {3.0}
    assert len(failures) <= 4, failures  # one that it held, or a connection it kept, a client
    assert served.stop() == 0


def test_metrics_of_all_workers_are_one(starting, tmp_path):
    save(tmp_path / "m.hbc", 3.0)
    served = starting(tmp_path / "m.hbc", "--workers", 2)
    for _ in range(20):
        ask(served.url)
    line = 'hbconv_requests_total{model="m",route="predict",status="200"} 20.0'
    until(lambda: line in httpx.get(f"{served.url}/metrics").text)
    for _ in range(4):
        assert line in httpx.get(f"{served.url}/metrics").text


def test_a_killed_generation_is_started_again(starting, tmp_path):
    save(tmp_path / "m.hbc", 3.0)
    served = starting(tmp_path / "m.hbc")
    (generation,) = children(served.process.pid)
    (worker,) = children(generation)
    os.kill(generation, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{worker}").exists())
    until(lambda: workers(served) not in ([], [worker]))
    assert ask(served.url) == 3.0


def test_nothing_stays_when_the_supervisor_is_killed(starting, tmp_path):
    save(tmp_path / "m.hbc", 3.0)
    served = starting(tmp_path / "m.hbc", "--workers", 2)
    others = [*children(served.process.pid), *workers(served)]
    assert len(others) == 3
    served.process.kill()
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in others))
    assert "Traceback" not in served.log.read_text()


def test_a_server_that_is_ended_while_it_starts(tmp_path):
    """It ends at once, with its processes."""
    import subprocess
    import sys

    save(tmp_path / "m.hbc", 3.0)
    command = [sys.executable, "-m", "hbconv", "serve", str(tmp_path / "m.hbc"), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    until(lambda: children(process.pid) != [])
    (generation,) = children(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, 143)
    until(lambda: not Path(f"/proc/{generation}").exists())


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
def test_workers_of_each_backend(starting, folder, sources, backend, tmp_path):
    """Processes share what was compiled before they were forked."""
    shutil.copy(folder / "numbers.hbc", tmp_path / "numbers.hbc")
    served = starting(tmp_path / "numbers.hbc", "--workers", 2, "--backend", backend)
    rows = sources["numbers"].rows
    for _ in range(4):
        found = httpx.post(f"{served.url}/v1/models/numbers:predict", json=rows.tolist())
        labels = [one["predict"] for one in found.json()["predictions"]]
        assert labels == sources["numbers"].estimator.predict(rows).tolist()
