"""Without uvloop, simdjson and fork, as on Windows, one process serves on asyncio's own loop."""

from __future__ import annotations

import os
import signal

import httpx
import numpy as np
import pytest

from hbconv.errors import OptionError
from hbconv.serve.processes.worker import serve_alone
from hbconv.serve.settings import Settings

TAKE_AWAY = """
import os, signal, socket, sys
sys.modules.update(dict.fromkeys(("uvloop", "simdjson", "fcntl", "resource")))
del os.fork, os.killpg, os.posix_fallocate, socket.SO_REUSEPORT
del signal.SIGCHLD, signal.pthread_sigmask
"""
"""What Windows lacks is gone before anything of hbconv is imported."""


@pytest.fixture
def alone(starting, folder, tmp_path):
    """Start a server on such a system."""
    (tmp_path / "sitecustomize.py").write_text(TAKE_AWAY)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    return lambda *more: starting(folder / "numbers.hbc", *more, environment={"PYTHONPATH": path})


def test_answers_floats_as_the_source(alone, sources):
    served = alone()
    source = sources["numbers"]
    rows = np.repeat(source.rows, 20, axis=0)
    tensor = {"name": "X", "datatype": "FP64", "shape": rows.shape, "data": rows.ravel().tolist()}
    with httpx.Client(base_url=served.url, timeout=60) as client:
        reply = client.post("/v2/models/numbers/infer", json={"inputs": [tensor]}).json()
        metrics = client.get("/metrics").text
    answers = {output["name"]: output["data"] for output in reply["outputs"]}
    assert answers["predict"] == source.estimator.predict(rows).tolist()
    assert 'hbconv_requests_total{model="numbers"' in metrics
    assert served.stop() == 0
    assert "Ended" in served.log.read_text()


def test_ends_by_an_interrupt(alone):
    served = alone()
    assert served.stop(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [(Settings(workers=2), "start several servers"), (Settings(control=True), "start the server")],
    ids=["workers", "control"],
)
def test_what_needs_several_processes_is_refused(settings, said):
    with pytest.raises(OptionError, match=said):
        serve_alone((), settings, None, print)
