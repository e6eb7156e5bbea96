"""The Open Inference Protocol v2 over gRPC: the same models, limits and errors as over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from hbconv.serve.access import is_bearer
from hbconv.serve.documents import model_document, server_document
from hbconv.serve.grpc_messages import SERVICE, message
from hbconv.serve.grpc_tensors import read_message, write_message
from hbconv.serve.handlers import Handlers
from hbconv.serve.refusal import RefusedError, log_failure, refusal_of
from hbconv.serve.routes import Route
from hbconv.serve.settings import Settings

__all__ = ["start_grpc"]


_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_METHODS = {
    "ServerLive": "live",
    "ServerReady": "ready",
    "ModelReady": "ready",
    "ServerMetadata": "server",
    "ModelMetadata": "model",
    "ModelInfer": "infer",
    "RepositoryIndex": "index",
    "RepositoryModelLoad": "load",
    "RepositoryModelUnload": "unload",
}
"""Methods of the service, and the routes that they are counted as."""

Method = Callable[[Any], Awaitable[Any]]


async def start_grpc(handlers: Handlers) -> grpc.aio.Server:
    """Start a server on the port of the settings, which workers share."""
    settings = handlers.settings
    options = [
        ("grpc.so_reuseport", 1),
        ("grpc.max_receive_message_length", settings.body_bytes),
        ("grpc.max_send_message_length", settings.answer_bytes + (1 << 20)),
    ]
    server = grpc.aio.server(options=options)
    service = _Service(handlers)
    methods = {name: service.method(name) for name in _METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    _add_port(server, f"{host}:{settings.grpc_port}", settings)
    await server.start()
    return server


def _add_port(server: grpc.aio.Server, address: str, settings: Settings) -> None:
    if settings.certificate is None or settings.key is None:
        server.add_insecure_port(address)
        return
    pair = (Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes())
    server.add_secure_port(address, grpc.ssl_server_credentials([pair]))


class _Service:
    """Answers each method."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def method(self, name: str) -> grpc.RpcMethodHandler:
        """Return what gRPC calls for a method."""
        answer: Method = getattr(self, f"_{_METHODS[name]}")

        async def called(request: Any, context: Any) -> Any:
            route = Route(_METHODS[name], getattr(request, "model_name", ""))
            began = asyncio.get_running_loop().time()
            try:
                self._require_token(name, context)
                async with asyncio.timeout(self._handlers.settings.seconds):
                    response = await answer(request)
            except Exception as error:
                refusal = refusal_of(error)
                log_failure(error)
                self._handlers.count(route, refusal.status, 0.0)
                code = _CODES.get(refusal.status, grpc.StatusCode.INTERNAL)
                return await context.abort(code, str(refusal))
            self._handlers.count(route, 200, asyncio.get_running_loop().time() - began)
            return response

        return grpc.unary_unary_rpc_method_handler(
            called,
            request_deserializer=message(f"{name}Request").FromString,
            response_serializer=message(f"{name}Response").SerializeToString,
        )

    def _require_token(self, name: str, context: Any) -> None:
        token = self._handlers.settings.token
        if token is None or name in ("ServerLive", "ServerReady"):
            return
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        if not is_bearer(str(given).encode(), token):
            raise RefusedError(
                401, "Unauthorized", "Send the metadata authorization: Bearer TOKEN."
            )

    async def _live(self, request: Any) -> Any:  # noqa: ARG002
        return message("ServerLiveResponse")(live=True)

    async def _ready(self, request: Any) -> Any:
        name = getattr(request, "name", None)
        if name is None:
            return message("ServerReadyResponse")(ready=not self._handlers.is_leaving)
        self._handlers.catalog.find(name, request.version or None)
        return message("ModelReadyResponse")(ready=True)

    async def _server(self, request: Any) -> Any:  # noqa: ARG002
        return message("ServerMetadataResponse")(**server_document())

    async def _model(self, request: Any) -> Any:
        catalog = self._handlers.catalog
        served = catalog.find(request.name, request.version or None).served
        return message("ModelMetadataResponse")(
            **model_document(served, catalog.models[served.name])
        )

    async def _infer(self, request: Any) -> Any:
        handlers = self._handlers
        batcher = handlers.catalog.find(request.model_name, request.model_version or None)
        served = batcher.served
        with handlers.places.one():
            asked = read_message(request, served.signature, handlers.settings.rows)
            handlers.require_size(asked)
            answers = await batcher.answer(asked)
        return write_message(served.name, served.version, asked, answers)

    async def _index(self, request: Any) -> Any:
        found = self._handlers.control.index(only_ready=request.ready)
        return message("RepositoryIndexResponse")(models=found)

    async def _load(self, request: Any) -> Any:
        self._handlers.control.require_no_parameters(request.parameters)
        await self._handlers.control.ask("load", request.model_name)
        return message("RepositoryModelLoadResponse")()

    async def _unload(self, request: Any) -> Any:
        await self._handlers.control.ask("unload", request.model_name)
        return message("RepositoryModelUnloadResponse")()
