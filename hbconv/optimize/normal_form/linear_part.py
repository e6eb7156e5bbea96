"""Which nodes of a graph are its linear part: polynomials of degree 2 at most, and look-ups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Concat,
    ConstantRows,
    Graph,
    GroupSums,
    Linear,
    LookupSum,
    Map,
    Node,
    OneHot,
    Polynomial,
    RowDot,
    Select,
    Together,
)
from hbconv.optimize.normal_form.products import PRODUCTS

__all__ = ["COLUMNWISE", "LOOKUPS", "LinearPart"]

FLOATS = ("float32", "float64")
LOOKUPS = (OneHot, LookupSum)
"""Containers that read codes: their inputs are leaves, and they become tables."""

COLUMNWISE = (Select, Concat, Cast, Together, Affine)
"""Containers each of whose columns comes from one column of an input."""

_AFFINE = (*COLUMNWISE, Add, ConstantRows, GroupSums, Linear)
_PASSING = (*COLUMNWISE, Map, OneHot, ConstantRows, Polynomial)


class LinearPart:
    """The nodes that the normal form passes, and the roots, at which others read them.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes()
        self._inner: dict[Node, bool] = {}
        self._affine: dict[Node, bool] = {}
        self._reduces: dict[Node, bool] = {}
        self._outputs = frozenset(graph.output_roots)

    def is_inner(self, node: Node) -> bool:
        """Whether the normal form passes the node; all other nodes are its leaves."""
        if node not in self._inner:
            condition = _CONDITIONS.get(type(node))
            fits = condition is not None and condition(node)
            multiplies = isinstance(node, PRODUCTS)
            self._inner[node] = fits and (not multiplies or self.is_affine(node.inputs[0]))
        return self._inner[node]

    def is_affine(self, node: Node) -> bool:
        """Whether the node is a polynomial of degree 1 at most in the columns of leaves."""
        if node not in self._affine:
            self._affine[node] = not self.is_inner(node) or (
                isinstance(node, _AFFINE) and all(map(self.is_affine, node.inputs))
            )
        return self._affine[node]

    def reduces(self, node: Node) -> bool:
        """Whether the node ends a sum of products: only there is a derivation worth while."""
        if node not in self._reduces:
            self._reduces[node] = self.is_inner(node) and (
                isinstance(node, Linear | GroupSums | RowDot | LookupSum)
                or (isinstance(node, Affine | Add) and any(map(self.reduces, node.inputs)))
            )
        return self._reduces[node]

    def roots(self) -> list[Node]:
        """Return the nodes that reduce, and that anything but the linear part reads."""
        absorbed = self._absorbed()
        return [node for node in self.nodes if self.reduces(node) and node not in absorbed]

    def _absorbed(self) -> set[Node]:
        """Find the nodes that only other nodes of the linear part read, which end in a root."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for operand in node.inputs:
                readers[operand].append(node)
        absorbed: set[Node] = set()
        for node in reversed(self.nodes):
            if node in self._outputs or not readers[node]:
                continue
            if all(self._absorbs(reader, absorbed) for reader in readers[node]):
                absorbed.add(node)
        return absorbed

    def _absorbs(self, reader: Node, absorbed: set[Node]) -> bool:
        if not self.is_inner(reader):
            return False
        return self.reduces(reader) or (isinstance(reader, _PASSING) and reader in absorbed)


def _fits_linear(node: Linear) -> bool:
    """Take weights of the output's dtype: to round products of narrower ones costs digits.

    Zero times infinity is no number, so all weights are finite.
    """
    finite = np.isfinite(node.weights.data).all() and np.isfinite(node.bias.data).all()
    return node.type.dtype in FLOATS and node.weights.dtype == node.type.dtype and bool(finite)


def _fits_affine(node: Affine) -> bool:
    with np.errstate(all="ignore"):
        scale, offset = node.scale_and_offset
    return bool(np.isfinite(scale).all() and np.isfinite(offset).all())


def _fits_cast(node: Cast) -> bool:
    """Take conversions that round no float."""
    before = node.x.type.dtype
    return node.type.dtype in FLOATS and (before == node.type.dtype or before != "float64")


def _fits_lookup(node: LookupSum) -> bool:
    return all(t.dtype in FLOATS and bool(np.isfinite(t.data).all()) for t in node.tables)


def _is_float(node: Node) -> bool:
    return node.type.dtype in FLOATS


_CONDITIONS: Mapping[type[Node], Callable[..., bool]] = {
    Add: _is_float,
    Affine: _fits_affine,
    Cast: _fits_cast,
    Concat: lambda node: True,
    ConstantRows: lambda node: _is_float(node) and bool(np.isfinite(node.values.data).all()),
    GroupSums: _is_float,
    Linear: _fits_linear,
    LookupSum: _fits_lookup,
    Map: lambda node: node.function == "square" and _is_float(node),
    OneHot: lambda node: node.codes.type.dtype == "int32" or _is_float(node.codes),
    Polynomial: lambda node: node.terms.shape[1] <= 2,
    RowDot: lambda node: node.x == node.y and _is_float(node),
    Select: lambda node: True,
    Together: lambda node: True,
}
"""What a node of each container needs, so that the normal form passes it."""
