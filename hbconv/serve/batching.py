"""Dynamic batching: rows of requests that wait together are computed together.

A batch is all that waits when the model is free, up to a number of rows. So a busy model works on
large batches, and a free one answers at once. A request whose rows the model refuses is told so,
and the others of its batch are computed without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from hbconv.serve.answers import Answers, compute, cut
from hbconv.serve.inference import Inference
from hbconv.serve.metrics import Metrics
from hbconv.serve.rows import joined
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings
from hbconv.serve.signature import Given

__all__ = ["Batcher"]

_log = logging.getLogger("hbconv.serve")

Outcome = Answers | Exception


@dataclass(frozen=True)
class _Waiting:
    asked: Inference
    answered: asyncio.Future[Answers]


class Batcher:
    """The queue of one model, and the task that empties it.

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
        self._queue: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def answer(self, asked: Inference) -> Answers:
        """Wait for the answers to a request.

        Raises
        ------
        InputError
            The model refuses its rows.
        """
        answered: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(asked, answered))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await answered

    async def _work(self) -> None:
        """Compute batches until none waits."""
        try:
            await asyncio.sleep(self._settings.batch_delay)
            while self._queue:
                await self._compute(self._next())
        finally:
            self._task = None

    def _next(self) -> list[_Waiting]:
        """Take requests from the queue: the first one, and as many more as fit in a batch."""
        batch = [self._queue.popleft()]
        rows = batch[0].asked.rows.count
        while self._queue:
            rows += self._queue[0].asked.rows.count
            if rows > self._settings.batch_rows:
                break
            batch.append(self._queue.popleft())
        return [waiting for waiting in batch if not waiting.answered.done()]

    async def _compute(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        requests = [waiting.asked for waiting in batch]
        rows = sum(asked.rows.count for asked in requests)
        self._metrics.batch(self.served, rows)
        if rows <= self.served.quick_rows:
            outcomes = answers_of(self.served, requests)
        else:
            loop = asyncio.get_running_loop()
            outcomes = await loop.run_in_executor(self._threads, answers_of, self.served, requests)
        for waiting, outcome in zip(batch, outcomes, strict=True):
            _settle(waiting.answered, outcome)


def _settle(answered: asyncio.Future[Answers], outcome: Outcome) -> None:
    if answered.done():  # The client is gone, or out of time.
        return
    if isinstance(outcome, Exception):
        answered.set_exception(outcome)
    else:
        answered.set_result(outcome)


def answers_of(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Compute some requests together; one by one where a row of theirs is refused."""
    outcomes = _together(served, requests)
    if len(requests) == 1 or not isinstance(outcomes[0], Exception):
        return outcomes
    return [_together(served, [asked])[0] for asked in requests]


def _together(served: ServedModel, requests: Sequence[Inference]) -> list[Outcome]:
    """Return the answers to each request, or the error that all of them share."""
    wanted: dict[str, Given] = {one.name: one for asked in requests for one in asked.wanted}
    rows = joined([asked.rows for asked in requests])
    try:
        answers = compute(served.model, served.signature, rows, tuple(wanted.values()))
    except Exception as error:
        _log.debug("%s refuses a batch of %d rows: %s", served.name, rows.count, error)
        return [error] * len(requests)
    return _apart(requests, answers)


def _apart(requests: Sequence[Inference], answers: Answers) -> list[Outcome]:
    """Return to each request the answers that it asked for, of its rows."""
    outcomes: list[Outcome] = []
    start = 0
    for asked in requests:
        stop = start + asked.rows.count
        own = {one.name: answers[one.name] for one in asked.wanted}
        outcomes.append(cut(own, start, stop))
        start = stop
    return outcomes
