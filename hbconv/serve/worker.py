"""A worker: one process that answers requests until it is told to leave."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import uvicorn
import uvloop

from hbconv.serve.app import Application
from hbconv.serve.batching import Batcher
from hbconv.serve.catalog import Catalog
from hbconv.serve.handlers import Handlers
from hbconv.serve.http_protocol import BoundedProtocol
from hbconv.serve.metrics import Metrics
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings

__all__ = ["work"]

THREADS = 4
"""Batches of different models that are computed side by side."""
KEEP_ALIVE_SECONDS = 60
ACCEPT_SECONDS = 0.1
"""After this the connections that the kernel had taken are accepted."""
LEAVE_SECONDS = 2.0
"""Idle connections stay open so long for a last request, whose answer closes them."""


def work(
    models: Sequence[ServedModel],
    settings: Settings,
    listening: socket.socket,
    when_ready: Callable[[], None],
) -> None:
    """Answer requests until SIGTERM or SIGINT, and then those that are there.

    Parameters
    ----------
    models : sequence of ServedModel
    settings : Settings
    listening : socket
        Bound; it may be shared with other processes.
    when_ready : callable
        Called once requests are answered.
    """
    uvloop.run(_work(models, settings, listening, when_ready))


async def _work(
    models: Sequence[ServedModel],
    settings: Settings,
    listening: socket.socket,
    when_ready: Callable[[], None],
) -> None:
    metrics = Metrics()
    with ThreadPoolExecutor(THREADS, "hbconv-batch") as threads:
        batchers = (Batcher(served, settings, threads, metrics) for served in models)
        handlers = Handlers(Catalog(batchers), settings, metrics)
        server = _Server(_config(Application(handlers), settings))
        _on_signals(lambda: asyncio.ensure_future(_leave(server, handlers)))
        serving = asyncio.ensure_future(server.serve([listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        when_ready()
        await serving


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


def _on_signals(leave: Callable[[], object]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)


async def _leave(server: _Server, handlers: Handlers) -> None:
    """Take no new connections, and close each one after its next answer.

    A client that keeps a connection may be sending a request while the server decides to close it.
    So connections are closed by the server only after they were idle for a while.
    """
    if handlers.leaving:
        return
    handlers.leaving = True
    await asyncio.sleep(ACCEPT_SECONDS)
    for listener in server.servers:
        listener.close()
    for _ in range(int(LEAVE_SECONDS / ACCEPT_SECONDS)):
        if not server.server_state.connections:
            break
        await asyncio.sleep(ACCEPT_SECONDS)
    server.should_exit = True
