"""Messages of HTTP as the handlers see them: requests, and responses."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hbconv.serve.refusal import RefusedError

__all__ = ["Receive", "Request", "Response", "Scope", "Send", "as_json"]

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class GoneError(Exception):
    """The client is gone before it sent its request whole."""


@dataclass(frozen=True)
class Response:
    """What is sent."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


def as_json(document: Any, status: int = 200) -> Response:
    """Return a document as a response."""
    return Response(orjson.dumps(document, default=str), status)


class Request:
    """What came: its headers, and its body when it is asked for.

    Parameters
    ----------
    scope, receive
        As ASGI gives them.
    most_bytes : int
        Size of a body that is read.
    """

    def __init__(self, scope: Scope, receive: Receive, most_bytes: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._most_bytes = most_bytes

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, whose name is in small letters."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    async def body(self) -> bytes:
        """Read the body, unpacked.

        Raises
        ------
        RefusedError
            It exceeds the size allowed, or is packed in a way that the server does not know.
        """
        told = self.headers.get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._most_bytes:
            raise self._too_large()
        data = await self._packed()
        packing = self.header(b"content-encoding") or "identity"
        if packing == "identity":
            return data
        if packing not in ("gzip", "deflate"):
            raise RefusedError(415, "Unsupported", f"Content-Encoding {packing:.50} is not known.")
        return self._unpacked(data)

    async def _packed(self) -> bytes:
        message = await self._receive()
        if not message.get("more_body") and message["type"] == "http.request":
            body: bytes = message["body"]
            if len(body) > self._most_bytes:
                raise self._too_large()
            return body
        data = bytearray()
        while message["type"] == "http.request":
            data += message["body"]
            if len(data) > self._most_bytes:
                raise self._too_large()
            if not message.get("more_body"):
                return bytes(data)
            message = await self._receive()
        raise GoneError

    def _unpacked(self, data: bytes) -> bytes:
        unpacker = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            unpacked = unpacker.decompress(data, self._most_bytes + 1)
        except zlib.error as error:
            raise RefusedError(
                400, "InputError", f"The body cannot be unpacked: {error}."
            ) from error
        if len(unpacked) > self._most_bytes:
            raise self._too_large()
        if not unpacker.eof:
            raise RefusedError(400, "InputError", "The body cannot be unpacked: it is cut off.")
        return unpacked

    def _too_large(self) -> RefusedError:
        return RefusedError(
            413, "TooLarge", f"The body exceeds {self._most_bytes:,} bytes. Send fewer rows."
        )
