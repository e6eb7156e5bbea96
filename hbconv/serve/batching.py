"""Dynamic batching: rows of requests that wait together are computed together.

A batch is all that waits when the model is free, up to a number of rows. So a busy model works on
large batches, and a free one computes at once. A request whose rows the model refuses gets the
error, and the others of its batch are computed without it. The catalog has the queue of each model.
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
from hbconv.serve.signature import OutputTensor

__all__ = ["Batcher", "Catalog", "Outcome", "Waiting", "order_versions"]

_log = logging.getLogger("hbconv.serve")

Outcome = Answers | Exception

Then = Callable[[Outcome], None]
"""Takes an outcome. It raises nothing."""


@dataclass(slots=True)
class Waiting:
    """A request in the queue, and what takes its outcome; neither, once nobody waits for it."""

    inference: Inference | None
    then: Then | None

    @property
    def rows(self) -> int:
        """How many rows there are to compute."""
        # A request that nobody waits for stays in the queue until its turn, without its rows.
        return 0 if self.inference is None else self.inference.rows.count

    def cancel(self) -> None:
        """Compute nothing that is not begun, and report to nobody. The rows are freed at once."""
        self.inference = self.then = None


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

    def ask(self, inference: Inference, then: Then) -> Waiting:
        """Put a request in the queue; ``then`` takes its answers, or the error."""
        waiting = Waiting(inference, then)
        self._queue.append(waiting)
        # Nothing but the loop's thread changes the queue and this flag, so no lock is needed.
        if not self._is_busy:
            self._is_busy = True
            self._begin_soon()
        return waiting

    async def answer(self, inference: Inference) -> Answers:
        """Wait for the answers to a request.

        Raises
        ------
        InputError
            The model refuses its rows.
        """
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        waiting = self.ask(inference, partial(_tell, future))
        try:
            return await future
        finally:
            waiting.cancel()

    def _begin_soon(self) -> None:
        """Begin once the requests are read that are there already, or after the delay."""
        loop = asyncio.get_running_loop()
        # Sockets that the loop has found readable come before call_soon, so they share the batch.
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
            requests = [waiting.inference for waiting in batch if waiting.inference is not None]
            rows = sum([inference.rows.count for inference in requests])
            self._metrics.batch(self.served, rows)
            # A longer batch would keep the loop from its other clients.
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
        return [waiting for waiting in batch if waiting.inference is not None]

    def _compute_in_thread(self, batch: list[Waiting], requests: list[Inference]) -> None:
        def go_on(batch_outcomes: asyncio.Future[list[Outcome]]) -> None:
            self._settle(batch, batch_outcomes.result())
            self._work()

        loop = asyncio.get_running_loop()
        batch_outcomes = loop.run_in_executor(self._threads, compute_batch, self.served, requests)
        batch_outcomes.add_done_callback(go_on)

    def _settle(self, batch: list[Waiting], outcomes: list[Outcome]) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if waiting.then is not None:
                waiting.then(outcome)


def _tell(future: asyncio.Future[Answers], outcome: Outcome) -> None:
    # It is cancelled, and the one who waited does not know it yet.
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def compute_batch(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Compute some requests together; one by one where a row of theirs is refused."""
    if served.is_joined or len(requests) == 1:
        outcomes = _compute_together(served, requests)
        # Only a failed batch is computed again one by one, so good requests pay once for a bad one.
        if len(requests) == 1 or not isinstance(outcomes[0], Exception):
            return outcomes
    return [_compute_together(served, [inference])[0] for inference in requests]


def _compute_together(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Return the answers to each request, or the error that all of them share."""
    wanted: Collection[OutputTensor] = requests[0].wanted
    if len(requests) > 1:
        wanted = {
            tensor.name: tensor for inference in requests for tensor in inference.wanted
        }.values()
    try:
        rows = join_rows([inference.rows for inference in requests])
        answers = compute(served.model, served.signature, rows, wanted)
    except Exception as error:
        _log.debug("%s refuses a batch of %d requests: %s", served.name, len(requests), error)
        return [error] * len(requests)
    return [answers] if len(requests) == 1 else _split_answers(requests, answers)


def _split_answers(requests: Sequence[Inference], answers: Answers) -> list[Outcome]:
    """Return to each request the answers that it asked for, of its rows."""
    outcomes: list[Outcome] = []
    start = 0
    for inference in requests:
        stop = start + inference.rows.count
        outcomes.append(
            {tensor.name: answers[tensor.name][start:stop] for tensor in inference.wanted}
        )
        start = stop
    return outcomes


def order_versions(versions: Iterable[str]) -> list[str]:
    """Sort versions by their numbers; the last one answers where a request names none.

    Examples
    --------
    >>> order_versions(["10", "9"])
    ['9', '10']
    """
    # Versions may have 18 digits and leading zeros: by length and then by text is by number.
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
            name: versions[order_versions(versions)[-1]] for name, versions in self.models.items()
        }

    def find(self, name: str, version: str | None = None) -> Batcher:
        """Return a version of a model; the newest one where none is named.

        Without a name it is the only model.

        Raises
        ------
        RefusedError
            There is none, or one of several models is not named.
        """
        if not name:
            return self._find_only()
        if version is None and name in self._newest:
            return self._newest[name]
        if name not in self.models:
            names = ", ".join(sorted(self.models)) or "none"
            raise RefusedError(
                404, "NotFound", f"There is no model {shown(name)}. Served: {names:.500}."
            )
        if version not in self.models[name]:
            names = ", ".join(self.models[name])
            raise RefusedError(
                404,
                "NotFound",
                f"Model {shown(name)} has no version {shown(version)}. It has: {names:.500}.",
            )
        return self.models[name][str(version)]

    def _find_only(self) -> Batcher:
        if len(self._newest) != 1:
            names = ", ".join(sorted(self.models)) or "none"
            raise RefusedError(
                404,
                "NotFound",
                "This path names no model, and the server has not one alone. "
                f"Ask /v1/models/NAME:predict. Served: {names:.500}.",
            )
        return next(iter(self._newest.values()))

    def find_all(self, name: str, version: str | None = None) -> list[Batcher]:
        """Return all versions of a model that a request may mean; of all models without a name.

        Raises
        ------
        RefusedError
            There is no such model or version.
        """
        if version is not None:
            return [self.find(name, version)]
        # An unknown name is refused as everywhere.
        names = [self.find(name).served.name] if name else list(self.models)
        return [batcher for each in names for batcher in self.models[each].values()]
