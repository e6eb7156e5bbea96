"""Metrics: each request is counted once, whatever fails, and dead processes run no requests."""

from __future__ import annotations

import subprocess
import sys

import pytest
from served import SIGNATURE, Doubling

from hbconv.serve import metrics
from hbconv.serve.metrics import Metrics
from hbconv.serve.routes import Asked
from hbconv.serve.served_model import ServedModel

LINE = 'hbconv_requests_total{model="m",route="predict",status="200"} 3.0'


def test_counts_that_cannot_be_told_are_told_later_and_once(monkeypatch, caplog):
    counted = Metrics()
    counted.begin([ServedModel("m", "1", Doubling(), SIGNATURE, 0)])
    for _ in range(3):
        counted.request("predict", Asked("m", "1"), 200, 0.1)
    counted.request("predict", Asked("m", "1"), 400, 0.1)

    def fail(*labels):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(counted._seconds, "labels", fail)
        for _ in range(3):
            counted.publish(0)
        assert "Too many open files" in caplog.text
    for _ in range(2):
        counted.publish(0)
    text = counted.text().decode()
    assert LINE in text
    assert 'hbconv_request_seconds_count{model="m",version="1"} 3.0' in text
    assert 'hbconv_refused_seconds_count{model="m",version="1"} 1.0' in text


PROGRAM = """
import os
from hbconv.serve.metrics import Metrics
counted = Metrics()
counted.publish(7)
if os.fork() == 0:
    counted.publish(5)
    os._exit(0)
os.wait()
print(counted.text().decode())
"""


def test_requests_of_a_dead_process_run_no_more(tmp_path):
    environment = {metrics.METRICS_FOLDER: str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert "hbconv_requests_running 7.0" in done.stdout
    assert len(list(tmp_path.glob("gauge_live*.db"))) == 1


@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_process_is_forgotten_once(tmp_path, monkeypatch, error):
    """Another user may have its number, and another worker may forget it at the same time."""
    file = tmp_path / "gauge_livesum_12345.db"
    file.touch()

    def ended(process, number):
        assert (process, number) == (12345, 0)
        raise error

    def gone(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(metrics.os, "kill", ended)
    with monkeypatch.context() as patched:
        patched.setattr(metrics.os, "remove", gone)
        metrics._forget_dead(tmp_path)
    assert file.exists()
    metrics._forget_dead(tmp_path)
    assert not file.exists()
