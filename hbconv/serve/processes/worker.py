"""A process that answers requests: a worker of a generation, or one process alone.

A worker answers for some models until it is told to leave, and never changes. Where none can fork
another, as on Windows, one process loads the models once, and answers. To serve others, it is
started again. It answers on uvloop's loop, and on asyncio's where that is missing, as on Windows.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hbconv.errors import OptionError, StoreError
from hbconv.model import Model, load
from hbconv.serve.batching import Batcher, Catalog
from hbconv.serve.http.server import HttpServer
from hbconv.serve.metrics import Metrics
from hbconv.serve.model_files import Assignment, ModelFile
from hbconv.serve.protocol.handlers import Control, Handlers
from hbconv.serve.served_model import ServedModel, warm
from hbconv.serve.settings import Settings

__all__ = ["answer_requests", "read_model", "run_loop", "serve_alone"]


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run some work to its end."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop


THREADS = 4
"""Batches of different models that are computed side by side."""


def read_model(file: ModelFile, assignment: Assignment) -> Model:
    """Read the model of a file, as the settings say.

    Raises
    ------
    HbconvError
        The file is damaged, or the model does not compile.
    """
    settings = assignment.settings
    return load(file.path, settings.backend, trusted=settings.trusted)


async def answer_requests(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: Any,
    ended: Awaitable[Any],
    begun: Callable[[], object],
    closed: Callable[[], object],
) -> None:
    """Answer requests until ``ended``, and then those that are there.

    Parameters
    ----------
    models : sequence of ServedModel
    assignment : Assignment
    listening : socket
        Bound.
    ended : awaitable
        Done when the worker is to leave.
    begun, closed : callable
        Called once requests are answered, and once no more are taken.
    """
    metrics = Metrics()
    settings = assignment.settings
    with ThreadPoolExecutor(THREADS, "hbconv-batch") as threads:
        batchers = (Batcher(served, settings, threads, metrics) for served in models)
        handlers = Handlers(Catalog(batchers), settings, metrics, Control(assignment))
        server = HttpServer(handlers)
        metrics.begin(models)
        over_grpc = await _start_grpc(handlers)
        await server.start(listening)
        begun()
        await ended
        handlers.is_leaving = True
        stopping = over_grpc.stop(settings.seconds) if over_grpc is not None else asyncio.sleep(0)
        await asyncio.gather(_leave(server, closed), stopping)
        handlers.publish()


async def _start_grpc(handlers: Handlers) -> Any:
    """Serve gRPC too, where it has a port. It is imported here, for it does not outlive a fork."""
    if handlers.settings.grpc_port is None:
        return None
    from hbconv.serve.protocol.grpc_service import start_grpc

    return await start_grpc(handlers)


async def _leave(server: HttpServer, closed: Callable[[], object]) -> None:
    """Take no new connections, and answer those that are there."""
    # Two turns of the loop accept the connections that the kernel had taken.
    for _ in range(2):
        await asyncio.sleep(0)
    server.close()
    closed()
    await server.end()


_log = logging.getLogger("hbconv.serve")


def serve_alone(
    files: Sequence[ModelFile],
    settings: Settings,
    listening: socket.socket,
    tell: Callable[[Assignment], None],
) -> None:
    """Serve models by this process until a signal ends it.

    Parameters
    ----------
    files : sequence of ModelFile
    settings : Settings
    listening : socket
        Bound.
    tell : callable
        Says what is served, once it is.

    Raises
    ------
    OptionError
        There are to be several workers, or clients are to load models.
    StoreError
        A model cannot be loaded.
    """
    _require_one_process(settings)
    assignment = Assignment(tuple(files), (), settings, "")
    models = [_warmed(file, assignment) for file in files]
    run_loop(_answer(models, assignment, listening, tell))


def _require_one_process(settings: Settings) -> None:
    if settings.workers > 1:
        raise OptionError(
            f"--workers {settings.workers} needs a system that can fork processes, which this one "
            "cannot. Leave it out, and start several servers on ports of their own."
        )
    if settings.control:
        raise OptionError(
            "--control needs a system that can fork processes, which this one cannot. Leave it "
            "out, and start the server again to serve other models."
        )


def _warmed(file: ModelFile, assignment: Assignment) -> ServedModel:
    try:
        model = read_model(file, assignment)
        return warm(file.name, file.version, model, assignment.settings.methods)
    except OSError as error:
        raise StoreError(f"{file.path}: {error}") from error


async def _answer(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    tell: Callable[[Assignment], None],
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    # Not by the loop, whose handlers of signals Windows does not have.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(ended.set))

    def leave() -> None:
        _log.info("Takes no more requests, and answers those that came")

    await answer_requests(
        models, assignment, listening, ended.wait(), lambda: tell(assignment), leave
    )
    _log.info("Ended")
