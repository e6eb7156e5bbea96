"""Metrics of the server, for Prometheus."""

from __future__ import annotations

import os
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from hbconv.serve.served_model import ServedModel

__all__ = ["CONTENT_TYPE_LATEST", "METRICS_FOLDER", "Metrics"]

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that names the folder where the processes of a server count together."""

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536)


class Metrics:
    """What the server counts.

    Names of models that it does not have are not counted by name, so that no client can make the
    metrics grow.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "hbconv_requests",
            "Requests by route, model and status",
            ["route", "model", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "hbconv_request_seconds",
            "Time from the first byte of a request for answers to its answer",
            ["model"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._batches = Histogram(
            "hbconv_batch_rows",
            "Rows that are computed together",
            ["model", "version"],
            buckets=ROWS,
            registry=self.registry,
        )
        # A child is looked up slowly; there are as many as models, routes and statuses.
        self._request = cache(self._requests.labels)
        self._time = cache(self._seconds.labels)
        self._batch = cache(self._batches.labels)
        self.running = Gauge(
            "hbconv_requests_running",
            "Requests that are read, wait or are computed",
            registry=self.registry,
            multiprocess_mode="livesum",
        )

    def request(self, route: str, model: str, status: int, seconds: float) -> None:
        """Count a request, and time it where it asked a model."""
        self._request(route, model, str(status)).inc()
        if model and status == 200:
            self._time(model).observe(seconds)

    def batch(self, served: ServedModel, rows: int) -> None:
        """Count a batch."""
        self._batch(served.name, served.version).observe(rows)

    def text(self) -> bytes:
        """Return the metrics in the format of Prometheus, of all processes together."""
        folder = os.environ.get(METRICS_FOLDER)
        if folder is None:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return generate_latest(together)
