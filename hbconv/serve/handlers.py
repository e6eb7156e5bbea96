"""Handlers: what answers each route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from hbconv.serve.answers import Answers, require_size
from hbconv.serve.batching import Outcome, Waiting
from hbconv.serve.catalog import Catalog
from hbconv.serve.control import Control
from hbconv.serve.documents import model_document, server_document
from hbconv.serve.inference import Inference
from hbconv.serve.messages import Request, Response, as_json
from hbconv.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from hbconv.serve.openapi import openapi_document
from hbconv.serve.page import page
from hbconv.serve.places import Places
from hbconv.serve.records import read_records, write_records
from hbconv.serve.routes import Route
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings
from hbconv.serve.v2_request import read_json, read_v2
from hbconv.serve.v2_response import write_v2

__all__ = ["Handlers"]

_LENGTH = b"inference-header-content-length"

Handler = Callable[[Route, Request], Awaitable[Response]]
Settle = Callable[[Response | Exception], None]


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
    is_leaving : bool
        The worker ends: it is ready no more, and closes connections once what came is answered.
    places : Places
    """

    def __init__(
        self, catalog: Catalog, settings: Settings, metrics: Metrics, control: Control
    ) -> None:
        self.is_leaving = False
        self.control = control
        self.settings = settings
        self.catalog = catalog
        self.places = Places(settings.queued)
        self._metrics = metrics

    def count(self, route: Route, status: int, seconds: float) -> None:
        """Count a request that is answered; a model by its name only if there is one."""
        model = route.model if route.model in self.catalog.models else ""
        self._metrics.request(route.name, model, status, seconds)

    def publish(self) -> None:
        """Tell other processes what was counted."""
        self._metrics.publish(self.places.taken)

    # What models answer.

    def ask(self, route: Route, request: Request, settle: Settle) -> Waiting:
        """Ask a model; ``settle`` takes the response, or the error, once it is there."""
        batcher = self.catalog.find(route.model, route.version)
        read = _read_tensors if route.name == "infer" else _read_records
        asked, write = read(batcher.served, request, self.settings.rows)
        self.require_size(asked)

        def then(outcome: Outcome) -> None:
            try:
                settle(outcome if isinstance(outcome, Exception) else write(asked, outcome))
            except Exception as error:
                settle(error)

        return batcher.ask(asked, then)

    def require_size(self, asked: Inference) -> None:
        """Refuse a request of any protocol whose answers take too many bytes.

        Raises
        ------
        RefusedError
            They exceed what the server sends at once.
        """
        require_size(asked.wanted, asked.rows.count, self.settings.answer_bytes)

    # What the server tells.

    def tell(self, route: Route, request: Request) -> Awaitable[Response]:
        """Answer what asks no model."""
        handler: Handler = getattr(self, f"on_{route.name}")
        return handler(route, request)

    async def on_page(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Send the page that a browser shows."""
        return Response(page(), 200, b"text/html; charset=utf-8")

    async def on_openapi(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Describe all routes."""
        secured = self.settings.token is not None
        served = [one.served for found in self.catalog.models.values() for one in found.values()]
        return as_json(openapi_document(served, secured=secured))

    async def on_metrics(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell what was counted."""
        self.publish()
        return Response(self._metrics.text(), 200, CONTENT_TYPE_LATEST.encode())

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
        return as_json({"ready": not self.is_leaving}, 503 if self.is_leaving else 200)

    async def on_model(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell of a model."""
        batcher = self.catalog.find(route.model, route.version)
        return as_json(model_document(batcher.served, self.catalog.models[route.model]))

    # Which models there are.

    async def on_index(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Tell the models that are there, served or not."""
        document = read_json(request.body() or b"{}")
        only_ready = isinstance(document, dict) and document.get("ready") is True
        return as_json(self.control.index(only_ready=only_ready))

    async def on_load(self, route: Route, request: Request) -> Response:
        """Load a model as its files are now."""
        document = read_json(request.body() or b"{}")
        parameters = document.get("parameters") if isinstance(document, dict) else None
        self.control.require_no_parameters(parameters)
        await self.control.ask("load", route.model)
        return as_json({})

    async def on_unload(self, route: Route, request: Request) -> Response:  # noqa: ARG002
        """Serve a model no more."""
        await self.control.ask("unload", route.model)
        return as_json({})


Write = Callable[[Inference, Answers], Response]


def _read_tensors(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read tensors, which tensors answer."""
    asked = read_v2(request.body(), request.header(_LENGTH), served.signature, most_rows)
    return asked, partial(_write_tensors, served)


def _write_tensors(served: ServedModel, asked: Inference, answers: Answers) -> Response:
    document, json_bytes = write_v2(served.name, served.version, asked, answers)
    if json_bytes is None:
        return Response(document)
    return Response(document, 200, b"application/octet-stream", ((_LENGTH, b"%d" % json_bytes),))


def _read_records(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read records, which named values answer."""
    asked = read_records(read_json(request.body()), served.signature, most_rows)
    return asked, _write_records


def _write_records(asked: Inference, answers: Answers) -> Response:
    return as_json(write_records(asked, answers))
