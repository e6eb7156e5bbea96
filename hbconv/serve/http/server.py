"""The server of HTTP in a worker: its connections, their time, and how it ends."""

from __future__ import annotations

import asyncio
import socket
import ssl
from email.utils import formatdate

from hbconv.serve.http.connection import HttpConnection
from hbconv.serve.http.exchange import Service
from hbconv.serve.http.known_heads import KnownHeads

__all__ = ["HttpServer"]

BACKLOG = 2048
LOOK_SECONDS = 0.1
"""Connections whose time is up, the date and the metrics are looked after so often."""
LEAVE_SECONDS = 2.0
"""Idle connections stay open so long for last requests, whose answers close them."""


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
        The time, as answers tell it.
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
        """Wait until all connections are closed, but no longer than told."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.connections and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        """End the waiting of connections whose time is up."""
        loop = asyncio.get_running_loop()
        loop.call_later(LOOK_SECONDS, self._look)  # first, so that no failure ends it
        now = loop.time()
        self.date = formatdate(usegmt=True).encode()
        for connection in [one for one in self.connections if one.deadline < now]:
            connection.expire()
        self.service.publish()

    def _encryption(self) -> ssl.SSLContext | None:
        settings = self.service.settings
        if settings.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.certificate, settings.key)
        return context
