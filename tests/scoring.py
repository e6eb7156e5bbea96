"""Score rows with a converted estimator, without a Model: parse, retype, lower, run, decode."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.containers import Graph, Output, verify_graph
from hbconv.lower import Feed, Lowered, lower, lower_nodes
from hbconv.parse import parse
from hbconv.target import Target


def score(model: Any, X: np.ndarray, method: str = "predict", backend: str = "reference") -> np.ndarray:
    """Answer as ``getattr(model, method)(X)`` does, or raise ValueError with the message of the check that fails.

    ``model`` is a fitted estimator or a Graph; X is an array of any numeric dtype.
    """
    graph = model if isinstance(model, Graph) else parse(model)
    graph = verify_graph(graph.with_schema(graph.schema.with_dtypes([X.dtype.name] * len(graph.schema.columns))))
    for check in graph.checks:
        if _run(lower_nodes(graph, {"check": check.node}), X, "reference")["check"].any():
            raise ValueError(check.message)
    return decode(graph.outputs[method], _run(lower(graph.only(method)), X, backend)[method])


def decode(output: Output, values: np.ndarray) -> np.ndarray:
    """Give an output its shape, labels and dtype."""
    values = values[:, 0] if output.vector else values
    values = values if output.classes is None else output.classes.data[values]
    return values if output.dtype is None else values.astype(output.dtype)


def _run(lowered: Lowered, X: np.ndarray, backend: str) -> dict[str, np.ndarray]:
    feeds = {f.name: np.ascontiguousarray(X[:, list(f.columns)]) for f in lowered.feeds if isinstance(f, Feed)}
    return evaluate(lowered.program, feeds) if backend == "reference" else find_backend(backend).compile(lowered.program, Target(backend)).run(feeds)
