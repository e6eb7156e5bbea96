"""Clients of a soak: they ask in three forms, and compare each answer with those of the sources."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

COLUMNS = 28
MOST_ROWS = 20
PATHS = ("/v1/models/m:predict", "/v2/models/m/infer")
Ask = tuple[str, bytes, dict[str, str]]


class Client(threading.Thread):
    """Asks over a connection that is kept, in three forms, and compares the answers.

    Parameters
    ----------
    port : int
    sources : list
        The models that may answer.
    counts : Counter
        What became of the requests.
    seed : int
    """

    def __init__(self, port: int, sources: list[Any], counts: Counter[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.rng = np.random.default_rng(seed)
        self.port = port
        self.counts = counts
        self.sources = sources
        self.ended = threading.Event()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        """Ask until the end."""
        rows = self.rng.normal(size=(MOST_ROWS, COLUMNS))
        answers = [source.predict_proba(rows) for source in self.sources]
        while not self.ended.is_set():
            start, stop = sorted(self.rng.choice(MOST_ROWS + 1, 2, replace=False))
            form, read = FORMS[self.rng.integers(len(FORMS))]
            found = self._ask(*form(rows[start:stop]))
            if found is not None:
                expected = [answer[start:stop] for answer in answers]
                right = any(np.array_equal(read(*found), one) for one in expected)
                self.counts["right" if right else "wrong"] += 1
        self.connection.close()

    def _ask(self, *request: Any) -> tuple[bytes, http.client.HTTPMessage] | None:
        """Ask, and once more where the connection is cut."""
        for outcome in ("cut", "lost"):
            try:
                self.connection.request("POST", *request)
                found = self.connection.getresponse()
                body = found.read()
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.counts[outcome] += 1
                continue
            if found.status == 200:
                return body, found.headers
            self.counts["refused"] += 1
            return None
        return None


def records(rows: np.ndarray) -> Ask:
    """Return a request of records."""
    body = {"instances": rows.tolist(), "outputs": ["predict_proba"]}
    return PATHS[0], json.dumps(body).encode(), {}


def read_records(body: bytes, headers: http.client.HTTPMessage) -> np.ndarray:
    """Return the shares of an answer to records."""
    found = json.loads(body)["predictions"]
    return np.array([list(one["predict_proba"].values()) for one in found])


def tensors(rows: np.ndarray) -> Ask:
    """Return a request of tensors as JSON."""
    tensor = {"name": "X", "datatype": "FP64", "shape": rows.shape, "data": rows.ravel().tolist()}
    body = {"inputs": [tensor], "outputs": [{"name": "predict_proba"}]}
    return PATHS[1], json.dumps(body).encode(), {}


def read_tensors(body: bytes, headers: http.client.HTTPMessage) -> np.ndarray:
    """Return the shares of an answer as JSON."""
    found = json.loads(body)["outputs"][0]
    return np.array(found["data"]).reshape(found["shape"])


def binary(rows: np.ndarray) -> Ask:
    """Return a request of binary tensors."""
    size = {"parameters": {"binary_data_size": rows.nbytes}}
    tensor = {"name": "X", "datatype": "FP64", "shape": rows.shape} | size
    output = {"name": "predict_proba", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [tensor], "outputs": [output]}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    return PATHS[1], head + rows.tobytes(), length


def read_binary(body: bytes, headers: http.client.HTTPMessage) -> np.ndarray:
    """Return the shares of a binary answer."""
    data = body[int(headers["Inference-Header-Content-Length"]) :]
    return np.frombuffer(data).reshape(-1, 3)


FORMS: list[tuple[Callable[[np.ndarray], Ask], Callable[..., np.ndarray]]] = [
    (records, read_records),
    (tensors, read_tensors),
    (binary, read_binary),
]
