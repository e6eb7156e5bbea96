"""Messages of HTTP as the handlers see them: requests, and responses."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from hbconv.serve.failures import RefusedError, to_refusal
from hbconv.serve.routes import RequestDestination

__all__ = [
    "LITTLE_BYTES",
    "LONG_BYTES",
    "Head",
    "Request",
    "Response",
    "respond_error",
    "respond_in_parts",
    "respond_json",
]

_STATUSES = {one.value: f"{one.value} {one.phrase}".encode() for one in HTTPStatus}
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
    """

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    rest: Sequence[bytes | memoryview] = ()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body) + sum(map(len, self.rest))

    def written(self, date: bytes, *, last: bool, head_only: bool) -> bytes:
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
    if sum(map(len, parts)) <= LONG_BYTES:
        return Response(b"".join(parts), 200, content_type, headers)
    return Response(b"", 200, content_type, headers, parts)


def respond_error(error: Exception) -> Response:
    """Return what a client is told of an error, as a response."""
    refusal = to_refusal(error)
    body = orjson.dumps({"error": str(refusal)})
    return Response(body, refusal.status, headers=refusal.headers)


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
    """

    head: Head
    most_bytes: int
    received: bytes | bytearray = b""

    @property
    def is_long(self) -> bool:
        """Whether it takes a while to unpack and to read."""
        return len(self.received) > LONG_BYTES or b"content-encoding" in self.head.headers

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, whose name is in small letters."""
        value = self.head.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def require_size(self) -> None:
        """Refuse a body that is told to be too large, before it comes.

        Raises
        ------
        RefusedError
            It exceeds the size allowed.
        """
        told = self.head.headers.get(b"content-length", b"0")
        # The parser refuses more than 64 bits, so what is before 20 digits are zeros.
        if told.isdigit() and int(told[-20:]) > self.most_bytes:
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
        if not self.received:
            self.received = part  # which is all of it, mostly
            return
        if isinstance(self.received, bytes):
            self.received = bytearray(
                self.received
            )  # many small parts take no more than their bytes
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
            told = packing.decode("latin-1")
            raise RefusedError(415, "Unsupported", f"Content-Encoding {told:.50} is not known.")
        return self._unpacked(data)

    def _unpacked(self, data: bytes | bytearray) -> bytes:
        unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
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
