"""Handlers: what answers each route."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from hbconv.serve.answers import Answers, require_size
from hbconv.serve.batching import Batcher
from hbconv.serve.catalog import Catalog
from hbconv.serve.control import Control
from hbconv.serve.documents import model_document, server_document
from hbconv.serve.inference import Inference
from hbconv.serve.messages import Request, Response, as_json
from hbconv.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from hbconv.serve.openapi import openapi_document
from hbconv.serve.page import page
from hbconv.serve.records import read_records, write_records
from hbconv.serve.refusal import RefusedError
from hbconv.serve.routes import Route
from hbconv.serve.settings import Settings
from hbconv.serve.v2_request import read_json, read_v2
from hbconv.serve.v2_response import write_v2

__all__ = ["Handlers"]

_LENGTH = b"inference-header-content-length"

Handler = Callable[[Route, Request], Awaitable[Response]]


class Handlers:
    """Answers each route from the models of a catalog.

    Parameters
    ----------
    catalog : Catalog
    settings : Settings
    metrics : Metrics
    control : Control

    Attributes
    ----------
    leaving : Future, optional
        Where the worker ends: it is ready no more, and closes each connection after its next
        answer.
    """

    def __init__(
        self, catalog: Catalog, settings: Settings, metrics: Metrics, control: Control
    ) -> None:
        self.leaving: asyncio.Future[None] | None = None
        self.control = control
        self.settings = settings
        self.catalog = catalog
        self._metrics = metrics
        self._running = 0

    def find(self, route: Route) -> Handler:
        """Return the handler of a route."""
        handler: Handler = getattr(self, f"on_{route.name}")
        return handler

    def count(self, route: Route, status: int, seconds: float) -> None:
        """Count a request that is answered; a model by its name only if there is one."""
        model = route.model if route.model in self.catalog.models else ""
        self._metrics.request(route.name, model, status, seconds)

    # What models answer.

    async def on_infer(self, route: Route, request: Request) -> Response:
        """Answer tensors with tensors."""
        batcher = self.catalog.find(route.model, route.version)
        served = batcher.served
        with self.place():
            body = await request.body()
            length = request.header(_LENGTH)
            asked = read_v2(body, length, served.signature, self.settings.rows)
            answers = await self.computed(batcher, asked)
        document, json_bytes = write_v2(served.name, served.version, asked, answers)
        if json_bytes is None:
            return Response(document)
        headers = ((_LENGTH, b"%d" % json_bytes),)
        return Response(document, 200, "application/octet-stream", headers)

    async def on_predict(self, route: Route, request: Request) -> Response:
        """Answer records with named values."""
        batcher = self.catalog.find(route.model, route.version)
        with self.place():
            document = read_json(await request.body())
            asked = read_records(document, batcher.served.signature, self.settings.rows)
            answers = await self.computed(batcher, asked)
        return as_json(write_records(asked, answers))

    async def computed(self, batcher: Batcher, asked: Inference) -> Answers:
        """Return the answers to a request of any protocol."""
        require_size(asked.wanted, asked.rows.count, self.settings.answer_bytes)
        return await batcher.answer(asked)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place among the requests that are read, wait or are computed."""
        if self._running >= self.settings.queued:
            raise RefusedError(
                503, "Busy", f"{self._running} requests are waiting already.", retry_after=1
            )
        self._running += 1
        self._metrics.running.inc()
        try:
            yield
        finally:
            self._running -= 1
            self._metrics.running.dec()

    # What the server tells.

    async def on_page(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Send the page that a browser shows."""
        return Response(page(), 200, "text/html; charset=utf-8")

    async def on_openapi(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Describe all routes."""
        secured = self.settings.token is not None
        served = [one.served for found in self.catalog.models.values() for one in found.values()]
        return as_json(openapi_document(served, secured=secured))

    async def on_metrics(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell what was counted."""
        return Response(self._metrics.text(), 200, CONTENT_TYPE_LATEST)

    async def on_server(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell of the server."""
        return as_json(server_document())

    async def on_live(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell that the server runs."""
        return as_json({"live": True})

    async def on_ready(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell whether the server, or a model, takes requests."""
        if route.model:
            self.catalog.find(route.model, route.version)
            return as_json({"name": route.model, "ready": True})
        return as_json({"ready": self.leaving is None}, 200 if self.leaving is None else 503)

    async def on_model(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell of a model."""
        batcher = self.catalog.find(route.model, route.version)
        return as_json(model_document(batcher.served, self.catalog.models[route.model]))

    # Which models there are.

    async def on_index(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell the models that are there, served or not."""
        document = read_json(await request.body() or b"{}")
        only_ready = isinstance(document, dict) and document.get("ready") is True
        return as_json(self.control.index(only_ready=only_ready))

    async def on_load(self, route: Route, request: Request) -> Response:
        """Load a model as its files are now."""
        document = read_json(await request.body() or b"{}")
        parameters = document.get("parameters") if isinstance(document, dict) else None
        self.control.require_no_parameters(parameters)
        await self.control.ask("load", route.model)
        return as_json({})

    async def on_unload(self, route: Route, request: Request) -> Response:
        """Serve a model no more."""
        await request.body()
        await self.control.ask("unload", route.model)
        return as_json({})
