"""A worker: one process that answers requests until it is told to leave."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
import uvloop

from hbconv.serve.app import Application
from hbconv.serve.assignment import Assignment
from hbconv.serve.batching import Batcher
from hbconv.serve.catalog import Catalog
from hbconv.serve.control import Control
from hbconv.serve.handlers import Handlers
from hbconv.serve.http_protocol import BoundedProtocol
from hbconv.serve.metrics import Metrics
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings

__all__ = ["work"]

THREADS = 4
"""Batches of different models that are computed side by side."""
KEEP_ALIVE_SECONDS = 60
LEAVE_SECONDS = 2.0
"""Idle connections stay open so long for a last request, whose answer closes them."""
LOOK_SECONDS = 0.1


def work(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    alive: int,
    status: int,
) -> None:
    """Answer requests until SIGTERM, and then those that are there.

    Parameters
    ----------
    models : sequence of ServedModel
    assignment : Assignment
    listening : socket
        Bound, and shared with other processes.
    alive : int
        A pipe that ends when the generation does. Then the worker leaves too.
    status : int
        A pipe, where the worker writes a byte once requests are answered. It is closed when the
        worker takes no more.
    """
    uvloop.run(_work(models, assignment, listening, alive, status))


async def _work(
    models: Sequence[ServedModel],
    assignment: Assignment,
    listening: socket.socket,
    alive: int,
    status: int,
) -> None:
    metrics = Metrics()
    settings = assignment.settings
    with ThreadPoolExecutor(THREADS, "hbconv-batch") as threads:
        batchers = (Batcher(served, settings, threads, metrics) for served in models)
        handlers = Handlers(Catalog(batchers), settings, metrics, Control(assignment))
        server = _Server(_config(Application(handlers), settings))
        leave = partial(_begin_to_leave, server, handlers, lambda: os.close(status))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, leave)
        loop.add_reader(alive, leave)
        over_grpc = await _start_grpc(handlers)
        serving = asyncio.ensure_future(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        os.write(status, b"1")
        await serving
        if over_grpc is not None:
            await over_grpc.stop(settings.seconds)


async def _start_grpc(handlers: Handlers) -> Any:
    """Serve gRPC too, where it has a port. It is imported here, for it does not outlive a fork."""
    if handlers.settings.grpc_port is None:
        return None
    from hbconv.serve.grpc_service import start_grpc

    return await start_grpc(handlers)


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signals."""
        yield


def _config(app: Application, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )


def _begin_to_leave(server: _Server, handlers: Handlers, when_closed: Callable[[], object]) -> None:
    """Take no requests soon; asked again, do nothing more."""
    if not handlers.leaving:
        handlers.leaving = asyncio.ensure_future(_leave(server, when_closed))


async def _leave(server: _Server, when_closed: Callable[[], object]) -> None:
    """Take no new connections, and close each one after its next answer.

    A client that keeps a connection may be sending a request while the server decides to close it.
    So connections are closed by the server only after they were idle for a while.
    """
    for _ in range(2):
        await asyncio.sleep(0)  # the loop accepts the connections that the kernel had taken
    for listener in server.servers:
        listener.close()
    when_closed()
    for _ in range(int(LEAVE_SECONDS / LOOK_SECONDS)):
        if not server.server_state.connections:
            break
        await asyncio.sleep(LOOK_SECONDS)
    server.should_exit = True
