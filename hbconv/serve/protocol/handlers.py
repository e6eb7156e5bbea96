"""Handlers: what answers each route."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from importlib import resources
from itertools import chain
from typing import Any, TypeVar

from hbconv import __version__
from hbconv.errors import shown
from hbconv.serve.batching import Batcher, Catalog, Outcome, Waiting
from hbconv.serve.failures import RefusedError
from hbconv.serve.http.exchange import Settle, settle_later
from hbconv.serve.http.messages import LONG_BYTES, Request, Response, respond_json
from hbconv.serve.inference import Inference
from hbconv.serve.metrics import CONTENT_TYPE_LATEST, Metrics
from hbconv.serve.model_files import Assignment
from hbconv.serve.places import Places, TakenPlace
from hbconv.serve.protocol.bodies import READERS, Read, Write
from hbconv.serve.protocol.json_documents import read_json
from hbconv.serve.protocol.metadata import describe_config, describe_model
from hbconv.serve.protocol.openapi import openapi_document
from hbconv.serve.routes import Asked, RequestDestination, Route
from hbconv.serve.served_model import Answers, require_size
from hbconv.serve.settings import Settings

__all__ = ["Control", "Handlers"]

EXTENSIONS = ("binary_tensor_data", "model_repository", "model_configuration", "statistics")
"""Of the Open Inference Protocol."""
Handler = Callable[[RequestDestination, Mapping[str, Any]], Coroutine[Any, Any, Any]]
T = TypeVar("T")


class Control:
    """The repository of models, as a worker lists and changes it.

    Parameters
    ----------
    assignment : Assignment
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment

    def index(self, *, only_ready: bool) -> list[dict[str, Any]]:
        """List each version of each model, and whether it is served."""
        served = [
            {"name": file.name, "version": file.version, "state": "READY", "reason": ""}
            for file in self._assignment.files
        ]
        if only_ready:
            return served
        return served + [
            {
                "name": file.name,
                "version": file.version,
                "state": "UNAVAILABLE",
                "reason": "unloaded",
            }
            for file in self._assignment.unloaded
        ]

    def require_no_parameters(self, parameters: object) -> None:
        """Refuse to load a model otherwise than from its files.

        Raises
        ------
        RefusedError
            There are parameters.
        """
        if parameters:
            raise RefusedError(
                400, "InputError", "A model is loaded from its files alone: send no parameters."
            )

    async def ask(self, action: str, name: str) -> None:
        """Ask for a model to be loaded or unloaded, and wait until it is.

        Raises
        ------
        RefusedError
            Clients may not, there is no such model, or it cannot be loaded.
        """
        if not self._assignment.control:
            raise RefusedError(
                403,
                "Forbidden",
                "This server does not load or unload models. Start it with --control.",
            )
        names = {file.name for file in (*self._assignment.files, *self._assignment.unloaded)}
        if action == "unload" and name not in names:
            raise RefusedError(404, "NotFound", f"There is no model {shown(name)}.")
        # A worker never changes, so the supervisor starts another generation.
        reader, writer = await asyncio.open_unix_connection(self._assignment.control)
        try:
            writer.write(json.dumps({"action": action, "name": name}).encode() + b"\n")
            reply = json.loads(await reader.readline() or b'{"error": "The server ends."}')
        finally:
            writer.close()
        if "error" in reply:
            raise RefusedError(400, "StoreError", reply["error"])


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
        self._described: bytes | None = None

    @property
    def most_tensors(self) -> int:
        """Tensors that the widest model takes and gives."""
        versions = chain.from_iterable(map(dict.values, self.catalog.models.values()))
        return max((batcher.served.signature.tensors for batcher in versions), default=0)

    def count(
        self, destination: RequestDestination, asked: Asked, status: int, seconds: float
    ) -> None:
        """Count a request that is answered; a model by its name only if there is one."""
        route = destination.route
        model = asked.model or destination.model
        counted = Asked(model, asked.version) if model in self.catalog.models else Asked()
        self._metrics.request(route.label or route.name, counted, status, seconds)

    def publish(self) -> None:
        """Hand what was counted over to other processes."""
        self._metrics.publish(self.places.taken)

    # What models answer.

    def ask(
        self, destination: RequestDestination, request: Request, place: TakenPlace, settle: Settle
    ) -> Waiting | asyncio.Task[Response]:
        """Ask a model; ``settle`` takes the response, or the error, once it is there."""
        # Short requests take no task: with tasks, timers and ASGI a row took 143 us, not 73.
        batcher = self.catalog.find(destination.model, destination.version)
        request.asked = batcher.served.asked
        read = READERS[destination.route.name]
        if request.is_long:
            return settle_later(self._read_and_answer(batcher, request, read, place), settle)
        inference, write = read(batcher.served, request, self.settings.rows)
        _note(request, inference)
        require_size(inference.answer_bytes, self.settings.answer_bytes)
        if inference.answer_bytes > LONG_BYTES:
            return settle_later(self._answer(batcher, inference, write, place), settle)

        def then(outcome: Outcome) -> None:
            try:
                settle(outcome if isinstance(outcome, Exception) else write(inference, outcome))
            except Exception as error:
                settle(error)

        return batcher.ask(inference, then)

    async def _read_and_answer(
        self, batcher: Batcher, request: Request, read: Read, place: TakenPlace
    ) -> Response:
        """Answer a request whose body is long."""
        inference, write = await self.aside(read, batcher.served, request, self.settings.rows)
        _note(request, inference)
        # The body is read; its bytes are freed while the rows wait.
        request.received = b""
        return await self._answer(batcher, inference, write, place)

    async def _answer(
        self, batcher: Batcher, inference: Inference, write: Write, place: TakenPlace
    ) -> Response:
        answers = await self.answer(batcher, inference, place)
        return await self.aside(write, inference, answers)

    async def answer(self, batcher: Batcher, inference: Inference, place: TakenPlace) -> Answers:
        """Wait for the answers to a request of any protocol, which is long or has a long answer.

        Raises
        ------
        RefusedError
            They take too many bytes, or all requests together do.
        InputError
            The model refuses its rows.
        """
        require_size(inference.answer_bytes, self.settings.answer_bytes)
        place.hold(inference.answer_bytes + await self.aside(inference.rows.size))
        return await batcher.answer(inference)

    async def aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Wait for work that takes a while. One such is done at a time, which bounds its memory.

        Who is cancelled before its turn leaves nothing in a queue, where a body takes memory
        that no place counts any more.
        """
        await self._turn.acquire()
        begun = self._desk.submit(work, *arguments)
        begun.add_done_callback(partial(self._end_turn, asyncio.get_running_loop()))
        return await asyncio.wrap_future(begun)

    def _end_turn(self, loop: asyncio.AbstractEventLoop, _: Future[Any]) -> None:
        """Let the next one work, unless the loop is closed: the worker has ended."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._turn.release)

    # What the server reports.

    async def tell(self, destination: RequestDestination, request: Request) -> Response:
        """Answer what asks no model."""
        document = await self.document(destination, _read_fields(destination.route, request))
        if isinstance(document, Response):
            return document
        return respond_json(document, 503 if document == {"ready": False} else 200)

    def document(
        self, destination: RequestDestination, fields: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Handle a request of any protocol that asks no model.

        Parameters
        ----------
        destination : RequestDestination
        fields : mapping
            What it holds of ``Route.fields``.

        Returns
        -------
        document : dict or list
            Or a ``Response``, where it is no JSON.
        """
        handler: Handler = getattr(self, f"on_{destination.route.name}")
        return handler(destination, fields)

    async def on_page(self, *_: object) -> Response:
        """Send the page that a browser shows."""
        return Response(_page(), 200, b"text/html; charset=utf-8")

    async def on_openapi(self, *_: object) -> Response:
        """Describe all routes."""
        if self._described is None:
            models = {
                name: {version: batcher.served for version, batcher in versions.items()}
                for name, versions in self.catalog.models.items()
            }
            secured = self.settings.token is not None
            # Models are asked for their examples, once: those of a worker never change.
            describe = partial(openapi_document, models, secured=secured)
            self._described = respond_json(await self.aside(describe)).body
        return Response(self._described)

    async def on_metrics(self, *_: object) -> Response:
        """Report what was counted."""
        self.publish()
        return Response(self._metrics.text(), 200, CONTENT_TYPE_LATEST.encode())

    async def on_server(self, *_: object) -> Any:
        """Describe the server."""
        return {"name": "hbconv", "version": __version__, "extensions": EXTENSIONS}

    async def on_live(self, *_: object) -> Any:
        """Report that the server runs."""
        return {"live": True}

    async def on_ready(self, *_: object) -> Any:
        """Report whether the server takes requests."""
        return {"ready": not self.is_leaving}

    async def on_model_ready(self, destination: RequestDestination, _: object) -> Any:
        """Report that a model takes requests."""
        self.catalog.find(destination.model, destination.version)
        return {"name": destination.model, "ready": True}

    async def on_model(self, destination: RequestDestination, _: object) -> Any:
        """Describe a model: its versions, inputs and outputs; -1 stands for the number of rows."""
        served = self.catalog.find(destination.model, destination.version).served
        return describe_model(served, list(self.catalog.models[served.name]))

    async def on_model_config(self, destination: RequestDestination, _: object) -> Any:
        """Describe a model as Triton does."""
        return describe_config(self.catalog.find(destination.model, destination.version).served)

    async def on_model_stats(self, destination: RequestDestination, _: object) -> Any:
        """Report how often models were asked; of all where none is named."""
        self.publish()
        found = self.catalog.find_all(destination.model, destination.version)
        statistics = self._metrics.statistics()
        return {"model_stats": [statistics.of(batcher.served.asked) for batcher in found]}

    async def on_models(self, *_: object) -> Any:
        """List the models that are served, as version 1 of the protocol does."""
        return {"models": list(self.catalog.models)}

    # Which models there are.

    async def on_index(self, _: object, fields: Mapping[str, Any]) -> Any:
        """List the models that are there, served or not."""
        return self.control.index(only_ready=fields.get("ready") is True)

    async def on_load(self, destination: RequestDestination, fields: Mapping[str, Any]) -> Any:
        """Load a model as its files are now."""
        self.control.require_no_parameters(fields.get("parameters"))
        await self.control.ask("load", destination.model)
        return {}

    async def on_unload(self, destination: RequestDestination, _: object) -> Any:
        """Stop serving a model."""
        await self.control.ask("unload", destination.model)
        return {}


def _note(request: Request, inference: Inference) -> None:
    """Note on a request what the log says of it."""
    request.rows, request.id = inference.rows.count, inference.id


@cache
def _page() -> bytes:
    """Return the page that a browser shows: one file, which loads nothing from elsewhere.

    It reads ``/openapi.json``, and sends requests that one edits.
    """
    return resources.files("hbconv.serve.protocol").joinpath("page.html").read_bytes()


def _read_fields(route: Route, request: Request) -> Mapping[str, Any]:
    """Read the body of a request that asks no model, where its route has fields."""
    document = read_json(request.body() or b"{}") if route.fields else {}
    return document if isinstance(document, dict) else {}
