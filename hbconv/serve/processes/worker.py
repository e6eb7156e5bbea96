"""A worker: it answers requests of some models until it is told to leave, and never changes.

It answers on uvloop's loop, and on asyncio's where that is missing, as on Windows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hbconv.model import Model, load
from hbconv.serve.batching import Batcher, Catalog
from hbconv.serve.http.server import HttpServer
from hbconv.serve.metrics import Metrics
from hbconv.serve.model_files import Assignment, ModelFile
from hbconv.serve.protocol.handlers import Control, Handlers
from hbconv.serve.served_model import ServedModel

__all__ = ["answer_requests", "read_model", "run_loop"]


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
