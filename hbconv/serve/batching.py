"""Dynamic batching: rows of requests that wait together are computed together.

A batch is all that waits when the model is free, up to a number of rows. So a busy model works on
large batches, and a free one answers at once. A request whose rows the model refuses is told so,
and the others of its batch are computed without it. The catalog has the queue of each model.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from hbconv.errors import shown
from hbconv.serve.failures import RefusedError
from hbconv.serve.inference import Inference, join_rows
from hbconv.serve.metrics import Metrics
from hbconv.serve.served_model import Answers, ServedModel, compute
from hbconv.serve.settings import Settings
from hbconv.serve.signature import Given

__all__ = ["Batcher", "Catalog", "Outcome", "Waiting", "order_versions"]

_log = logging.getLogger("hbconv.serve")

Outcome = Answers | Exception

Then = Callable[[Outcome], None]
"""Takes an outcome. It raises nothing."""


@dataclass(slots=True)
class Waiting:
    """A request in the queue, and what takes its outcome; neither, once nobody waits for it."""

    asked: Inference | None
    then: Then | None

    @property
    def rows(self) -> int:
        """How many rows there are to compute."""
        return 0 if self.asked is None else self.asked.rows.count

    def cancel(self) -> None:
        """Compute no answer that is not begun, and tell nobody. The rows are let go of at once."""
        self.asked = self.then = None


class Batcher:
    """The queue of one model, and what empties it.

    Parameters
    ----------
    served : ServedModel
    settings : Settings
    threads : Executor
        Where batches are computed that take longer than a request should wait for others.
    metrics : Metrics
    """

    def __init__(
        self, served: ServedModel, settings: Settings, threads: Executor, metrics: Metrics
    ) -> None:
        self.served = served
        self._settings = settings
        self._threads = threads
        self._metrics = metrics
        self._queue: deque[Waiting] = deque()
        self._is_busy = False

    def ask(self, asked: Inference, then: Then) -> Waiting:
        """Put a request in the queue; ``then`` takes its answers, or the error."""
        waiting = Waiting(asked, then)
        self._queue.append(waiting)
        if not self._is_busy:
            self._is_busy = True
            self._begin_soon()
        return waiting

    async def answer(self, asked: Inference) -> Answers:
        """Wait for the answers to a request.

        Raises
        ------
        InputError
            The model refuses its rows.
        """
        answered: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        waiting = self.ask(asked, partial(_tell, answered))
        try:
            return await answered
        finally:
            waiting.cancel()

    def _begin_soon(self) -> None:
        """Begin once the requests are read that are there already, or after the delay."""
        loop = asyncio.get_running_loop()
        if self._settings.batch_delay:
            loop.call_later(self._settings.batch_delay, self._work)
        else:
            loop.call_soon(self._work)

    def _work(self) -> None:
        """Compute batches until none waits, or one is with the threads."""
        while self._queue:
            batch = self._next()
            if not batch:
                continue
            requests = [waiting.asked for waiting in batch if waiting.asked is not None]
            rows = sum([asked.rows.count for asked in requests])
            self._metrics.batch(self.served, rows)
            if not self.served.is_quick(rows, requests):
                self._compute_in_thread(batch, requests)
                return
            self._settle(batch, compute_batch(self.served, requests))
        self._is_busy = False

    def _next(self) -> list[Waiting]:
        """Take requests from the queue: the first one, and as many more as fit in a batch."""
        batch = [self._queue.popleft()]
        rows = batch[0].rows
        while self._queue:
            rows += self._queue[0].rows
            if rows > self._settings.batch_rows:
                break
            batch.append(self._queue.popleft())
        return [waiting for waiting in batch if waiting.asked is not None]

    def _compute_in_thread(self, batch: list[Waiting], requests: list[Inference]) -> None:
        def computed(found: asyncio.Future[list[Outcome]]) -> None:
            self._settle(batch, found.result())
            self._work()

        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(self._threads, compute_batch, self.served, requests)
        found.add_done_callback(computed)

    def _settle(self, batch: list[Waiting], outcomes: list[Outcome]) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.then is not None:
                waiting.then(outcome)


def _tell(answered: asyncio.Future[Answers], outcome: Outcome) -> None:
    if answered.done():
        return  # it is cancelled, and the one who waited does not know it yet
    if isinstance(outcome, Exception):
        answered.set_exception(outcome)
    else:
        answered.set_result(outcome)


def compute_batch(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Compute some requests together; one by one where a row of theirs is refused."""
    outcomes = _compute_together(served, requests)
    if len(requests) == 1 or not isinstance(outcomes[0], Exception):
        return outcomes
    return [_compute_together(served, [asked])[0] for asked in requests]


def _compute_together(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Return the answers to each request, or the error that all of them share."""
    wanted: Collection[Given] = requests[0].wanted
    if len(requests) > 1:
        wanted = {one.name: one for asked in requests for one in asked.wanted}.values()
    try:
        rows = join_rows([asked.rows for asked in requests])
        answers = compute(served.model, served.signature, rows, wanted)
    except Exception as error:
        _log.debug("%s refuses a batch of %d requests: %s", served.name, len(requests), error)
        return [error] * len(requests)
    return [answers] if len(requests) == 1 else _split_answers(requests, answers)


def _split_answers(requests: Sequence[Inference], answers: Answers) -> list[Outcome]:
    """Return to each request the answers that it asked for, of its rows."""
    outcomes: list[Outcome] = []
    start = 0
    for asked in requests:
        stop = start + asked.rows.count
        outcomes.append({one.name: answers[one.name][start:stop] for one in asked.wanted})
        start = stop
    return outcomes


def order_versions(versions: Iterable[str]) -> list[str]:
    """Sort versions by their numbers; the last one answers where a request names none.

    Examples
    --------
    >>> order_versions(["10", "9"])
    ['9', '10']
    """
    return sorted(versions, key=lambda version: (len(version.lstrip("0")), version.lstrip("0")))


class Catalog:
    """Models by name and version.

    Parameters
    ----------
    batchers : iterable of Batcher
        One for each version of each model.
    """

    def __init__(self, batchers: Iterator[Batcher]) -> None:
        self.models: dict[str, dict[str, Batcher]] = {}
        for batcher in batchers:
            served = batcher.served
            self.models.setdefault(served.name, {})[served.version] = batcher
        self._newest = {
            name: found[order_versions(found)[-1]] for name, found in self.models.items()
        }

    def find(self, name: str, version: str | None = None) -> Batcher:
        """Return a version of a model; the newest one where none is named.

        Raises
        ------
        RefusedError
            There is none.
        """
        if version is None and name in self._newest:
            return self._newest[name]
        if name not in self.models:
            known = ", ".join(sorted(self.models)) or "none"
            raise RefusedError(
                404, "NotFound", f"There is no model {shown(name)}. Served: {known:.500}."
            )
        if version not in self.models[name]:
            known = ", ".join(self.models[name])
            raise RefusedError(
                404,
                "NotFound",
                f"Model {shown(name)} has no version {shown(version)}. It has: {known:.500}.",
            )
        return self.models[name][str(version)]
