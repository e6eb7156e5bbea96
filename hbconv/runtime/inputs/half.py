"""Rows of float16: programs read them as float32, as source models do that convert them."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Cast, Columns, Concat, Graph, Node, Select, Together, topological

__all__ = ["is_converted"]

MOVES = (Columns, Select, Concat, Together, Cast)
"""Containers that move or convert values, and compute nothing."""


def is_converted(graph: Graph, dtypes: Sequence[str], half: frozenset[int]) -> bool:
    """Return whether a source model converts float16 columns before it computes with them.

    It does if its values have the same dtype for float32 and for float64 columns.
    If the dtypes follow the columns', it computes in float16 with float16, each operation rounded.

    Parameters
    ----------
    graph : Graph
    dtypes : sequence of str
        Of all columns.
    half : frozenset of int
        Which of them are float16.
    """
    narrow, wide = (_typed(graph, dtypes, half, dtype) for dtype in ("float32", "float64"))
    computed = (
        _alike(n, w)
        for n, w in zip(topological(narrow.roots), topological(wide.roots), strict=True)
    )
    given = (n.type == w.type for n, w in zip(narrow.output_roots, wide.output_roots, strict=True))
    return all(computed) and all(given)


def _alike(narrow: Node, wide: Node) -> bool:
    """Return whether a node computes in the same dtype of float32 and of float64, or moves it."""
    if isinstance(narrow, MOVES):
        return True
    inputs = zip(narrow.inputs, wide.inputs, strict=True) if narrow.starts_as_x else ()
    return narrow.type == wide.type and all(n.type == w.type for n, w in inputs)


def _typed(graph: Graph, dtypes: Sequence[str], half: frozenset[int], dtype: str) -> Graph:
    return graph.with_schema(
        graph.schema.with_dtypes([dtype if i in half else own for i, own in enumerate(dtypes)])
    )
