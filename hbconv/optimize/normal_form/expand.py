"""Expand a root about a centre: the polynomial's value there, and its weights on the leaves.

A polynomial of degree 2 is its Taylor expansion about any point. The value at the centre comes from
one evaluation in double-double. The weights come from the root down, as gradients do: each node
hands the weights of its columns on to its inputs, so no matrix is larger than the widest node times
the root's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Concat,
    ConstantRows,
    GroupSums,
    Linear,
    LookupSum,
    Node,
    OneHot,
    Select,
    Together,
)
from hbconv.optimize.normal_form.evaluate import Bounded
from hbconv.optimize.normal_form.form import LeafWeights, NormalForm
from hbconv.optimize.normal_form.products import PRODUCTS, ColumnProducts
from hbconv.optimize.normal_form.region import Region

__all__ = ["expand"]

Floats = npt.NDArray[np.float64]


Flow = Iterator[tuple[Node, LeafWeights]]


def expand(
    root: Node,
    region: Region,
    centres: Mapping[Node, Floats],
    at_centre: Mapping[Node, Bounded],
) -> NormalForm:
    """Write a root in normal form.

    Parameters
    ----------
    root : Node
        One of the nodes of the region.
    region : Region
    centres : mapping of Node to ndarray
        Of each home.
    at_centre : mapping of Node to Bounded
        Value of each node at the centre, look-ups left out.
    """
    expansion = _Expansion(root, region, centres, at_centre)
    with np.errstate(all="ignore"):
        expansion.go_down()
    return expansion.form()


class _Expansion:
    """The weights of a root, as they are handed on from node to node."""

    def __init__(
        self,
        root: Node,
        region: Region,
        centres: Mapping[Node, Floats],
        at_centre: Mapping[Node, Bounded],
    ) -> None:
        self.root = root
        self.region = region
        self.centres = centres
        self.at_centre = at_centre
        self.weights = {root: LeafWeights(np.eye(root.type.width))}
        self.tables: dict[Node, tuple[Floats, ...]] = {}
        self.mixed: list[Floats] = []

    def go_down(self) -> None:
        """Hand the weights on until only leaves have some."""
        for node in reversed(self.region.nodes):
            terms = self.weights.pop(node, None)
            if terms is None:
                continue
            if isinstance(node, OneHot | LookupSum):
                _collect(self.tables, node.codes, _tables(node, terms))
                continue
            multiplies = isinstance(node, PRODUCTS)
            flow = self._multiply(node, terms) if multiplies else _PASSES[type(node)](node, terms)
            for operand, passed in flow:
                known = self.weights.get(operand)
                self.weights[operand] = passed if known is None else known + passed

    def _multiply(self, node: Node, terms: LeafWeights) -> Flow:
        """Hand on what products are about the centre; keep what mixes columns of leaves."""
        x = node.inputs[0]
        pairs = ColumnProducts.of(node, terms.linear)
        linear = pairs.linear(self.at_centre[x].value.high[0])
        if self.region.are_squares(node):
            yield x, LeafWeights(linear, pairs.squares(x.type.width))
            return
        self.mixed.append(pairs.between(self._jacobian(x)))
        yield x, LeafWeights(linear)

    def _jacobian(self, x: Node) -> Floats:
        """Return the weights of all columns of all homes on a node of degree 1.

        Products come from below, for those of many classes are wide.
        """
        if isinstance(x, Linear) and x not in self.region.leaves:
            return self._jacobian(x.x) @ x.weights.data.astype(np.float64)
        leaves = expand(x, self.region, self.centres, self.at_centre).leaves
        return np.concatenate([w.linear for w in _all_homes(self.region, leaves, x).values()])

    def form(self) -> NormalForm:
        """Return what came down."""
        leaves = _at_homes(self.region, self.weights)
        mixed = sum(self.mixed[1:], self.mixed[0]) if self.mixed else None
        leaves = leaves if mixed is None else _all_homes(self.region, leaves, self.root)
        bias = self.at_centre[self.root].value.high[0]
        tables = {codes: self.tables[codes] for codes in self.region.codes if codes in self.tables}
        return NormalForm(bias, leaves, {x: self.centres[x] for x in leaves}, tables, mixed)


def _all_homes(
    region: Region, leaves: Mapping[Node, LeafWeights], root: Node
) -> dict[Node, LeafWeights]:
    """Give weights to every home, in their order; those that are not read get zeros."""
    homes = dict.fromkeys(home.node for home in region.homes.values())
    return {
        x: leaves.get(x) or LeafWeights(np.zeros((x.type.width, root.type.width))) for x in homes
    }


def _collect(tables: dict[Node, tuple[Floats, ...]], codes: Node, more: tuple[Floats, ...]) -> None:
    """Add tables of the same codes."""
    known = tables.get(codes)
    if known is None:
        tables[codes] = more
    else:
        tables[codes] = tuple(_sum(a, b) for a, b in zip(known, more, strict=True))


def _sum(a: Floats, b: Floats) -> Floats:
    """Add two tables; a code that only one of them knows adds nothing in the other."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    total = longer.copy()
    total[: len(shorter)] += shorter
    return total


