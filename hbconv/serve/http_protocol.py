"""The protocol of HTTP, with the bounds that uvicorn leaves open: size and time of the headers."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["BoundedProtocol"]

MOST_HEAD_BYTES = 512 << 10
"""Size of the reads that a head may take; one read has up to 256 KiB."""
HEAD_SECONDS = 20.0
"""Time from the first byte of a head to its end, and from a connection to its first request."""


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose headers are too long, or too slow."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head, and read them."""
        if self._head_bytes >= 0:
            if self._deadline is None:
                self._await_head()
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The headers are too long.")
                return
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that sends no more, if its last request is there whole."""
        waits = (
            self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        )
        if waits:
            self.cycle.keep_alive = False
        return waits

    def on_headers_complete(self) -> None:
        """Count no more: what follows is a body, which its reader bounds."""
        self._end_head()
        self._head_bytes = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Count again: what follows is the next head."""
        self._head_bytes = 0
        super().on_message_complete()

    def _await_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _end_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
