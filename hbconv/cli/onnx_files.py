"""Open an .onnx file with onnxruntime, to compare a converted model with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from hbconv.containers import Graph, InputPort, OutputPort, Session

__all__ = ["open_session"]

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def open_session(path: Path, threads: int = 1) -> Any:
    """Return the answers of onnxruntime by method, for rows in a DataFrame or an array.

    Raises
    ------
    ImportError
        onnxruntime is not installed.
    """
    import onnxruntime

    from hbconv.parse.onnx.graph import open_onnx

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    own = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = open_onnx(path)
    session = graph.traits.session or Session((), ())
    methods: dict[str, Callable[[Any], Any]] = {
        port.method: partial(_answer, own, graph, session, port) for port in session.computed
    }
    return SimpleNamespace(**methods)


def _answer(own: Any, graph: Graph, session: Session, port: OutputPort, rows: Any) -> Any:
    dtypes = {given.name: _DTYPES[given.type] for given in own.get_inputs()}
    feeds = {
        given.name: _columns(graph, given, rows).astype(dtypes[given.name])
        for given in session.inputs
    }
    (values,) = own.run([port.name], feeds)
    if port.keys is not None:
        return np.array([[row[key] for key in port.keys.data.tolist()] for row in values])
    if isinstance(values, list):
        return values
    answer = np.moveaxis(np.asarray(values), port.shape.index(-1), 0)
    flat = answer.reshape(len(answer), -1)
    return flat.ravel() if graph.outputs[port.method].is_vector else flat


def _columns(graph: Graph, given: InputPort, rows: Any) -> Any:
    """Return the columns of one input, found by name in a frame of named ones."""
    columns = list(given.columns)
    if not hasattr(rows, "iloc"):
        found = np.asarray(rows)[:, columns]
    elif graph.schema.named:
        found = rows[[graph.schema.names[i] for i in columns]].to_numpy()
    else:
        found = rows.iloc[:, columns].to_numpy()
    return found.reshape(len(found), *given.shape)
