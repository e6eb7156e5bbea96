"""Exchanges: a request from its head to its answer, which is sent once.

Errors of any kind become answers here, and here alone. Models are asked by callbacks: a request
that is answered at once costs neither a task nor a timer.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from hbconv.serve.http.access import require_access
from hbconv.serve.http.messages import LITTLE_BYTES, Request, Response, refused
from hbconv.serve.places import TakenPlace
from hbconv.serve.protocol.handlers import Handlers, settling
from hbconv.serve.refusal import RefusedError, log_failure
from hbconv.serve.routes import Route, find_route

__all__ = ["Exchange"]

_UNKNOWN = Route("unknown")


class _Cancellable(Protocol):
    def cancel(self) -> object:
        """Wait for it no more."""


class Exchange:
    """A request and its answer.

    Parameters
    ----------
    handlers : Handlers
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
        "_handlers",
        "_place",
        "_route",
        "_send",
        "_waits_for",
        "error",
        "is_admitted",
        "is_settled",
        "is_whole",
        "request",
    )

    def __init__(
        self, handlers: Handlers, request: Request, send: Callable[[Exchange, Response], None]
    ) -> None:
        self.request = request
        self.is_admitted = False
        self.is_settled = False
        self.is_whole = False
        self._handlers = handlers
        self._send = send
        self._began = perf_counter()
        self._route = _UNKNOWN
        self.error: Exception | None = None
        self._place: TakenPlace | None = None
        self._waits_for: _Cancellable | None = None

    def refuse(self, error: Exception) -> None:
        """Answer with an error, whatever else comes."""
        self.error = self.error or error

    def admit(self) -> None:
        """Look at the head: find its route, and a place where it asks a model."""
        self.is_admitted = True
        try:
            self._route = self.request.head.route or self._judged()
            if self._route.asks_model:
                self._place = self._handlers.places.take()
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
            found = self._ask()
        except Exception as error:
            self.settle(error)
            return
        if not self.is_settled:
            self._waits_for = found

    def settle(self, outcome: Response | Exception) -> None:
        """Send an answer, if none is sent."""
        if self.is_settled:
            return
        self.abandon()
        response = outcome if isinstance(outcome, Response) else _response_to(outcome)
        self._handlers.count(self._route, response.status, perf_counter() - self._began)
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

    def _judged(self) -> Route:
        """Judge by the head alone, and return its route."""
        head = self.request.head
        self._route = route = find_route(head.path)
        self._require_method()
        require_access(route, head, self._handlers.settings)
        self._require_size()
        if route.asks_model:
            head.route = route
        return route

    def _require_method(self) -> None:
        method = self._route.method
        if self.request.head.method not in (method, "HEAD" if method == "GET" else ""):
            path = self.request.head.path
            allow = ((b"allow", b"GET, HEAD" if method == "GET" else b"POST"),)
            raise RefusedError(405, "MethodNotAllowed", f"Ask {path:.200} by {method}.", allow)

    def _require_size(self) -> None:
        if not self._route.asks_model:
            self.request.most_bytes = min(self.request.most_bytes, LITTLE_BYTES)
        self.request.require_size()

    def _ask(self) -> _Cancellable:
        """Ask a model, or the server itself."""
        if self._place is not None:
            return self._handlers.ask(self._route, self.request, self._place, self.settle)
        return settling(self._handlers.tell(self._route, self.request), self.settle)


def _response_to(error: Exception) -> Response:
    log_failure(error)
    return refused(error)
