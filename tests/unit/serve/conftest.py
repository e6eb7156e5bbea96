"""Servers of a few small models, as a user starts them: ``hbconv serve`` in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv

READY = re.compile(r"Serving .* on (https?)://[^:]*:(\d+)(?:, gRPC on \S*:(\d+))?")


@dataclass
class Served:
    """A running server."""

    process: subprocess.Popen
    url: str
    log: Path
    grpc: str

    @property
    def address(self):
        return self.url.partition("://")[2]

    def stop(self, number=signal.SIGTERM):
        """End it, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


def start(*arguments, log, environment=None):
    """Start a server on a free port, and wait until it is ready."""
    command = [sys.executable, "-m", "hbconv", "serve", *map(str, arguments), "--port", "0"]
    with log.open("w") as said:
        process = subprocess.Popen(
            command,
            stderr=said,
            stdout=said,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {}),
        )
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        found = READY.search(log.read_text())
        if found:
            url = f"{found[1]}://127.0.0.1:{found[2]}"
            return Served(process, url, log, f"127.0.0.1:{found[3]}")
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"The server did not start: {log.read_text()}")


@pytest.fixture
def starting(tmp_path):
    """Start servers that end with the test."""
    started = []

    def _start(*arguments, **options):
        log = tmp_path / f"{len(started)}.log"
        started.append(start(*arguments, log=log, **options))
        return started[-1]

    yield _start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()


@dataclass
class Source:
    """A fitted estimator, and rows for it."""

    estimator: object
    rows: object


def numbers(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 4))
    return Source(LogisticRegression().fit(rows, rows[:, 0] > rows[:, 1]), rows)


def mixed():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "age": rng.integers(18, 80, 60).astype(float),
            "income": rng.normal(50, 10, 60),
            "city": rng.choice(["Rome", "Oslo", "Łódź"], 60),
            "unused": rng.normal(size=60),
        }
    )
    prepare = make_column_transformer(
        (StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["city"])
    )
    labels = np.where(rows.age + rows.income > 100, "yes", "no")
    return Source(make_pipeline(prepare, LogisticRegression()).fit(rows, labels), rows)


def texts():
    rows = ["red green", "green blue", "blue red red", "yellow"]
    estimator = make_pipeline(CountVectorizer(), MultinomialNB()).fit(rows, [0, 1, 0, 1])
    return Source(estimator, rows)


def targets():
    rows = numbers().rows
    labels = np.stack([rows[:, 0] > 0, (rows[:, 1] > 0) + (rows[:, 2] > 0) * 1], axis=1)
    return Source(RandomForestClassifier(4, random_state=0).fit(rows, labels * 1), rows)


def neighbours():
    rows = numbers().rows
    return Source(KNeighborsClassifier(3).fit(rows, rows[:, 0] > 0), rows)


def huge():
    rows = numbers().rows
    return Source(LinearRegression().fit(rows, rows[:, 0] * 1e150), rows)


def mappings():
    rows = [{"a": 1.0, "b": 2.0}, {"a": 3.0}, {"c": "x"}]
    estimator = make_pipeline(DictVectorizer(), LogisticRegression()).fit(rows, [0, 1, 1])
    return Source(estimator, rows)


SOURCES = {
    "numbers": numbers,
    "mixed": mixed,
    "texts": texts,
    "mappings": mappings,
    "targets": targets,
    "neighbours": neighbours,
    "huge": huge,
}


@pytest.fixture(scope="session")
def sources():
    return {name: make() for name, make in SOURCES.items()}


@pytest.fixture(scope="session")
def folder(sources, tmp_path_factory):
    """A folder of the models, saved."""
    found = tmp_path_factory.mktemp("models")
    for name, source in sources.items():
        hbconv.convert(source.estimator, backend="reference").save(found / f"{name}.hbc")
    return found


@pytest.fixture(scope="session")
def server(folder, tmp_path_factory):
    """A server of all models, with small limits."""
    limits = (
        "--max-rows",
        "2000",
        "--max-body-mb",
        "1",
        "--max-answer-mb",
        "1",
        "--grpc-port",
        "0",
    )
    log = tmp_path_factory.mktemp("server") / "log"
    served = start(folder, *limits, log=log)
    yield served
    assert served.process.poll() is None, "a test ended the server"
    assert served.stop() == 0


@pytest.fixture(scope="session")
def client(server):
    with httpx.Client(base_url=server.url, timeout=60) as found:
        yield found
