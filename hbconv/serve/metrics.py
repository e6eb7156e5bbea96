"""Metrics of the server, for Prometheus."""

from __future__ import annotations

import logging
import os
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from hbconv.serve.routes import ROUTES, Asked
from hbconv.serve.served_model import ServedModel

__all__ = ["CONTENT_TYPE_LATEST", "METRICS_FOLDER", "Metrics"]

_log = logging.getLogger("hbconv.serve")
_Key = TypeVar("_Key")
_Count = TypeVar("_Count")

METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Variable that names the folder where the processes of a server count together."""

KEPT_BYTES = 64 << 10
"""Room on the disk for counts that come: to write where there is none ends a process."""
# Buckets by 1, 2, 5: a request of a small model takes below a millisecond, a long one seconds.
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ASKING = sorted(route.name for route in ROUTES if route.asks_model)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536)


class _BulkHistogram(Histogram):
    """A histogram that takes many observations at once."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe amounts, as ``observe`` does each of them."""
        array = np.asarray(amounts)
        self._sum.inc(float(array.sum()))
        # The first bound that is not below an amount, as in ``observe``; the last is infinite.
        counts = np.bincount(np.searchsorted(self._upper_bounds, array))
        for bucket in counts.nonzero()[0].tolist():
            self._buckets[bucket].inc(float(counts[bucket]))


class _BulkSummary(Summary):
    """A summary that takes many observations at once."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        """Observe amounts, as ``observe`` does each of them."""
        self._sum.inc(sum(amounts))
        self._count.inc(len(amounts))


class Statistics:
    """How often each version of a model was asked, as Triton reports it.

    Parameters
    ----------
    samples : iterable
        Of the metrics, as ``prometheus_client`` has them.
    """

    def __init__(self, samples: Iterable[Any]) -> None:
        self._values: dict[tuple[str, str | None, str | None], float] = {
            (sample.name, sample.labels.get("model"), sample.labels.get("version")): sample.value
            for sample in samples
        }

    def of(self, asked: Asked) -> dict[str, Any]:
        """Return the statistics of a version, times in nanoseconds."""

        def value(name: str) -> float:
            return self._values.get((f"hbconv_{name}", *asked), 0.0)

        return {
            "name": asked.model,
            "version": asked.version,
            "inference_count": round(value("batch_rows_sum")),
            "execution_count": round(value("batch_rows_count")),
            "inference_stats": {
                kind: {
                    "count": round(value(f"{name}_seconds_count")),
                    "ns": round(value(f"{name}_seconds_sum") * 1e9),
                }
                for kind, name in (("success", "request"), ("fail", "refused"))
            },
        }


class Metrics:
    """What the server counts.

    To count where other processes see it takes as long as to read a small request. So a process
    counts by itself, and publishes its counts together. Names of models that it does not have are
    not counted by name, so that no client can make the metrics grow.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "hbconv_requests",
            "Requests by route, model and status",
            ["route", "model", "status"],
            registry=self.registry,
        )
        self._seconds = _BulkHistogram(
            "hbconv_request_seconds",
            "Time from the first byte of a request for answers to its answer",
            ["model", "version"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._refused = _BulkSummary(
            "hbconv_refused_seconds",
            "Time of requests for answers that are refused or fail",
            ["model", "version"],
            registry=self.registry,
        )
        self._batches = _BulkHistogram(
            "hbconv_batch_rows",
            "Rows that are computed together",
            ["model", "version"],
            buckets=ROWS,
            registry=self.registry,
        )
        self._running = Gauge(
            "hbconv_requests_running",
            "Requests that are read, wait or are computed",
            registry=self.registry,
            multiprocess_mode="livesum",
        )

        self._new_requests: Counts[tuple[str, str, int]] = Counts()
        self._new_seconds: defaultdict[Asked, list[float]] = defaultdict(list)
        self._new_refused: defaultdict[Asked, list[float]] = defaultdict(list)
        self._new_batches: defaultdict[Asked, list[float]] = defaultdict(list)

    def begin(self, versions: Iterable[ServedModel]) -> None:
        """Open the files of all metrics, while there are files to open, with counts of 0."""
        for served in versions:
            for route in _ASKING:
                self._requests.labels(route, served.name, "200")
            for times in (self._seconds, self._refused, self._batches):
                times.labels(*served.asked)
        folder = os.environ.get(METRICS_FOLDER)
        for path in Path(folder).glob(f"*_{os.getpid()}.db") if folder else ():
            # A file that is mapped beyond the disk's room ends its process by SIGBUS when written.
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, min(KEPT_BYTES, path.stat().st_size))

    def request(self, route: str, asked: Asked, status: int, seconds: float) -> None:
        """Count a request, and time it where it asked a model."""
        self._new_requests[route, asked.model, status] += 1
        if asked.version:
            times = self._new_seconds if status == 200 else self._new_refused
            times[asked].append(seconds)

    def batch(self, served: ServedModel, rows: int) -> None:
        """Count a batch."""
        self._new_batches[served.asked].append(rows)

    def publish(self, running: int) -> None:
        """Publish what was counted since the last time, and how many requests there are now.

        Each count is published once. Where no file is left to open, or no room on the disk, the
        rest stays for the next time.
        """
        try:
            self._running.set(running)
            _hand_over(self._new_requests, self._add_requests)
            _hand_over(self._new_seconds, partial(_observe, self._seconds))
            _hand_over(self._new_refused, partial(_observe, self._refused))
            _hand_over(self._new_batches, partial(_observe, self._batches))
        # Metrics are never worth a failed request.
        except OSError as error:
            _log.warning("The metrics cannot be written: %s", error)

    def _add_requests(self, request: tuple[str, str, int], count: int) -> None:
        self._requests.labels(*map(str, request)).inc(count)

    def text(self) -> bytes:
        """Return the published metrics in the format of Prometheus, of all processes together."""
        return generate_latest(self._together())

    def statistics(self) -> Statistics:
        """Return what is published of each version of a model."""
        metrics = self._together().collect()
        return Statistics(sample for metric in metrics for sample in metric.samples)

    def _together(self) -> CollectorRegistry:
        """Return what is published, of all processes together."""
        folder = os.environ.get(METRICS_FOLDER)
        if folder is None:
            return self.registry
        _forget_dead(Path(folder))
        together = CollectorRegistry()
        MultiProcessCollector(together, folder)  # type: ignore[no-untyped-call]
        return together


def _observe(times: _BulkHistogram | _BulkSummary, asked: Asked, amounts: list[float]) -> None:
    times.labels(*asked).observe_all(amounts)


def _hand_over(counts: MutableMapping[_Key, _Count], add: Callable[[_Key, _Count], None]) -> None:
    """Add each count to what others see, and forget it."""
    for key in tuple(counts):
        add(key, counts[key])
        # Only then: an error of the disk leaves the count for the next time.
        del counts[key]


def _forget_dead(folder: Path) -> None:
    """Take away the requests that ran in a process once it has ended, whatever ended it."""
    for path in folder.glob("gauge_live*.db"):
        process = int(path.stem.rpartition("_")[2])
        try:
            # Signal 0 is not sent: it only asks whether the process is there.
            os.kill(process, 0)
        # PermissionError: its number is another user's by now.
        except (ProcessLookupError, PermissionError):
            # FileNotFoundError: another worker was first.
            with suppress(FileNotFoundError):
                mark_process_dead(process, str(folder))  # type: ignore[no-untyped-call]
