"""A worker: one process that answers requests until it is told to leave."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from hbconv.serve.assignment import Assignment
from hbconv.serve.batching import Batcher
from hbconv.serve.catalog import Catalog
from hbconv.serve.http.server import HttpServer
from hbconv.serve.metrics import Metrics
from hbconv.serve.protocol.control import Control
from hbconv.serve.protocol.handlers import Handlers
from hbconv.serve.served_model import ServedModel

__all__ = ["work"]

THREADS = 4
"""Batches of different models that are computed side by side."""


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
        server = HttpServer(handlers)
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, told.set)
        loop.add_reader(alive, told.set)
        metrics.begin(models)
        over_grpc = await _start_grpc(handlers)
        await server.start(listening)
        os.write(status, b"1")
        await told.wait()
        loop.remove_reader(alive)
        handlers.is_leaving = True
        stopping = over_grpc.stop(settings.seconds) if over_grpc is not None else asyncio.sleep(0)
        await asyncio.gather(_leave(server, status), stopping)
        handlers.publish()


async def _start_grpc(handlers: Handlers) -> Any:
    """Serve gRPC too, where it has a port. It is imported here, for it does not outlive a fork."""
    if handlers.settings.grpc_port is None:
        return None
    from hbconv.serve.protocol.grpc_service import start_grpc

    return await start_grpc(handlers)


async def _leave(server: HttpServer, status: int) -> None:
    """Take no new connections, and answer those that are there."""
    for _ in range(2):
        await asyncio.sleep(0)  # the loop accepts the connections that the kernel had taken
    server.close()
    os.close(status)
    await server.end()
