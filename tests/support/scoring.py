"""Score rows with a converted estimator, without a Model, and compare with the estimator:
parse, retype, lower, run, decode.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from tolerances import assert_units

from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.containers import Graph, Output, TreeEnsemble, verify_graph
from hbconv.lower import Feed, Lowered, lower, lower_nodes
from hbconv.parse import parse
from hbconv.target import Target
from hbconv.trees.forest import Forest


def score(
    model: Any, X: np.ndarray, method: str = "predict", backend: str = "reference"
) -> np.ndarray:
    """Answer as ``getattr(model, method)(X)`` does, or raise ValueError with the message of the
    check that fails.

    ``model`` is a fitted estimator or a Graph; X is an array of any numeric dtype.
    """
    graph = model if isinstance(model, Graph) else parse(model)
    graph = verify_graph(
        graph.with_schema(graph.schema.with_dtypes([X.dtype.name] * len(graph.schema.columns)))
    )
    for check in graph.checks:
        if _run(lower_nodes(graph, {"check": check.node}), X, "reference")["check"].any():
            raise ValueError(check.message)
    return decode(graph.outputs[method], _run(lower(graph.only(method)), X, backend)[method])


def decode(output: Output, values: np.ndarray) -> np.ndarray:
    """Give an output its shape, labels and dtype."""
    values = values[:, 0] if output.is_vector else values
    values = values if output.classes is None else output.classes.data[values]
    return values if output.dtype is None else values.astype(output.dtype)


def _run(lowered: Lowered, X: np.ndarray, backend: str) -> dict[str, np.ndarray]:
    feeds = {
        f.name: np.ascontiguousarray(X[:, list(f.columns)])
        for f in lowered.feeds
        if isinstance(f, Feed)
    }
    return (
        evaluate(lowered.program, feeds)
        if backend == "reference"
        else find_backend(backend).compile(lowered.program, Target(backend)).run(feeds)
    )


def forest_of(graph: Graph) -> Forest:
    """Return the forest that the model sums."""
    return next(node.forest for node in graph.nodes() if isinstance(node, TreeEnsemble))


def threshold_rows(
    forest: Forest, dtype: str, *, nan: bool = True, infinite: bool = True, rows: int = 400
) -> np.ndarray:
    """Rows of thresholds, their neighbours in float32 and in float64, zeros, denormals; NaN and
    values beyond float32 where wanted.
    """
    rng = np.random.default_rng(0)
    wide = forest.threshold.data.astype(np.float64)
    wide = wide[np.abs(wide) < 1e38]
    pools = [np.array([0.0, -0.0, 1e-35, -1e-35, 1e-36, 1e-45, 5e-324, 3e38, -3e38])]
    for thresholds in (wide, wide.astype(np.float32)):
        pools += [
            f(thresholds, d).astype(np.float64)
            for d in (np.inf, -np.inf)
            for f in (np.nextafter, lambda t, _: t)
        ]
    zero = np.float64(np.float32(1e-35))
    pools += [
        np.array(
            [
                zero,
                -zero,
                np.nextafter(zero, 1),
                np.nextafter(zero, 0),
                np.nextafter(-zero, -1),
                np.nextafter(-zero, 0),
            ]
        )
    ]
    pools += [np.full(len(wide) // 4 + 1, np.nan)] * nan + [
        np.array([np.inf, -np.inf, 1e300, -1e300])
    ] * infinite
    with np.errstate(over="ignore"):
        return rng.choice(np.concatenate(pools), (rows, forest.n_features)).astype(dtype)


def assert_same(estimator: Any, X: np.ndarray, *methods: str, ulp: int = 0) -> None:
    """Assert the answers of the fitted estimator: dtype, shape, labels, and floats within ulp
    units in the last place.
    """
    for method in methods:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = getattr(estimator, method)(X)
        assert_units(
            method, score(estimator, X, method), want, ulp if method.startswith("predict") else 0
        )


def assert_identical(got: Any, want: Any, ulp: int = 0, method: str = "predict") -> None:
    """Assert the same answer in the same form: lists, stages, CSR matrices with their indexes;
    floats within ulp units in the last place.
    """
    if isinstance(want, list | tuple | Iterator):
        assert isinstance(got, Iterator if isinstance(want, Iterator) else type(want))
        for own, other in zip(got, want, strict=True):
            assert_identical(own, other, ulp, method)
    elif hasattr(want, "indptr"):
        assert_identical(
            (got.data, got.indices, got.indptr, np.array(got.shape)),
            (want.data, want.indices, want.indptr, np.array(want.shape)),
        )
    else:
        assert_units(method, got, want, ulp)
