"""The parser of HTTP/1.1: bytes become requests, their bodies in parts, and their ends.

A client of a model sends the same head each time, but for the length of its body. To parse and to
judge it takes longer than to look its bytes up, so known heads are parsed once.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from hbconv.serve.http.messages import Head, Request

__all__ = ["HttpParser", "KnownHeads", "Reader"]

MOST_HEADS = 512
MOST_BYTES = 1024
"""Of a head; longer ones are parsed each time."""
_END = b"\r\n\r\n"

MOST_HEADERS = 256
MOST_HEADER_BYTES = 64 << 10
"""Of a request, trailers included: they are kept before it is known who asks."""


class KnownHeads:
    """Heads by their bytes; all connections of a worker share them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, tuple[Head, int]] = {}

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body, if the data are a whole request whose head is known."""
        end = data.find(_END, 0, MOST_BYTES) + len(_END)
        known = self._heads.get(data[:end])
        if known is None or len(data) - end != known[1]:
            return None
        return known[0], data[end:]

    def remember(self, data: bytes, head: Head) -> None:
        """Remember the head of data that were parsed as one whole request.

        What lies before the first empty line is the head only if the length that it tells is that
        of the rest: a body in chunks has other bytes, and so has what follows lines without CR.
        """
        end = data.find(_END, 0, MOST_BYTES) + len(_END)
        told = head.headers.get(b"content-length", b"0")
        if end < len(_END) or told != b"%d" % (len(data) - end):
            return
        if len(self._heads) == MOST_HEADS:
            self._heads.clear()
        self._heads[data[:end]] = (head, len(data) - end)


class Reader(Protocol):
    """What the parser tells."""

    def on_message_begin(self) -> None:
        """Begin to read a head."""

    def on_head(self, request: Request, *, is_last: bool) -> None:
        """Take a head; its client may expect that the answer closes the connection."""

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""

    def on_message_complete(self) -> None:
        """Take the end of a request."""


class HttpParser:
    """Reads requests by httptools.

    That parser takes what follows a request for an upgrade as the other protocol, its body too.
    But clients of HTTP/2 begin so over plain TCP, and a server may go on with HTTP/1.1. So such a
    head is read once more, as if it asked for no upgrade.

    A head whose bytes are known is not parsed again, if its whole request is there alone.

    Parameters
    ----------
    reader : Reader
    known_heads : KnownHeads
    most_bytes : int
        Size of a body.
    """

    def __init__(self, reader: Reader, known_heads: KnownHeads, most_bytes: int) -> None:
        self._reader = reader
        self._known_heads = known_heads
        self._most_bytes = most_bytes
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_bytes = 0
        self._plain_head = b""
        self._head: Head | None = None
        self._is_between = True
        self._completed = 0
        self.on_body = reader.on_body
        self._parser: Any = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        """Read some bytes.

        Raises
        ------
        httptools.HttpParserError
            They are no request, or the reader takes no more.
        """
        if not self._is_between:
            self._parse(data)
            return
        known = self._known_heads.find(data)
        if known is not None:
            self._take(*known)
            return
        self._completed = 0
        self._parse(data)
        if self._is_between and self._completed == 1 and self._head is not None:
            self._known_heads.remember(data, self._head)

    def _take(self, head: Head, body: bytes) -> None:
        """Tell of a whole request."""
        self._reader.on_head(Request(head, self._most_bytes, body), is_last=False)
        self._reader.on_message_complete()

    def _parse(self, data: bytes) -> None:
        rest: bytes | memoryview = data
        while True:
            try:
                self._parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if not self._plain_head:
                    return  # a CONNECT, which is the last request
                self._read_again()
                rest = memoryview(rest)[upgrade.args[0] :]

    def close(self) -> None:
        """Let go of the reader."""
        del self._parser, self._reader, self.on_body

    # What httptools calls.

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        self._url = b""
        self._headers = {}
        self._header_bytes = 0
        self._is_between = False
        self._reader.on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._header_bytes += len(name) + len(value)
        if len(self._headers) == MOST_HEADERS or self._header_bytes > MOST_HEADER_BYTES:
            raise ValueError("The headers are too many or too long.")
        name = name.lower()
        if name == b"host" and name in self._headers:
            raise ValueError("A request has one host.")
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Tell of the head."""
        if self._parser.should_upgrade() and b"upgrade" in self._headers:
            self._plain_head = self._head_without_upgrade()
            return
        path = (httptools.parse_url(self._url).path or b"/").decode("ascii")
        method = self._parser.get_method().decode("ascii")
        version = self._parser.get_http_version()
        path = unquote(path) if "%" in path else path
        head = Head(method, path, self._headers, version)
        self._headers = {}  # what follows the body is not of the request
        is_last = self._is_last()
        self._head = None if is_last else head
        self._reader.on_head(Request(head, self._most_bytes), is_last=is_last)

    def on_message_complete(self) -> None:
        """Tell of the end of a request."""
        if not self._plain_head:
            self._is_between = True
            self._completed += 1
            self._reader.on_message_complete()

    # What goes on inside.

    def _is_last(self) -> bool:
        parser = self._parser
        return (
            not parser.should_keep_alive()
            or parser.get_http_version() == "1.0"
            or parser.should_upgrade()
        )

    def _head_without_upgrade(self) -> bytes:
        del self._headers[b"upgrade"]
        start = (self._parser.get_method(), self._url, self._parser.get_http_version().encode())
        lines = [b"%b: %b\r\n" % header for header in self._headers.items()]
        return b"%b %b HTTP/%b\r\n%b\r\n" % (*start, b"".join(lines))

    def _read_again(self) -> None:
        head, self._plain_head = self._plain_head, b""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(head)
