"""The nodes between some roots and their leaves, and the places of each leaf's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Columns, Node, topological
from hbconv.optimize.normal_form.linear_part import COLUMNWISE, LOOKUPS, LinearPart
from hbconv.optimize.normal_form.products import PRODUCTS, factors

__all__ = ["Home", "Region"]

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Home:
    """Where the columns of a leaf are: at these places of another leaf that holds them too."""

    node: Node
    places: Places


@dataclass(frozen=True)
class Region:
    """A part of a graph.

    Parameters
    ----------
    nodes : tuple of Node
        The nodes of the linear part below the roots, inputs first.
    leaves : tuple of Node
        What they read that is not linear, or where the derivation is cut.
    codes : tuple of Node
        What the look-ups among them read.
    """

    nodes: tuple[Node, ...]
    leaves: tuple[Node, ...]
    codes: tuple[Node, ...]

    @staticmethod
    def below(roots: Iterable[Node], part: LinearPart, cut: frozenset[Node]) -> Region:
        """Walk from the roots down to the leaves; nodes of the cut are leaves too."""
        order = _walk(tuple(roots), part, cut)
        nodes = tuple(node for node, is_leaf in order.items() if not is_leaf)
        codes = {node.inputs[0]: None for node in nodes if isinstance(node, LOOKUPS)}
        numbers = {x for node in nodes if not isinstance(node, LOOKUPS) for x in node.inputs}
        leaves = (node for node, is_leaf in order.items() if is_leaf and node in numbers)
        return Region(nodes, tuple(leaves), tuple(codes))

    @cached_property
    def homes(self) -> Mapping[Node, Home]:
        """Where each leaf's columns are: leaves of the same schema become one."""
        merged = _merged([leaf for leaf in self.leaves if isinstance(leaf, Columns)])
        return {leaf: merged.get(leaf) or _own(leaf) for leaf in self.leaves}

    @cached_property
    def columnwise(self) -> frozenset[Node]:
        """The nodes whose columns depend on one column of a leaf each."""
        found = set(self.leaves)
        for node in self.nodes:
            if isinstance(node, COLUMNWISE) and found.issuperset(node.inputs):
                found.add(node)
        return frozenset(found)

    @cached_property
    def mixes(self) -> bool:
        """Whether a node multiplies columns of leaves, other than each by itself."""
        products = (node for node in self.nodes if isinstance(node, PRODUCTS))
        return not all(map(self.are_squares, products))

    def are_squares(self, node: Node) -> bool:
        """Whether a node multiplies columns of leaves by themselves alone."""
        first, second = factors(node)
        return node.inputs[0] in self.columnwise and bool((first == second).all())


def _own(leaf: Node) -> Home:
    return Home(leaf, np.arange(leaf.type.width))


def _walk(roots: tuple[Node, ...], part: LinearPart, cut: frozenset[Node]) -> dict[Node, bool]:
    """Return the nodes, inputs first, and whether each is a leaf."""
    below = set(roots)
    for node in reversed(topological(roots)):
        if node in below and not _is_leaf(node, roots, part, cut):
            below.update(node.inputs)
    chosen = (node for node in topological(roots) if node in below)
    order = {node: _is_leaf(node, roots, part, cut) for node in chosen}
    codes = {n.inputs[0] for n, leaf in order.items() if not leaf and isinstance(n, LOOKUPS)}
    return {node: is_leaf or node in codes for node, is_leaf in order.items()}


def _is_leaf(node: Node, roots: tuple[Node, ...], part: LinearPart, cut: frozenset[Node]) -> bool:
    return not part.is_inner(node) or (node in cut and node not in roots)


def _merged(leaves: list[Columns]) -> dict[Node, Home]:
    """Read the columns of several leaves at once, where that changes the dtype of none."""
    homes: dict[Node, Home] = {}
    for dtype, read_as in dict.fromkeys((leaf.type.dtype, leaf.dtype) for leaf in leaves):
        alike = [leaf for leaf in leaves if (leaf.type.dtype, leaf.dtype) == (dtype, read_as)]
        columns = np.unique(np.concatenate([leaf.indices.data for leaf in alike]))
        whole = replace(alike[0], indices=Array.of(columns, np.int32))
        repeats = len(columns) < len(alike[0].indices)
        if (len(alike) > 1 or repeats) and whole.type.dtype == dtype:
            homes |= {
                leaf: Home(whole, np.searchsorted(columns, leaf.indices.data)) for leaf in alike
            }
    return homes
