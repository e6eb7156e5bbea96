"""The server of HTTP/1.1 in a worker: connections read requests, and write the responses.

Responses are written in the order of the requests. Time is looked at by the server, for all
connections together: each one has a deadline for what it waits for. A timer for each request
would cost more than the look.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from email.utils import formatdate
from typing import Any

import httptools

from hbconv.serve.failures import RefusedError
from hbconv.serve.http.exchange import Exchange, Service
from hbconv.serve.http.messages import Head, HttpParser, KnownHeads, Request, Response

__all__ = ["HttpConnection", "HttpServer"]

MOST_HEAD_BYTES = 512 << 10
"""Size of the reads that a head, or trailers, may take; one read has up to 256 KiB."""
HEAD_SECONDS = 20.0
"""Time from the first byte of a head to its end, and from a connection to its first request."""
KEEP_ALIVE_SECONDS = 60.0
READ_SECONDS = 60.0
"""Time in which a client reads some of what is written to it."""
LINGER_SECONDS = 2.0
"""Time in which a client that still sends may read why it is refused."""

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

BACKLOG = 2048
LOOK_SECONDS = 0.1
"""Connections whose time is up, the date and the metrics are looked after so often."""
LEAVE_SECONDS = 2.0
"""Idle connections stay open so long for last requests, whose answers close them."""


class HttpConnection(asyncio.Protocol):
    """Reads requests, and writes answers.

    Parameters
    ----------
    server : HttpServer

    Attributes
    ----------
    deadline : float
        Time of the loop until which it waits.
    """

    def __init__(self, server: HttpServer) -> None:
        self.deadline = 0.0
        self._server = server
        self._service = server.service
        self._now = asyncio.get_running_loop().time
        self._parser: Any = HttpParser(self, server.known_heads, server.service.settings.body_bytes)
        self._transport: Any = None
        self._exchanges: deque[Exchange] = deque()
        self._head_bytes = 0
        self._unsent_bytes = 0
        self._kept_bytes = 0
        self._keeps_alive = True
        self._reads_no_more = False
        self._writing_is_paused = False

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        self._transport = transport
        self._server.connections.add(self)
        self.deadline = self._now() + HEAD_SECONDS

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Give up what is not answered."""
        self._server.connections.discard(self)
        for exchange in self._exchanges:
            exchange.abandon()
        self._exchanges.clear()
        self._keep(0)
        self._parser.close()

    def data_received(self, data: bytes) -> None:
        """Read requests; answer the first one once it is there, or refused."""
        if self._reads_no_more:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self._refuse_bytes("The headers are too long.")
            return
        try:
            self._parser.feed(data)
        except httptools.HttpParserError:
            if not self._reads_no_more:
                self._refuse_bytes("The bytes sent are no request of HTTP/1.1.")
        if self._exchanges:
            self._look_at_exchanges()

    def eof_received(self) -> bool:
        """Stay open for a client that sends no more, while a request of it is there whole."""
        self._keeps_alive = False
        if self._exchanges and not self._exchanges[-1].is_whole:
            self._exchanges.pop().abandon()
        # TLS ends both ways at once.
        return bool(self._exchanges) and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        """Begin no answer while the client does not read the one before."""
        self._writing_is_paused = True

    def resume_writing(self) -> None:
        """Go on with the requests that wait."""
        self._writing_is_paused = False
        self._keep(0)
        self._begin()

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        if self._reads_no_more:
            raise EOFError  # The parser ends by it, whatever bytes are left.
        if not self._exchanges:
            self.deadline = self._now() + HEAD_SECONDS

    def on_head(self, request: Request, *, is_last: bool) -> None:
        """Look at the head, if no request before it waits for its answer."""
        self._head_bytes = 0
        self._keeps_alive = not is_last
        self._exchanges.append(Exchange(self._service, request, self._send))
        if len(self._exchanges) == 1 and not self._writing_is_paused:
            self._admit(self._exchanges[0])

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._head_bytes = 0
        self._exchanges[-1].receive(body)

    def on_message_complete(self) -> None:
        """Answer a request that is there whole."""
        self._head_bytes = 0
        if not self._keeps_alive:
            self._reads_no_more = True
        exchange = self._exchanges[-1]
        exchange.is_whole = True
        if exchange.is_admitted and not self._transport.is_closing():
            exchange.answer()

    # What the server calls.

    def expire(self) -> None:
        """Give up what is waited for: an answer, a request, or a client that reads nothing."""
        # A slow client is not cut off while its buffer shrinks from one deadline to the next.
        unsent = self._transport.get_write_buffer_size()
        if self._exchanges and self._exchanges[0].is_admitted:
            self._exchanges[0].settle(TimeoutError())
        elif not unsent:
            self._transport.close()
        elif unsent == self._unsent_bytes:
            self._transport.abort()
        else:
            self._unsent_bytes = unsent
            self.deadline = self._now() + READ_SECONDS

    def close_if_idle(self) -> None:
        """Close a connection that has no request, nor a part of one, nor a last answer to read."""
        if not (self._exchanges or self._head_bytes or self._reads_no_more):
            self._transport.close()

    # What goes on inside.

    def _admit(self, exchange: Exchange) -> None:
        self.deadline = self._now() + self._service.settings.seconds
        exchange.admit()
        if exchange.error is None and not exchange.is_whole:
            expected = exchange.request.head.headers.get(b"expect")
            if expected is not None and expected.lower() == b"100-continue":
                self._transport.write(_CONTINUE)

    def _look_at_exchanges(self) -> None:
        """Read no more requests while two wait, and no body of one that is refused."""
        first = self._exchanges[0]
        # One request ahead keeps a pipelining client busy; more would hold memory for nothing.
        if len(self._exchanges) > 1:
            self._transport.pause_reading()
        elif first.error is not None and not first.is_settled:
            first.answer()

    def _begin(self) -> None:
        """Go on with the next request."""
        if self._writing_is_paused or not self._exchanges or self._exchanges[0].is_admitted:
            return
        if len(self._exchanges) == 1:
            self._transport.resume_reading()
        exchange = self._exchanges[0]
        self._admit(exchange)
        if exchange.is_whole or exchange.error is not None:
            exchange.answer()

    def _send(self, exchange: Exchange, response: Response) -> None:
        """Write the answer of the first request, and go on."""
        self._exchanges.popleft()
        if self._service.is_leaving:
            self._take_no_more()
        last = not (exchange.is_whole and (self._keeps_alive or self._exchanges))
        head_only = exchange.request.head.method == "HEAD"
        self._transport.write(response.to_bytes(self._server.date, last=last, head_only=head_only))
        for part in response.rest:
            self._transport.write(part)
        if self._writing_is_paused:
            self._keep(response.size)
        self.deadline = self._now() + KEEP_ALIVE_SECONDS
        if last:
            self._end(exchange)
        # By way of the loop: a client that pipelines would otherwise hold it, or nest ever deeper.
        elif self._exchanges:
            asyncio.get_running_loop().call_soon(self._begin)
        else:
            self._transport.resume_reading()

    def _keep(self, count: int) -> None:
        """Count the bytes of an answer that its client does not read yet with those of requests."""
        self._service.places.held += count - self._kept_bytes
        self._kept_bytes = count

    def _take_no_more(self) -> None:
        """Make the request that came last, or comes now, the last one of the connection."""
        self._keeps_alive = False
        if self._exchanges and self._exchanges[-1].is_whole:
            self._reads_no_more = True

    def _end(self, exchange: Exchange) -> None:
        """Close the connection; but a client that still sends is first let read its answer."""
        sends_on = not exchange.is_whole or (self._service.is_leaving and self._reads_no_more)
        self._reads_no_more = True
        for waiting in self._exchanges:
            waiting.abandon()
        self._exchanges.clear()
        if not sends_on:
            self._transport.close()
            return
        # TLS cannot end one way alone.
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self.deadline = self._now() + LINGER_SECONDS

    def _refuse_bytes(self, why: str) -> None:
        """Refuse the request that is read now, after those before it are answered."""
        self._reads_no_more = True
        if not self._exchanges or self._exchanges[-1].is_whole:
            self._exchanges.append(
                Exchange(self._service, Request(Head("", "", {}), 0), self._send)
            )
        self._exchanges[-1].refuse(RefusedError(400, "BadRequest", why))
        if len(self._exchanges) == 1:
            self._exchanges[0].answer()


