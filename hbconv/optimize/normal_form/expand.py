"""Expand a root about a centre: the polynomial's value there, and its weights on the leaves.

``LinearPart`` tells which nodes are polynomials of degree 2 at most, and look-ups. ``Region`` holds
those between some roots and their leaves.

A polynomial of degree 2 is its Taylor expansion about any point. The value at the centre comes from
one evaluation in double-double. The weights come from the root down, as gradients do: each node
hands the weights of its columns on to its inputs. So no matrix is larger than the widest node times
the root's outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Columns,
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
    topological,
)
from hbconv.optimize.normal_form.evaluate import Bounded
from hbconv.optimize.normal_form.form import (
    PRODUCTS,
    ColumnProducts,
    LeafWeights,
    NormalForm,
    factors,
)

__all__ = ["LOOKUPS", "LinearPart", "Region", "expand"]

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
        # From the root down, as in reverse differentiation:
        # no matrix is wider than the root's outputs.
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
                weights = self.weights.get(operand)
                self.weights[operand] = passed if weights is None else weights + passed

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
        # Handing an identity of 6,000 columns down took 10.9
        # s for 100 classes of 60 columns; this takes 2.1 s.
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
    collected = tables.get(codes)
    if collected is None:
        tables[codes] = more
    else:
        tables[codes] = tuple(_sum(a, b) for a, b in zip(collected, more, strict=True))


def _sum(a: Floats, b: Floats) -> Floats:
    """Add two tables; a code that only one of them knows adds nothing in the other."""
    # Look-ups of one column of codes may know different categories.
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
        terms = weights[leaf].through(lambda w: _scatter(w, home.places, width))  # noqa: B023
        leaves[home.node] = leaves[home.node] + terms if home.node in leaves else terms
    return leaves


def _scatter(weights: Floats, places: npt.NDArray[np.integer], width: int) -> Floats:
    """Add each row of weights to the row of its place."""
    total = np.zeros((width, weights.shape[1]))
    # Unlike an assignment, this adds up what meets in one place.
    np.add.at(total, places, weights)
    return total


def _affine(node: Affine, terms: LeafWeights) -> Flow:
    scale = node.scale_and_offset[0][:, None]
    squares = None if terms.squares is None else scale**2 * terms.squares
    yield node.x, LeafWeights(scale * terms.linear, squares)


def _add(node: Add, terms: LeafWeights) -> Flow:
    for x in node.xs:
        yield x, terms if x.type.width == node.type.width else terms.through(_sum_columns)


def _sum_columns(weights: Floats) -> Floats:
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
    yield node.x, terms.through(lambda w: _scatter(w, node.indices.data, width))


def _pass_on(node: Cast | Together, terms: LeafWeights) -> Flow:
    yield node.x, terms


_PASSES: Mapping[type[Node], Callable[[Any, LeafWeights], Flow]] = {
    Add: _add,
    Affine: _affine,
    Cast: _pass_on,
    Concat: _concat,
    ConstantRows: lambda node, terms: iter(()),
    GroupSums: _group_sums,
    Linear: _linear,
    Select: _select,
    Together: _pass_on,
}
"""How a node of each container hands the weights of its columns on to its inputs."""


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
        merged = _merge_leaves([leaf for leaf in self.leaves if isinstance(leaf, Columns)])
        return {leaf: merged.get(leaf) or _home_of_itself(leaf) for leaf in self.leaves}

    @cached_property
    def columnwise(self) -> frozenset[Node]:
        """The nodes whose columns depend on one column of a leaf each."""
        nodes = set(self.leaves)
        for node in self.nodes:
            if isinstance(node, COLUMNWISE) and nodes.issuperset(node.inputs):
                nodes.add(node)
        return frozenset(nodes)

    @cached_property
    def mixes(self) -> bool:
        """Whether a node multiplies columns of leaves, other than each by itself."""
        products = (node for node in self.nodes if isinstance(node, PRODUCTS))
        return not all(map(self.are_squares, products))

    def are_squares(self, node: Node) -> bool:
        """Whether a node multiplies columns of leaves by themselves alone."""
        first, second = factors(node)
        return node.inputs[0] in self.columnwise and bool((first == second).all())


def _home_of_itself(leaf: Node) -> Home:
    return Home(leaf, np.arange(leaf.type.width))


def _walk(roots: tuple[Node, ...], part: LinearPart, cut: frozenset[Node]) -> dict[Node, bool]:
    """Return the nodes, inputs first, and whether each is a leaf."""
    below = set(roots)
    for node in reversed(topological(roots)):
        if node in below and not _is_leaf(node, roots, part, cut):
            below.update(node.inputs)
    chosen = (node for node in topological(roots) if node in below)
    order = {node: _is_leaf(node, roots, part, cut) for node in chosen}
    # Codes are leaves of their own: a table is no polynomial of them.
    codes = {n.inputs[0] for n, leaf in order.items() if not leaf and isinstance(n, LOOKUPS)}
    return {node: is_leaf or node in codes for node, is_leaf in order.items()}


def _is_leaf(node: Node, roots: tuple[Node, ...], part: LinearPart, cut: frozenset[Node]) -> bool:
    return not part.is_inner(node) or (node in cut and node not in roots)


def _merge_leaves(leaves: list[Columns]) -> dict[Node, Home]:
    """Read the columns of several leaves at once, where that changes the dtype of none."""
    homes: dict[Node, Home] = {}
    for dtype, read_as in dict.fromkeys((leaf.type.dtype, leaf.dtype) for leaf in leaves):
        alike = [leaf for leaf in leaves if (leaf.type.dtype, leaf.dtype) == (dtype, read_as)]
        columns = np.unique(np.concatenate([leaf.indices.data for leaf in alike]))
        whole = replace(alike[0], indices=Array.of(columns, np.int32))
        repeats = len(columns) < len(alike[0].indices)
        # Columns of other dtypes beside them would change the common dtype of all.
        if (len(alike) > 1 or repeats) and whole.type.dtype == dtype:
            homes |= {
                leaf: Home(whole, np.searchsorted(columns, leaf.indices.data)) for leaf in alike
            }
    return homes


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
            # A product of products has degree 4, which is no longer this form.
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
        absorbed = self._find_absorbed()
        return [node for node in self.nodes if self.reduces(node) and node not in absorbed]

    def _find_absorbed(self) -> set[Node]:
        """Find the nodes that only other nodes of the linear part read, which end in a root."""
        readers: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for operand in node.inputs:
                readers[operand].append(node)
        absorbed: set[Node] = set()
        for node in reversed(self.nodes):
            # Outputs are read from outside, so they stay as nodes.
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
    # A scaler that was folded into infinite weights moved
    # the NaN of the source in 30 of 180 probabilities.
    finite = np.isfinite(node.weights.data).all() and np.isfinite(node.bias.data).all()
    return node.type.dtype in FLOATS and node.weights.dtype == node.type.dtype and bool(finite)


def _fits_affine(node: Affine) -> bool:
    with np.errstate(all="ignore"):
        scale, offset = node.scale_and_offset
    return bool(np.isfinite(scale).all() and np.isfinite(offset).all())


def _fits_cast(node: Cast) -> bool:
    """Take conversions that round no float."""
    before = node.x.type.dtype
    # float64 to float32 rounds, and the polynomial knows no rounding.
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
