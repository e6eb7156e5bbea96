"""Handlers: what answers each route."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from hbconv.serve.answers import Answers, require_size
from hbconv.serve.batching import Batcher, Outcome, Waiting
from hbconv.serve.catalog import Catalog
from hbconv.serve.http.messages import LONG_BYTES, Request, Response, as_json, in_parts
from hbconv.serve.inference import Inference
from hbconv.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from hbconv.serve.places import Places, TakenPlace
from hbconv.serve.protocol.control import Control
from hbconv.serve.protocol.documents import model_document, server_document
from hbconv.serve.protocol.json_pieces import read_long_json, require_few_lists
from hbconv.serve.protocol.json_reader import read_json
from hbconv.serve.protocol.openapi import openapi_document
from hbconv.serve.protocol.page import page
from hbconv.serve.protocol.records import read_records, write_records
from hbconv.serve.protocol.v2_request import read_v2
from hbconv.serve.protocol.v2_response import write_v2
from hbconv.serve.routes import Route
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings
from hbconv.serve.signature import ModelSignature

__all__ = ["Handlers", "settling"]

_LENGTH = b"inference-header-content-length"

MOST_LISTS_OF_ITEM = 16
"""Lists and objects in an item, on average."""

Handler = Callable[[Route, Request], Coroutine[Any, Any, Response]]
Settle = Callable[[Response | Exception], None]
Write = Callable[[Inference, Answers], Response]
Read = Callable[[ServedModel, Request, int], tuple[Inference, Write]]
T = TypeVar("T")


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
        self.places = Places(settings.queued, settings.held_bytes)
        self._desk = ThreadPoolExecutor(1, "hbconv-desk")
        self._turn = asyncio.Semaphore()
        self._metrics = metrics

    @property
    def most_tensors(self) -> int:
        """Tensors that the widest model takes and gives."""
        versions = (one.served for found in self.catalog.models.values() for one in found.values())
        return max((one.signature.tensors for one in versions), default=0)

    def count(self, route: Route, status: int, seconds: float) -> None:
        """Count a request that is answered; a model by its name only if there is one."""
        model = route.model if route.model in self.catalog.models else ""
        self._metrics.request(route.name, model, status, seconds)

    def publish(self) -> None:
        """Tell other processes what was counted."""
        self._metrics.publish(self.places.taken)

    # What models answer.

    def ask(
        self, route: Route, request: Request, place: TakenPlace, settle: Settle
    ) -> Waiting | asyncio.Task[Response]:
        """Ask a model; ``settle`` takes the response, or the error, once it is there."""
        batcher = self.catalog.find(route.model, route.version)
        read = _read_tensors if route.name == "infer" else _read_records
        if request.is_long:
            return settling(self._read_and_answer(batcher, request, read, place), settle)
        asked, write = read(batcher.served, request, self.settings.rows)
        require_size(asked.answer_bytes, self.settings.answer_bytes)
        if asked.answer_bytes > LONG_BYTES:
            return settling(self._answer(batcher, asked, write, place), settle)

        def then(outcome: Outcome) -> None:
            try:
                settle(outcome if isinstance(outcome, Exception) else write(asked, outcome))
            except Exception as error:
                settle(error)

        return batcher.ask(asked, then)

    async def _read_and_answer(
        self, batcher: Batcher, request: Request, read: Read, place: TakenPlace
    ) -> Response:
        """Answer a request whose body is long."""
        asked, write = await self.aside(read, batcher.served, request, self.settings.rows)
        request.received = b""
        return await self._answer(batcher, asked, write, place)

    async def _answer(
        self, batcher: Batcher, asked: Inference, write: Write, place: TakenPlace
    ) -> Response:
        answers = await self.answer(batcher, asked, place)
        return await self.aside(write, asked, answers)

    async def answer(self, batcher: Batcher, asked: Inference, place: TakenPlace) -> Answers:
        """Wait for the answers to a request of any protocol, which is long or has a long answer.

        Raises
        ------
        RefusedError
            They take too many bytes, or all requests together do.
        InputError
            The model refuses its rows.
        """
        require_size(asked.answer_bytes, self.settings.answer_bytes)
        place.hold(asked.answer_bytes + await self.aside(asked.rows.size))
        return await batcher.answer(asked)

    async def aside(self, work: Callable[..., T], *given: Any) -> T:
        """Wait for work that takes a while. One such is done at a time, which bounds its memory.

        Who is cancelled before its turn leaves nothing in a queue, where a body takes memory
        that no place counts any more.
        """
        await self._turn.acquire()
        begun = self._desk.submit(work, *given)
        begun.add_done_callback(partial(self._end_turn, asyncio.get_running_loop()))
        return await asyncio.wrap_future(begun)

    def _end_turn(self, loop: asyncio.AbstractEventLoop, _: Future[Any]) -> None:
        """Let the next one work, unless the loop is closed: the worker has ended."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._turn.release)

    # What the server tells.

    def tell(self, route: Route, request: Request) -> Coroutine[Any, Any, Response]:
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


def settling(work: Coroutine[Any, Any, Response], settle: Settle) -> asyncio.Task[Response]:
    """Begin some work, whose outcome is told unless it is cancelled."""

    def told(task: asyncio.Task[Response]) -> None:
        if not task.cancelled():
            error = task.exception()
            settle(error if isinstance(error, Exception) else task.result())

    task = asyncio.ensure_future(work)
    task.add_done_callback(told)
    return task


def _read_tensors(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read tensors, which tensors answer."""
    asked = read_v2(request.body(), request.header(_LENGTH), served.signature, most_rows)
    return asked, partial(_write_tensors, served)


def _write_tensors(served: ServedModel, asked: Inference, answers: Answers) -> Response:
    parts, json_bytes = write_v2(served.name, served.version, asked, answers)
    if json_bytes is None:
        return in_parts(parts)
    return in_parts(parts, b"application/octet-stream", ((_LENGTH, b"%d" % json_bytes),))


def _read_records(served: ServedModel, request: Request, most_rows: int) -> tuple[Inference, Write]:
    """Read records, which named values answer."""
    body = request.body()
    is_long = len(body) > LONG_BYTES
    document = _read_long(served.signature, body, most_rows) if is_long else read_json(body)
    return read_records(document, served.signature, most_rows), _write_records


def _read_long(signature: ModelSignature, body: bytes | bytearray, most_rows: int) -> Any:
    """Read a long body; where the model takes the values as they are, they are counted first."""
    if signature.feeds == "items":
        require_few_lists(body, MOST_LISTS_OF_ITEM * most_rows)
    return read_long_json(memoryview(body), "instances")


def _write_records(asked: Inference, answers: Answers) -> Response:
    return in_parts(write_records(asked, answers))
