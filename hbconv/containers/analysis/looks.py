"""Looks: conditions on the input columns themselves, for a program that reads them anyway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from hbconv.array import Array
from hbconv.containers import Columns, Entries, Graph, IsBeyond, Node, topological
from hbconv.containers.interval import LARGEST

__all__ = ["find_looks"]


def find_looks(
    graph: Graph, conditions: Sequence[Node], bound: float, without_nan: frozenset[int]
) -> tuple[Node, ...]:
    """Find nodes that flag each row whose columns are not ordinary.

    A row is ordinary where all float columns that the conditions read are within ``bound``, or NaN
    outside ``without_nan``. The nodes are none where a look at the host is cheaper: a table of
    several dtypes is given to programs by columns, and each column more is copied.

    Parameters
    ----------
    graph : Graph
    conditions : sequence of Node
    bound : float
    without_nan : frozenset of int

    Examples
    --------
    >>> from hbconv.containers import IsNonFinite, Output, Schema
    >>> x = Columns.of(Schema.matrix(3))
    >>> graph = Graph(x.schema, {"transform": Output(x)})
    >>> for look in find_looks(graph, [IsNonFinite(x, True)], 1e18, frozenset({2})):
    ...     print(look.x.detail, look.allow_nan)
    x0, x1 True
    x2 False
    """
    leaves = topological(tuple(conditions))
    if any(isinstance(leaf, Entries) for leaf in leaves):
        return ()
    columns = _floats_read(leaves)
    if len(set(graph.schema.dtypes)) > 1 and not columns <= _floats_read(graph.nodes()):
        return ()
    return tuple(_looks(graph, columns, bound, without_nan))


def _floats_read(nodes: Sequence[Node]) -> set[int]:
    leaves = (node for node in nodes if isinstance(node, Columns))
    return {i for leaf in leaves for i in leaf.columns if leaf.schema.dtypes[i] in LARGEST}


def _looks(
    graph: Graph, columns: set[int], bound: float, without_nan: frozenset[int]
) -> Iterator[Node]:
    """Yield a look for each dtype, at columns with NaN and at those without."""
    strict = columns & without_nan
    for dtype, (some, allow_nan) in product(LARGEST, ((columns - strict, True), (strict, False))):
        chosen = sorted(i for i in some if graph.schema.dtypes[i] == dtype)
        if chosen:
            x = Columns(graph.schema, Array(np.array(chosen, np.int32)))
            yield IsBeyond(x, bound, allow_nan)
