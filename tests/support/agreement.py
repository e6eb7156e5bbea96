"""Compare a parsed transformer with the fitted one, bit for bit: any input, without the
optimizer, on the reference backend.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from hbconv.backends.reference import evaluate
from hbconv.containers import Output, verify_graph
from hbconv.errors import InputError
from hbconv.lower import lower, lower_nodes
from hbconv.parse import parse
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads, Table


def transform(estimator: Any, X: Any) -> tuple[np.ndarray, Output]:
    """Return what the parsed graph makes of X, or raise InputError with the message of the
    check that fails.
    """
    graph = parse(estimator)
    table = read_table(X, Reads.of(graph)).part(slice(0, len(X)))
    graph = verify_graph(graph.with_schema(graph.schema.with_dtypes(table.dtypes)))
    for check in graph.checks:
        if _run(lower_nodes(graph, {"check": check.node}), table)["check"].any():
            raise InputError(check.message)
    output = graph.outputs["transform"]
    values = _run(lower(graph.only("transform")), table)["transform"]
    return (values if output.dtype is None else values.astype(output.dtype)), output


def agree(estimator: Any, X: Any, rtol: float = 0.0) -> np.ndarray:
    """Assert the same values, dtype, shape and sparseness as ``estimator.transform(X)``; return
    the values.
    """
    want = _transformed(estimator, X)
    got, output = transform(estimator, X)
    assert bool(output.returns_sparse) == hasattr(want, "toarray")
    want = want.toarray() if output.returns_sparse else np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if rtol:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=0)
    else:
        np.testing.assert_array_equal(got, want)
    return got


def refuses_as_source(estimator: Any, X: Any, message: str) -> None:
    """Assert that both refuse X."""
    with pytest.raises(ValueError):
        _transformed(estimator, X)
    with pytest.raises(InputError, match=message):
        transform(estimator, X)


def _transformed(estimator: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.transform(X)


def _run(lowered: Any, table: Table) -> dict[str, np.ndarray]:
    return evaluate(lowered.program, {feed.name: table.feed(feed) for feed in lowered.feeds})


def hostile(X: np.ndarray, *values: float) -> np.ndarray:
    """Rows of X, then every given value and its two neighbours in every column."""
    near = np.array(
        [w for v in values for w in (v, np.nextafter(v, -np.inf), np.nextafter(v, np.inf))]
    )
    return np.concatenate([X, np.repeat(near[:, None], X.shape[1], axis=1)])


def label(value):
    """Name of a test's parameter, without the address that tells one process's functions from
    another's.
    """
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
