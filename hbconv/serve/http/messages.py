"""Messages of HTTP/1.1: bytes become requests, and responses become bytes.

A client of a model sends the same head each time, but for the length of its body. To parse and to
judge it takes longer than to look its bytes up, so known heads are parsed once.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
import orjson

from hbconv.serve.failures import RefusedError, to_refusal
from hbconv.serve.routes import Asked, RequestDestination

__all__ = [
    "LITTLE_BYTES",
    "LONG_BYTES",
    "Head",
    "HttpParser",
    "KnownHeads",
    "Request",
    "Response",
    "respond_error",
    "respond_in_parts",
    "respond_json",
]

_STATUSES = {status.value: f"{status.value} {status.phrase}".encode() for status in HTTPStatus}
# zlib's own sign for "find out": 32 added to the size of the window.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
LITTLE_BYTES = 64 << 10
"""Size of a body that asks no model. It holds no place, and may come without a token."""
LONG_BYTES = 100 << 10
"""A body of more, or an answer, is read or written by a thread: the loop has others to answer."""


@dataclass(slots=True)
class Response:
    """What is sent.

    Parameters
    ----------
    body : bytes
        All of it, or its first part.
    status : int
    content_type : bytes
    headers : tuple of pairs of bytes
    rest : sequence of bytes
        Other parts of the body: to join long ones takes their memory twice.
    error : str
        Why the request is refused.
    """

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    rest: Sequence[bytes | memoryview] = ()
    error: str = ""

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) + sum(map(len, self.rest))

    def to_bytes(self, date: bytes, *, last: bool, head_only: bool) -> bytes:
        """Return the bytes of HTTP/1.1 until the first part of the body.

        They say so if no answer follows.
        """
        return (
            b"HTTP/1.1 %b\r\ndate: %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b%b\r\n%b"
            % (
                _STATUSES[self.status],
                date,
                self.content_type,
                self.size,
                b"".join([b"%b: %b\r\n" % header for header in self.headers]),
                b"connection: close\r\n" if last else b"",
                b"" if head_only else self.body,
            )
        )


def respond_json(document: Any, status: int = 200) -> Response:
    """Return a document as a response."""
    return Response(orjson.dumps(document, default=str), status)


def respond_in_parts(
    parts: Sequence[bytes | memoryview],
    content_type: bytes = b"application/json",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Response:
    """Return a body in parts as a response; those of a short one are joined."""
    # One write of a short body is one packet; to join a long one takes its memory twice.
    if sum(map(len, parts)) <= LONG_BYTES:
        return Response(b"".join(parts), 200, content_type, headers)
    return Response(b"", 200, content_type, headers, parts)


def respond_error(error: Exception) -> Response:
    """Return what a client is told of an error, as a response."""
    refusal = to_refusal(error)
    body = orjson.dumps({"error": str(refusal)})
    return Response(body, refusal.status, headers=refusal.headers, error=str(refusal))


@dataclass(slots=True)
class Head:
    """What comes before a body.

    Parameters
    ----------
    method, path : str
        The path is decoded, and without its query.
    headers : mapping
        By their names in small letters.
    version : str
        Of HTTP.

    Attributes
    ----------
    destination : RequestDestination, optional
        The model that it asks, once its client may. A head that comes again is not judged again.
    """

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    version: str = "1.1"
    destination: RequestDestination | None = field(default=None, init=False)


@dataclass(slots=True)
class Request:
    """What came: its head, and as much of its body as is there.

    Parameters
    ----------
    head : Head
    most_bytes : int
        Size of a body that is taken, also once it is unpacked.
    received : bytes or bytearray
        What is there of the body.

    Attributes
    ----------
    rows : int, optional
        How many the body has, once a model reads it.
    asked : Asked
        The model that reads it.
    id : str
        What the client calls it, in a header or in the body.
    """

    head: Head
    most_bytes: int
    received: bytes | bytearray = b""
    rows: int | None = field(default=None, init=False)
    asked: Asked = field(default=Asked(), init=False)
    id: str = field(default="", init=False)

    @property
    def is_long(self) -> bool:
        """Whether it takes a while to unpack and to read."""
        return len(self.received) > LONG_BYTES or b"content-encoding" in self.head.headers

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, whose name is in small letters."""
        value = self.head.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def require_size(self) -> None:
        """Refuse a body whose declared size is too large, before it arrives.

        Raises
        ------
        RefusedError
            It exceeds the size allowed.
        """
        length = self.head.headers.get(b"content-length", b"0")
        # The parser refuses more than 64 bits, so what is before 20 digits are zeros.
        if length.isdigit() and int(length[-20:]) > self.most_bytes:
            raise self._too_large()

    def receive(self, part: bytes) -> None:
        """Take a part of the body.

        Raises
        ------
        RefusedError
            The body exceeds the size allowed.
        """
        if len(self.received) + len(part) > self.most_bytes:
            raise self._too_large()
        # Mostly the first part is all of the body, and is kept without a copy.
        if not self.received:
            self.received = part
            return
        # A bytearray grows in place; bytes would be copied for each of many small parts.
        if isinstance(self.received, bytes):
            self.received = bytearray(self.received)
        self.received += part

    def body(self) -> bytes | bytearray:
        """Return the body, unpacked.

        Raises
        ------
        RefusedError
            It exceeds the size allowed, or is packed in a way that the server does not know.
        """
        data = self.received
        packing = self.head.headers.get(b"content-encoding", b"identity").lower()
        if packing == b"identity":
            return data
        if packing not in (b"gzip", b"deflate"):
            name = packing.decode("latin-1")
            raise RefusedError(415, "Unsupported", f"Content-Encoding {name:.50} is not known.")
        return self._unpack(data)

    def _unpack(self, data: bytes | bytearray) -> bytes:
        unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            # One byte above the limit tells a body that exceeds it, and no more is unpacked.
            unpacked = unpacker.decompress(data, self.most_bytes + 1)
        except zlib.error as error:
            raise RefusedError(
                400, "InputError", f"The body cannot be unpacked: {error}."
            ) from error
        if len(unpacked) > self.most_bytes:
            raise self._too_large()
        if not unpacker.eof:
            raise RefusedError(400, "InputError", "The body cannot be unpacked: it is cut off.")
        if unpacker.unused_data:
            raise RefusedError(400, "InputError", "More follows the packed body.")
        return unpacked

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413, "TooLarge", f"The body exceeds {self.most_bytes:,} bytes. Send fewer rows."
        )


