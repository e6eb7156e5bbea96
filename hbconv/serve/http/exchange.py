"""Exchanges: a request from its head, which is judged, to its response, which is sent once.

Errors of any kind become responses here, and here alone. Models are called by callbacks: a request
whose response is there at once costs neither a task nor a timer.

A head is judged by the table of routes: who may send it, and to which names of the server. A page
of another site may let its own name lead to 127.0.0.1. The browser of a person who runs the server
takes that for one site, and lets the page read responses. But it sends that name as ``Host``.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Callable, Coroutine, Iterable
from time import perf_counter
from typing import Any, Protocol
from urllib.parse import quote

from hbconv.errors import OptionError
from hbconv.serve.failures import RefusedError, log_failure
from hbconv.serve.http.messages import LITTLE_BYTES, Head, Request, Response, respond_error
from hbconv.serve.log import log_access
from hbconv.serve.places import Places, TakenPlace
from hbconv.serve.routes import UNKNOWN, Asked, RequestDestination, Route, find_destination
from hbconv.serve.settings import Settings

__all__ = ["Exchange", "Service", "Settle", "list_hosts", "require_token", "settle_later"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

REQUEST_ID = b"x-request-id"
"""A proxy names a request so; the log and the response have the name."""
MOST_ID_BYTES = 128
MOST_PATH = 300
"""Characters of a path that a line of the log has: clients choose its length."""
SAFE = "/:@"
"""Characters of a path that a line has as they are."""

_AS_BEARER = ((b"www-authenticate", b"Bearer"),)


def list_hosts(address: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are allowed; none where any is.

    Parameters
    ----------
    address : str
        What the server listens on.
    named : iterable of str
        Names that are allowed too. For an address of the network these alone, if there are any.

    Raises
    ------
    OptionError
        A name is empty.

    Examples
    --------
    >>> list_hosts("127.0.0.1", ["models.test"])
    ('localhost', '127.0.0.1', '[::1]', 'models.test')
    >>> list_hosts("0.0.0.0", ["fe80::1"])
    ('[fe80::1]',)
    >>> list_hosts("0.0.0.0", [])
    ()
    """
    names = [name.strip() for name in named]
    if "" in names:
        raise OptionError("--allowed-host names no host. Name one, or leave the option out.")
    names_of_address = (*LOOPBACK, address) if _is_loopback(address) else ()
    return tuple(dict.fromkeys(_as_sent(name.lower()) for name in (*names_of_address, *names)))


def _as_sent(name: str) -> str:
    """Return a name as ``Host`` has it: an address of IPv6 in brackets."""
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def require_host(host: bytes, allowed: Iterable[str]) -> None:
    """Refuse a request for a host of another name.

    Raises
    ------
    RefusedError
        421: the name is not allowed.

    Examples
    --------
    >>> require_host(b"localhost:8000", ["localhost"])
    >>> require_host(b"evil.example", [])
    """
    name = host.decode("latin-1").lower()
    # The port is not judged: it may be that of a tunnel or a container.
    if allowed and name not in allowed and name.rpartition(":")[0] not in allowed:
        raise RefusedError(
            421,
            "Misdirected",
            f"This server is not {name:.200}. Start it with --allowed-host to answer there.",
        )


def require_access(route: Route, head: Head, settings: Settings) -> None:
    """Refuse a request without the token, and one that a page of another site makes.

    Raises
    ------
    RefusedError
        400: it names no host. 421: it names another one. 401: it has no token, or another one. 403:
        a browser sends it for another site.
    """
    host = head.headers.get(b"host")
    if host is None and head.version != "1.0":
        raise RefusedError(400, "BadRequest", "A request of HTTP/1.1 has one header Host.")
    if route.needs_host:
        require_host(host or b"", settings.allowed_hosts)
    require_token(
        route, head.headers.get(b"authorization", b""), settings.token, "header Authorization"
    )
    origin = head.headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        site = origin.decode("latin-1")
        raise RefusedError(403, "Forbidden", f"Pages of {site:.200} may not ask this server.")


def require_token(route: Route, authorization: bytes, token: str | None, where: str) -> None:
    """Refuse a request without the token, in a time that does not depend on what it bears.

    Raises
    ------
    RefusedError
        401: the server has a token, the route needs it, and the client does not bear it.
    """
    if token is None or not route.needs_token:
        return
    scheme, _, credentials = authorization.partition(b" ")
    # compare_digest takes the same time wherever the first wrong byte is.
    is_bearer = scheme.lower() == b"bearer"
    if not (is_bearer and hmac.compare_digest(credentials.strip(), token.encode())):
        raise RefusedError(401, "Unauthorized", f"Send the {where}: Bearer TOKEN.", _AS_BEARER)


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

    def count(
        self, destination: RequestDestination, asked: Asked, status: int, seconds: float
    ) -> None:
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
        # The model may have settled it within the call; then nothing is waited for.
        if not self.is_settled:
            self._waits_for = waiting

    def settle(self, outcome: Response | Exception) -> None:
        """Send an answer, if none is sent."""
        # The deadline and the model may both settle it: the first one counts.
        if self.is_settled:
            return
        self.abandon()
        response = outcome if isinstance(outcome, Response) else _response_to(outcome)
        seconds = perf_counter() - self._began
        self._service.count(self._destination, self.request.asked, response.status, seconds)
        self._log(response, seconds)
        self._send(self, response)

    def _log(self, response: Response, seconds: float) -> None:
        """Log the request; the response bears the id that its head has."""
        head, request = self.request.head, self.request
        sent = head.headers.get(REQUEST_ID, b"")[:MOST_ID_BYTES]
        if sent:
            response.headers = (*response.headers, (REQUEST_ID, sent))
        log_access(
            f"{head.method} {quote(head.path[:MOST_PATH], SAFE)}",
            str(response.status),
            seconds,
            rows=request.rows,
            model=request.asked.model or self._destination.model,
            version=request.asked.version,
            id=sent.decode("latin-1") or request.id,
            error=response.error,
        )

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
        # Judged once: settings do not change while the worker lives, and the head holds the token.
        if destination.route.asks_model:
            head.destination = destination
        return destination

    def _require_method(self) -> None:
        route, head = self._destination.route, self.request.head
        if head.method not in route.methods:
            allow = ((b"allow", ", ".join(route.methods).encode()),)
            message = f"Ask {head.path:.200} by {route.method}."
            raise RefusedError(405, "MethodNotAllowed", message, allow)

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
