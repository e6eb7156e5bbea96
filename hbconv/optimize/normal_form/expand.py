"""Expand a root about a centre: the polynomial's value there, and its weights on the leaves.

A polynomial of degree 2 is its Taylor expansion about any point. The value at the centre comes from
one evaluation in double-double. The weights come from the root down, as gradients do: each node
hands the weights of its columns on to its inputs, so no matrix is larger than the widest node times
the root's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
    Map,
    Node,
    OneHot,
    RowDot,
    Select,
    Together,
)
from hbconv.optimize.normal_form.evaluate import Bounded
from hbconv.optimize.normal_form.region import Region

__all__ = ["LeafWeights", "NormalForm", "expand"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LeafWeights:
    """Weights on the columns of a node, and on their squares.

    Parameters
    ----------
    linear : ndarray, shape (width, outputs)
    squares : ndarray, shape (width, outputs), or None
    """

    linear: Floats
    squares: Floats | None = None

    def __add__(self, other: LeafWeights) -> LeafWeights:
        if self.squares is None or other.squares is None:
            squares = other.squares if self.squares is None else self.squares
        else:
            squares = self.squares + other.squares
        return LeafWeights(self.linear + other.linear, squares)

    def through(self, change: Callable[[Floats], Floats]) -> LeafWeights:
        """Change both alike, as where columns move."""
        return LeafWeights(
            change(self.linear), None if self.squares is None else change(self.squares)
        )

    @property
    def are_finite(self) -> bool:
        """Whether all weights are finite."""
        squares = 0.0 if self.squares is None else self.squares
        return bool(np.isfinite(self.linear).all() and np.isfinite(squares).all())


@dataclass(frozen=True)
class NormalForm:
    """A polynomial of degree 2 in the columns of some leaves, with tables for codes.

    ``bias + sum((x - centre) @ linear + (x - centre)**2 @ squares) + sum(table[code + 1])``

    Parameters
    ----------
    bias : ndarray, shape (outputs,)
    leaves : mapping of Node to LeafWeights
    centres : mapping of Node to ndarray
        Of each leaf.
    tables : mapping of Node to tuple of ndarray
        For each column of a node of codes, a table as LookupSum has it.
    """

    bias: Floats
    leaves: Mapping[Node, LeafWeights]
    centres: Mapping[Node, Floats]
    tables: Mapping[Node, tuple[Floats, ...]]

    @property
    def is_finite(self) -> bool:
        """Whether all constants are finite."""
        tables = (np.isfinite(t).all() for of_node in self.tables.values() for t in of_node)
        terms = (terms.are_finite for terms in self.leaves.values())
        return bool(np.isfinite(self.bias).all()) and all(terms) and all(tables)


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
    weights: dict[Node, LeafWeights] = {root: LeafWeights(np.eye(root.type.width))}
    tables: dict[Node, tuple[Floats, ...]] = {}
    with np.errstate(all="ignore"):
        for node in reversed(region.nodes):
            terms = weights.pop(node, None)
            if terms is None:
                continue
            if isinstance(node, OneHot | LookupSum):
                _collect(tables, node.codes, _tables(node, terms))
                continue
            for operand, passed in _PASSES[type(node)](node, terms, at_centre):
                weights[operand] = weights[operand] + passed if operand in weights else passed
    leaves = _at_homes(region, weights)
    bias = at_centre[root].value.high[0]
    in_order = {codes: tables[codes] for codes in region.codes if codes in tables}
    return NormalForm(bias, leaves, {home: centres[home] for home in leaves}, in_order)


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


def _affine(node: Affine, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    scale = node.scale_and_offset[0][:, None]
    squares = None if terms.squares is None else scale**2 * terms.squares
    yield node.x, LeafWeights(scale * terms.linear, squares)


def _add(node: Add, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    for x in node.xs:
        yield x, terms if x.type.width == node.type.width else terms.through(_summed)


def _summed(weights: Floats) -> Floats:
    """Give one column that stands for all the weights of all."""
    total: Floats = weights.sum(axis=0, keepdims=True)
    return total


def _concat(node: Concat, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    first = 0
    for x in node.xs:
        part = slice(first, first + x.type.width)
        yield x, terms.through(lambda w: w[part])  # noqa: B023
        first += x.type.width


def _group_sums(node: GroupSums, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    size = node.x.type.width // node.groups
    yield node.x, terms.through(lambda w: np.repeat(w, size, axis=0))


def _linear(node: Linear, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    yield node.x, LeafWeights(node.weights.data.astype(np.float64) @ terms.linear)


def _square(x: Node, weights: Floats, at_centre: Mapping[Node, Bounded]) -> Flow:
    """Use ``(c + d)**2 - c**2 = 2 c d + d**2``."""
    centre = at_centre[x].value.high.T
    yield x, LeafWeights(2.0 * centre * weights, weights)


def _select(node: Select, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    width = node.x.type.width
    yield node.x, terms.through(lambda w: _scattered(w, node.indices.data, width))


def _unchanged(node: Cast | Together, terms: LeafWeights, _: Mapping[Node, Bounded]) -> Flow:
    yield node.x, terms


def _row_dot(node: RowDot, terms: LeafWeights, at_centre: Mapping[Node, Bounded]) -> Flow:
    weights = np.repeat(terms.linear, node.x.type.width, axis=0)
    return _square(node.x, weights, at_centre)


_PASSES: Mapping[type[Node], Callable[[Any, LeafWeights, Mapping[Node, Bounded]], Flow]] = {
    Add: _add,
    Affine: _affine,
    Cast: _unchanged,
    Concat: _concat,
    ConstantRows: lambda node, terms, at_centre: iter(()),
    GroupSums: _group_sums,
    Linear: _linear,
    Map: lambda node, terms, at_centre: _square(node.x, terms.linear, at_centre),
    RowDot: _row_dot,
    Select: _select,
    Together: _unchanged,
}
"""How a node of each container hands the weights of its columns on to its inputs."""