class HttpServer:
    """Answers the connections of a socket.

    Parameters
    ----------
    service : Service

    Attributes
    ----------
    known_heads : KnownHeads
    connections : set of HttpConnection
    date : bytes
        The time, as responses have it.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.known_heads = KnownHeads()
        self.connections: set[HttpConnection] = set()
        self.date = b""
        self._listener: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Take connections."""
        self._look()
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: HttpConnection(self),
            sock=listening,
            backlog=BACKLOG,
            ssl=self._encryption(),
        )

    def close(self) -> None:
        """Take no more connections."""
        if self._listener is not None:
            self._listener.close()

    async def end(self) -> None:
        """Close each connection once what came is answered, or once it was idle for a while.

        A client that keeps a connection may be sending a request while the server decides to close
        it. So idle connections are left open for a while.
        """
        await self._wait_for_connections(LEAVE_SECONDS)
        for connection in tuple(self.connections):
            connection.close_if_idle()
        await self._wait_for_connections(self.service.settings.seconds + 1)

    async def _wait_for_connections(self, seconds: float) -> None:
        """Wait until all connections are closed, but no longer than so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.connections and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        """End the waiting of connections whose time is up."""
        loop = asyncio.get_running_loop()
        # First, so that no failure below ends it.
        loop.call_later(LOOK_SECONDS, self._look)
        now = loop.time()
        self.date = formatdate(usegmt=True).encode()
        # A list, because to expire a connection may remove it from the set.
        for connection in [
            connection for connection in self.connections if connection.deadline < now
        ]:
            connection.expire()
        self.service.publish()

    def _encryption(self) -> ssl.SSLContext | None:
        settings = self.service.settings
        if settings.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.key)
        return context