MOST_HEADS = 512
MOST_KNOWN_BYTES = 1024
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
        end = data.find(_END, 0, MOST_KNOWN_BYTES) + len(_END)
        entry = self._heads.get(data[:end])
        if entry is None or len(data) - end != entry[1]:
            return None
        return entry[0], data[end:]

    def remember(self, data: bytes, head: Head) -> None:
        """Remember the head of data that were parsed as one whole request.

        What precedes the first empty line is the head only if the length that it declares is that
        of the rest: a body in chunks has other bytes, and so has what follows lines without CR.
        """
        end = data.find(_END, 0, MOST_KNOWN_BYTES) + len(_END)
        length = head.headers.get(b"content-length", b"0")
        if end < len(_END) or length != b"%d" % (len(data) - end):
            return
        # A client who varies its heads costs the others one parse each, not the memory.
        if len(self._heads) == MOST_HEADS:
            self._heads.clear()
        self._heads[data[:end]] = (head, len(data) - end)


class Reader(Protocol):
    """What the parser calls."""

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
        whole = self._known_heads.find(data)
        if whole is not None:
            self._take(*whole)
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
        # Two hosts let a proxy and the server judge one request by different names.
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
        # Trailers follow the body. They are counted, and are no headers of this request.
        self._headers = {}
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
