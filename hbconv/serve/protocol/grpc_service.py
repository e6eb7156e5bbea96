"""The Open Inference Protocol v2 over gRPC: the same models, limits and errors as over HTTP."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from hbconv.serve.failures import RefusedError, log_failure, to_refusal
from hbconv.serve.http.exchange import require_token
from hbconv.serve.http.messages import LITTLE_BYTES, LONG_BYTES
from hbconv.serve.places import TakenPlace
from hbconv.serve.protocol.grpc_messages import (
    SERVICE,
    message,
    no_message,
    read_message,
    require_bounded,
    write_message,
)
from hbconv.serve.protocol.handlers import Handlers
from hbconv.serve.routes import ROUTES, RequestDestination
from hbconv.serve.settings import Settings

__all__ = ["is_no_parting", "start_grpc"]

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_ROUTES = {route.rpc: route for route in ROUTES if route.rpc}
"""Routes by the methods of the service."""
MOST_MESSAGE_BYTES = 32 << 20
"""The loop copies what it receives, 64 MB in up to 0.2 s, and answers nobody meanwhile."""
MOST_DETAILS = 600
"""Characters of an error: of those beyond ASCII, each takes 12 of the 8,192 bytes allowed."""
MOST_FIELDS = 1000
FIELDS_OF_TENSOR = 16
"""Fields of a long message: some, and some for each tensor of the model that has the most."""


async def start_grpc(handlers: Handlers) -> grpc.aio.Server:
    """Start a server on the port of the settings, which workers share."""
    settings = handlers.settings
    logging.getLogger("grpc._cython.cygrpc").addFilter(is_no_parting)
    # Workers listen on one port each by a socket of its own: gRPC takes none that is bound.
    options = [
        ("grpc.so_reuseport", 1),
        ("grpc.max_receive_message_length", min(settings.body_bytes, MOST_MESSAGE_BYTES)),
        ("grpc.max_send_message_length", settings.answer_bytes + (1 << 20)),
    ]
    server = grpc.aio.server(options=options)
    service = _Service(handlers)
    methods = {name: service.method(name) for name in _ROUTES}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _add_port(server, f"{host}:{settings.grpc_port}", settings)
    await server.start()
    return server


def is_no_parting(record: logging.LogRecord) -> bool:
    """Whether gRPC logs more than that a client left before its response."""
    # By name: the class is private to the compiled part of gRPC.
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "ExecuteBatchError"


def _add_port(server: grpc.aio.Server, address: str, settings: Settings) -> None:
    if settings.certificate is None or settings.key is None:
        server.add_insecure_port(address)
        return
    pair = (Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes())
    server.add_secure_port(address, grpc.ssl_server_credentials([pair]))


class _Call:
    """A call of a method, and what it is counted as."""

    def __init__(self, name: str, context: Any) -> None:
        self.name = name
        self.context = context
        self.destination = RequestDestination(_ROUTES[name])

    def read(self, data: bytes) -> Any:
        """Read its message."""
        try:
            request = message(f"{self.name}Request").FromString(data)
        except DecodeError as error:
            raise no_message() from error
        self.destination = RequestDestination(
            self.destination.route, getattr(request, "model_name", "")
        )
        return request


class _Service:
    """Answers each method."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def method(self, name: str) -> grpc.RpcMethodHandler:
        """Return what gRPC calls for a method.

        A request is one message. It is asked for as a stream, which is read only when it is wanted.
        """

        async def called(messages: Any, context: Any) -> Any:  # noqa: ARG001
            call = _Call(name, context)
            began = asyncio.get_running_loop().time()
            try:
                self._require_token(call)
                async with asyncio.timeout(self._handlers.settings.seconds):
                    response = await self._answer(call)
            except Exception as error:
                refusal = to_refusal(error)
                log_failure(error)
                self._handlers.count(call.destination, refusal.status, 0.0)
                # The client is gone, or gRPC has told it what is wrong.
                if context.done():
                    return b""
                code = _CODES.get(refusal.status, grpc.StatusCode.INTERNAL)
                return await context.abort(code, str(refusal)[:MOST_DETAILS])
            self._handlers.count(call.destination, 200, asyncio.get_running_loop().time() - began)
            return response

        return grpc.stream_unary_rpc_method_handler(called)

    async def _answer(self, call: _Call) -> bytes:
        """Serve a client that has the token, from a place of its own where it sends something."""
        # A message without fields holds nothing, so it is not read.
        if not message(f"{call.name}Request").DESCRIPTOR.fields:
            return await self._tell(call, None)
        with self._handlers.places.one() as place:
            if call.destination.route.asks_model:
                return await self._infer(call, place)
            data = await self._read(call, place)
            if len(data) > LITTLE_BYTES:
                raise RefusedError(413, "TooLarge", f"The message exceeds {LITTLE_BYTES:,} bytes.")
        return await self._tell(call, call.read(data))

    async def _read(self, call: _Call, place: TakenPlace) -> bytes:
        """Wait for the message."""
        try:
            data: bytes = await call.context.read()
        except grpc.aio.BaseError:
            data = grpc.aio.EOF
        if data is grpc.aio.EOF:
            raise RefusedError(413, "TooLarge", "The message is not there, or is too large.")
        place.hold(len(data))
        return data

    async def _tell(self, call: _Call, request: Any) -> bytes:
        """Answer what asks no model."""
        route = call.destination.route
        model = call.destination.model or getattr(request, "name", "")
        destination = RequestDestination(route, model, getattr(request, "version", "") or None)
        fields = {name: getattr(request, name) for name in route.fields}
        return _write_document(call.name, await self._handlers.document(destination, fields))

    async def _infer(self, call: _Call, place: TakenPlace) -> bytes:
        """Answer a question to a model."""
        handlers = self._handlers
        data = await self._read(call, place)
        is_long = len(data) > LONG_BYTES
        request = (
            await handlers.aside(self._read_bounded, call, data) if is_long else call.read(data)
        )
        batcher = handlers.catalog.find(request.model_name, request.model_version or None)
        served, rows = batcher.served, handlers.settings.rows
        if is_long:
            inference = await handlers.aside(read_message, request, served.signature, rows)
        else:
            inference = read_message(request, served.signature, rows)
        # While the request waits, its rows alone take memory.
        del request, data
        if not is_long and inference.answer_bytes <= LONG_BYTES:
            answers = await batcher.answer(inference)
            return write_message(served.name, served.version, inference, answers)
        answers = await handlers.answer(batcher, inference, place)
        return await handlers.aside(write_message, served.name, served.version, inference, answers)

    def _read_bounded(self, call: _Call, data: bytes) -> Any:
        """Read a long message, once what it holds is counted."""
        require_bounded(data, MOST_FIELDS + FIELDS_OF_TENSOR * self._handlers.most_tensors)
        return call.read(data)

    def _require_token(self, call: _Call) -> None:
        metadata = dict(call.context.invocation_metadata() or ())
        authorization = str(metadata.get("authorization", "")).encode()
        token = self._handlers.settings.token
        require_token(call.destination.route, authorization, token, "metadata authorization")


def _write_document(name: str, document: Any) -> bytes:
    """Return the bytes of the message that answers a method, of what it holds of a document."""
    response = message(f"{name}Response")
    values = {"models": document} if isinstance(document, list) else document
    fields = values.keys() & response.DESCRIPTOR.fields_by_name.keys()
    data: bytes = response(**{field: values[field] for field in fields}).SerializeToString()
    return data
