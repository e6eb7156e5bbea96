"""The server in this process, over a stand-in for a model."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

import httpx
import numpy as np

from hbconv.containers import Columns, Graph, Output, Schema, Vector
from hbconv.errors import InputError
from hbconv.serve.batching import Batcher, Catalog
from hbconv.serve.http.server import HttpServer
from hbconv.serve.metrics import Metrics
from hbconv.serve.model_files import Assignment
from hbconv.serve.protocol.handlers import Control, Handlers
from hbconv.serve.served_model import ServedModel
from hbconv.serve.settings import Settings
from hbconv.serve.signature import InputTensor, ModelSignature, OutputTensor

__all__ = ["Doubling", "application", "served_by"]


class Doubling:
    """A stand-in for a model, which notes the batches that it is asked."""

    schema = Schema.matrix(1)
    parsed = Graph(schema, {"predict": Output(Columns.of(schema), Vector())})

    def __init__(self, seconds=0.0):
        self.batches = []
        self.seconds = seconds
        self.held = threading.Event()
        self.held.set()

    def predict(self, rows):
        self.held.wait(10)
        time.sleep(self.seconds)
        self.batches.append(len(rows))
        if np.isnan(rows).any():
            raise InputError("A row is NaN.")
        if np.isinf(rows).any():
            raise ZeroDivisionError("secret")
        return rows[:, 0] * 2


SIGNATURE = ModelSignature(
    (InputTensor("x", "float64", 1),),
    (OutputTensor("predict", "predict", None, "FP64", (-1,)),),
    "matrix",
)


@contextmanager
def served_by(model, *, quick_rows=0, **settings):
    """A server, which does not listen yet, of a model as ``m``."""
    chosen = Settings(**settings)
    metrics = Metrics()
    served = ServedModel("m", "1", model, SIGNATURE, quick_rows)
    with ThreadPoolExecutor(2) as threads:
        catalog = Catalog(iter([Batcher(served, chosen, threads, metrics)]))
        yield HttpServer(Handlers(catalog, chosen, metrics, Control(Assignment((), (), chosen))))


@asynccontextmanager
async def application(model, **settings):
    """A client of an application that serves a model as ``m``, with its ``server``."""
    here = socket.create_server(("127.0.0.1", 0))
    with served_by(model, **settings) as server, here as listening:
        await server.start(listening)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            client.server = server
            yield client
        server.close()
        await server.end()
