"""Exchanges: a request from its head to its answer, which is sent once.

Errors of any kind become answers here, and here alone. Models are asked by callbacks: a request
that is answered at once costs neither a task nor a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Protocol

from hbconv.serve.failures import RefusedError, log_failure
from hbconv.serve.http.access import require_access
from hbconv.serve.http.messages import LITTLE_BYTES, Request, Response, respond_error
from hbconv.serve.places import Places, TakenPlace
from hbconv.serve.routes import UNKNOWN, RequestDestination, find_destination
from hbconv.serve.settings import Settings

__all__ = ["Exchange", "Service", "Settle", "settle_later"]

Settle = Callable[[Response | Exception], None]
"""Takes the response to a request, or the error."""


class Cancellable(Protocol):
    """What a response is waited for by."""

    def cancel(self) -> object:
        """Wait for it no more."""


class Service(Protocol):
    """What answers requests, as connections know it."""

    settings: Settings
    places: Places
    is_leaving: bool

    def ask(
        self, destination: RequestDestination, request: Request, place: TakenPlace, settle: Settle
    ) -> Cancellable:
        """Ask a model; ``settle`` takes the response, or the error, once it is there."""

    def tell(
        self, destination: RequestDestination, request: Request
    ) -> Coroutine[Any, Any, Response]:
        """Answer what asks no model."""

    def count(self, destination: RequestDestination, status: int, seconds: float) -> None:
        """Count a request that is answered."""

    def publish(self) -> None:
        """Tell other processes what was counted."""


class Exchange:
    """A request and its answer.

    Parameters
    ----------
    service : Service
    request : Request
    send : callable
        Sends the answer. It is called once, or never where the client is gone.

    Attributes
    ----------
    is_whole : bool
        The body is there.
    error : Exception, optional
        The answer, whatever the body holds.
    is_admitted, is_settled : bool
    """

    __slots__ = (
        "_began",
        "_destination",
        "_place",
        "_send",
        "_service",
        "_waits_for",
        "error",
        "is_admitted",
        "is_settled",
        "is_whole",
        "request",
    )

    def __init__(
        self, service: Service, request: Request, send: Callable[[Exchange, Response], None]
    ) -> None:
        self.request = request
        self.is_admitted = False
        self.is_settled = False
        self.is_whole = False
        self._service = service
        self._send = send
        self._began = perf_counter()
        self._destination = UNKNOWN
        self.error: Exception | None = None
        self._place: TakenPlace | None = None
        self._waits_for: Cancellable | None = None

    def refuse(self, error: Exception) -> None:
        """Answer with an error, whatever else comes."""
        self.error = self.error or error

    def admit(self) -> None:
        """Look at the head: find its route, and a place where it asks a model."""
        self.is_admitted = True
        try:
            self._destination = self.request.head.destination or self._judge()
            if self._destination.route.asks_model:
                self._place = self._service.places.take()
        except Exception as error:
            self.refuse(error)

    def receive(self, part: bytes) -> None:
        """Take a part of the body; none where the answer is known to be an error."""
        if self.error is None:
            try:
                self.request.receive(part)
                if self._place is not None:
                    self._place.hold(len(self.request.received))
            except RefusedError as error:
                self.refuse(error)

    def answer(self) -> None:
        """Begin to answer, once the request is there whole or refused."""
        if self.error is not None:
            self.settle(self.error)
            return
        try:
            waiting = self._ask()
        except Exception as error:
            self.settle(error)
            return
        if not self.is_settled:
            self._waits_for = waiting

    def settle(self, outcome: Response | Exception) -> None:
        """Send an answer, if none is sent."""
        if self.is_settled:
            return
        self.abandon()
        response = outcome if isinstance(outcome, Response) else _response_to(outcome)
        self._service.count(self._destination, response.status, perf_counter() - self._began)
        self._send(self, response)

    def abandon(self) -> None:
        """Wait for no answer any more, and give the place back."""
        self.is_settled = True
        if self._place is not None:
            self._place.free()
            self._place = None
        if self._waits_for is not None:
            self._waits_for.cancel()
            self._waits_for = None

    def _judge(self) -> RequestDestination:
        """Judge by the head alone, and return where it goes."""
        head = self.request.head
        self._destination = destination = find_destination(head.path)
        self._require_method()
        require_access(destination.route, head, self._service.settings)
        self._require_size()
        if destination.route.asks_model:
            head.destination = destination
        return destination

    def _require_method(self) -> None:
        route, head = self._destination.route, self.request.head
        if head.method not in route.methods:
            allow = ((b"allow", ", ".join(route.methods).encode()),)
            told = f"Ask {head.path:.200} by {route.method}."
            raise RefusedError(405, "MethodNotAllowed", told, allow)

    def _require_size(self) -> None:
        if not self._destination.route.asks_model:
            self.request.most_bytes = min(self.request.most_bytes, LITTLE_BYTES)
        self.request.require_size()

    def _ask(self) -> Cancellable:
        """Ask a model, or the server itself."""
        if self._place is not None:
            return self._service.ask(self._destination, self.request, self._place, self.settle)
        return settle_later(self._service.tell(self._destination, self.request), self.settle)


def settle_later(work: Coroutine[Any, Any, Response], settle: Settle) -> asyncio.Task[Response]:
    """Begin some work, whose outcome ``settle`` takes unless it is cancelled."""

    def take(task: asyncio.Task[Response]) -> None:
        if not task.cancelled():
            error = task.exception()
            settle(error if isinstance(error, Exception) else task.result())

    task = asyncio.ensure_future(work)
    task.add_done_callback(take)
    return task


def _response_to(error: Exception) -> Response:
    log_failure(error)
    return respond_error(error)