def _tables(node: OneHot | LookupSum, terms: LeafWeights) -> tuple[Floats, ...]:
    """Return a table for each column of codes, with a row for none first."""
    weights = terms.linear if terms.squares is None else terms.linear + terms.squares
    if isinstance(node, LookupSum):
        return tuple(table.data.astype(np.float64) @ weights for table in node.tables)
    blocks = np.split(weights, np.cumsum(node.sizes)[:-1])
    return tuple(
        np.concatenate([np.zeros_like(block[:1], shape=(1, block.shape[1])), block])
        for block in blocks
    )


def _at_homes(region: Region, weights: Mapping[Node, LeafWeights]) -> dict[Node, LeafWeights]:
    """Bring the weights of all leaves to the columns of their homes."""
    leaves: dict[Node, LeafWeights] = {}
    for leaf, home in region.homes.items():
        if leaf not in weights:
            continue
        width = home.node.type.width
        terms = weights[leaf].through(lambda w: _scattered(w, home.places, width))  # noqa: B023
        leaves[home.node] = leaves[home.node] + terms if home.node in leaves else terms
    return leaves


def _scattered(weights: Floats, places: npt.NDArray[np.integer], width: int) -> Floats:
    """Add each row of weights to the row of its place."""
    total = np.zeros((width, weights.shape[1]))
    np.add.at(total, places, weights)
    return total


def _affine(node: Affine, terms: LeafWeights) -> Flow:
    scale = node.scale_and_offset[0][:, None]
    squares = None if terms.squares is None else scale**2 * terms.squares
    yield node.x, LeafWeights(scale * terms.linear, squares)


def _add(node: Add, terms: LeafWeights) -> Flow:
    for x in node.xs:
        yield x, terms if x.type.width == node.type.width else terms.through(_summed)


def _summed(weights: Floats) -> Floats:
    """Give one column that stands for all the weights of all."""
    total: Floats = weights.sum(axis=0, keepdims=True)
    return total


def _concat(node: Concat, terms: LeafWeights) -> Flow:
    first = 0
    for x in node.xs:
        part = slice(first, first + x.type.width)
        yield x, terms.through(lambda w: w[part])  # noqa: B023
        first += x.type.width


def _group_sums(node: GroupSums, terms: LeafWeights) -> Flow:
    size = node.x.type.width // node.groups
    yield node.x, terms.through(lambda w: np.repeat(w, size, axis=0))


def _linear(node: Linear, terms: LeafWeights) -> Flow:
    yield node.x, LeafWeights(node.weights.data.astype(np.float64) @ terms.linear)


def _select(node: Select, terms: LeafWeights) -> Flow:
    width = node.x.type.width
    yield node.x, terms.through(lambda w: _scattered(w, node.indices.data, width))


def _unchanged(node: Cast | Together, terms: LeafWeights) -> Flow:
    yield node.x, terms


_PASSES: Mapping[type[Node], Callable[[Any, LeafWeights], Flow]] = {
    Add: _add,
    Affine: _affine,
    Cast: _unchanged,
    Concat: _concat,
    ConstantRows: lambda node, terms: iter(()),
    GroupSums: _group_sums,
    Linear: _linear,
    Select: _select,
    Together: _unchanged,
}
"""How a node of each container hands the weights of its columns on to its inputs."""
