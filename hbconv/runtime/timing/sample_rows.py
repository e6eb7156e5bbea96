"""Rows to time with: the caller's, or rows made from the graph itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Cast,
    CastLike,
    Columns,
    Graph,
    Node,
    Select,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.errors import OptionError
from hbconv.lower import AnyFeed, Feed
from hbconv.trees.forest import Forest

__all__ = ["DISTINCT_ROWS", "make_rows", "repeated"]

Inputs = Mapping[str, npt.NDArray[Any]]

DISTINCT_ROWS = 512
"""Rows that are made, or taken of a table; more are repetitions of them."""
MOST_BYTES = 1 << 28
"""Bytes that the inputs of a timed call may take."""


def make_rows(graph: Graph, feeds: Sequence[AnyFeed], seed: int = 0) -> dict[str, Any]:
    """Make the inputs of a program.

    A column whose values are split by trees gets values between their thresholds, and beyond them,
    each interval alike. The others get standard normal ones.

    Parameters
    ----------
    graph : Graph
        Optimized.
    feeds : sequence of Feed
    seed : int

    Raises
    ------
    OptionError
        The model reads text or sparse rows, of which it knows no typical ones.
    """
    numbers = [feed for feed in feeds if isinstance(feed, Feed)]
    if len(numbers) < len(feeds):
        raise OptionError(
            "tune= cannot make rows for a model that reads text or sparse rows. Give it some: "
            "tune=X."
        )
    rng = np.random.default_rng(seed)
    edges = _find_thresholds(graph)
    return {feed.name: _matrix(feed, edges, rng) for feed in numbers}


def repeated(inputs: Inputs, rows: int) -> dict[str, npt.NDArray[Any]]:
    """Repeat inputs up to a number of rows, or to fewer where those would take too much memory.

    Examples
    --------
    >>> repeated({"x": np.array([[1.0], [2.0]])}, 3)["x"].ravel()
    array([1., 2., 1.])
    """
    row_bytes = sum(array[:1].nbytes for array in inputs.values())
    count = max(1, min(rows, MOST_BYTES // max(1, row_bytes)))
    return {name: _cycled(array, count) for name, array in inputs.items()}


def _cycled(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array[np.arange(rows) % len(array)])


def _matrix(
    feed: Feed, edges: Mapping[int, npt.NDArray[Any]], rng: np.random.Generator
) -> npt.NDArray[Any]:
    columns = [_values(edges.get(column), rng) for column in feed.columns]
    matrix = np.stack(columns, axis=1) if columns else np.empty((DISTINCT_ROWS, 0))
    limit = np.finfo(feed.dtype).max if feed.dtype.startswith("float") else 1 << 30
    return np.clip(matrix, -limit, limit).astype(feed.dtype)


def _values(edges: npt.NDArray[Any] | None, rng: np.random.Generator) -> npt.NDArray[Any]:
    if edges is None:
        return rng.standard_normal(DISTINCT_ROWS)
    spread = max(float(edges[-1] - edges[0]), 1.0) / 10
    ends = np.concatenate([[edges[0] - spread], edges, [edges[-1] + spread]])
    place = rng.integers(len(ends) - 1, size=DISTINCT_ROWS)
    within = rng.random(DISTINCT_ROWS)
    return ends[place] * (1 - within) + ends[place + 1] * within


def _find_thresholds(graph: Graph) -> dict[int, npt.NDArray[Any]]:
    """Return the distinct thresholds of the trees that read a column as it is, or cast."""
    found: dict[int, list[npt.NDArray[Any]]] = {}
    for node in graph.nodes():
        if isinstance(node, TreeEnsemble | TreeLeaves):
            for column, thresholds in _by_column(node.forest, _columns_read(node.x)):
                found.setdefault(column, []).append(thresholds)
    edges = {column: np.unique(np.concatenate(parts)) for column, parts in found.items()}
    return {column: values for column, values in edges.items() if len(values)}


def _columns_read(node: Node) -> tuple[int, ...]:
    """Return the input columns that a node passes on; none where it computes."""
    if isinstance(node, Select):
        passed = _columns_read(node.x)
        return tuple(passed[i] for i in node.indices.data) if passed else ()
    if isinstance(node, Cast | CastLike):
        return _columns_read(node.x)
    return node.columns if isinstance(node, Columns) else ()


def _by_column(
    forest: Forest, columns: Sequence[int]
) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Yield the thresholds of each column, without those that stand for infinity."""
    thresholds = forest.threshold.data.astype(np.float64)
    finite = np.abs(thresholds) < np.finfo(np.float32).max
    for place, column in enumerate(columns):
        yield column, thresholds[finite & (forest.feature.data == place)]
