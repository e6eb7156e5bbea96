"""The nearest points of each row, their weights, and the paths over graphs of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container, topological
from hbconv.containers.nodes.column_wise import ColumnWise, OwnConstants, PerOutput, Select
from hbconv.containers.nodes.distances import Distances, SharedDistances, SquaredDistances
from hbconv.containers.product_distances import Formula
from hbconv.containers.schema import Type
from hbconv.containers.searches import (
    NearestSearch,
    PartitionSearch,
    WrittenSearch,
    are_often_tied,
)

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "Barycentric",
    "ChoosesNearest",
    "EntriesAt",
    "Held",
    "InverseDistances",
    "Nearest",
    "NearestPoints",
    "Scatter",
    "Searched",
    "ShortestPaths",
    "SquaresAt",
    "reads_tied_points",
]


Numbers = npt.NDArray[Any]


def reads_tied_points(node: Node) -> bool:
    """Whether a node depends on distances to points that are often equally far."""
    kinds = Distances | SharedDistances | SquaredDistances
    points = (n.points for n in topological((node,)) if isinstance(n, kinds))
    return any(are_often_tied(of.data) for of in points)


class ChoosesNearest(Node):
    """Chooses among entries or points, some of them perhaps equally near.

    Programs order equally near ones by position, and NaN comes last. A source has a search of its
    own: ``tied`` flags the rows in which its choice may differ, ``searched`` is its choice.
    """

    count: int
    search: NearestSearch | None
    rows: Node | None
    bounds: tuple[Node, ...] = ()
    where: Node | None = None
    formula: Formula | None
    ordered: bool = False

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return str(self.count)

    @property
    def entries(self) -> Node:
        """What the nearest have the smallest of."""
        raise NotImplementedError

    @property
    def near(self) -> Node:
        """The entries at the choice."""
        return EntriesAt(self.entries, self)

    @property
    def by_dtype(self) -> NearestSearch | None:
        return self.search and self.search.for_dtype(self.rows.type.dtype if self.rows else "")

    @property
    def by_formula(self) -> Formula | None:
        """The formula for the dtype of the rows."""
        return self.formula and self.formula.for_dtype(self.rows.type.dtype if self.rows else "")

    @property
    def listed(self) -> int:
        """How many a program lists: with the next one, which shows a tie of the last."""
        return min(self.count + (self.search is not None), self.entries.type.width)

    def in_order(self) -> Node:
        """Return what also orders equally near ones as the source does."""
        return replace(self, ordered=True)  # type: ignore[call-arg]

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def check(self) -> str | None:
        width = self.entries.type.width
        if not 0 < self.count <= width:
            return f"takes {self.count} of {width}"
        if self.search is None:
            return None
        if self.formula:
            misfit = self.formula.misfit(width, self.rows.type.width if self.rows else 0)
            if misfit:
                return misfit
        widths = [bound.type.width for bound in self.bounds]
        return self.search.misfit(width, widths)

    def nearest(self, b: Builder, *inputs: Value) -> Value:
        """Write the positions of those listed."""
        raise NotImplementedError

    def listed_entries(self, b: Builder, positions: Value, *inputs: Value) -> Value:
        """Write the entries of those listed."""
        raise NotImplementedError

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.take(self.nearest(b, *inputs), np.arange(self.count))

    def tied(self, b: Builder, *inputs: Value) -> Value | None:
        """Tell the rows whose last is as near as the next, in which any two are if ``ordered``.

        By a formula that rounds, those are too that differ by its rounding. None where no search
        decides, or all are taken.
        """
        first = 0 if self.ordered else self.count - 1
        # Those listed ascend, so a tie is between two that follow one another.
        after = np.arange(first + 1, self.listed)
        if self.search is None or not len(after):
            return None
        entries = self.listed_entries(b, self.nearest(b, *inputs), *inputs)
        formula = self.by_formula
        if formula is None:
            equal = b.op("eq", b.take(entries, after - 1), b.take(entries, after))
        else:
            assert self.rows is not None  # noqa: S101
            scaled = b.cast(formula.scaled(b, entries), "float64")
            smaller, larger = b.take(scaled, after - 1), b.take(scaled, after)
            margin = formula.margin(b, inputs[self.inputs.index(self.rows)], larger)
            equal = larger - smaller <= margin
        tie = b.reshape(b.reduce("reduce_any", equal), 1)
        return tie & inputs[self.inputs.index(self.where)] if self.where else tie

    def choose(self, values: Mapping[str, Numbers]) -> npt.NDArray[np.int32]:
        """Choose by a partition in the rows in which it matters; in others any will do.

        Parameters
        ----------
        values : mapping of str to ndarray
            What is read: ``rows``, ``entries`` as the source rounds them, and ``where``.
        """
        search = self.by_dtype
        assert isinstance(search, PartitionSearch)  # noqa: S101
        entries = values["entries"]
        rows = np.flatnonzero(values["where"]) if self.where else np.arange(len(entries))
        # In rows where no tie matters any choice will do, so position 0 stays.
        chosen = np.zeros((len(entries), self.count), np.int32)
        if len(rows):
            chosen[rows] = search.choose(entries[rows], self.count)
        return chosen

    def entries_at(self, entries: Numbers, chosen: npt.NDArray[np.int32]) -> Numbers:
        """Return the entries at a choice."""
        return np.take_along_axis(entries, chosen, axis=1)

    def is_shared(self, batch: int) -> bool:
        """Whether threads of the source share the entries out in a call of ``batch`` rows."""
        search = self.by_dtype
        return isinstance(search, WrittenSearch) and search.is_shared(
            self.entries.type.width, batch
        )

    def searched(self, entries: Node, batch: int) -> Searched:
        """Return the choice that the source makes among entries, in a call of ``batch`` rows."""
        search = self.by_dtype
        assert isinstance(search, WrittenSearch)  # noqa: S101
        return Searched(entries, self.bounds, search, self.count, self.is_shared(batch))


@container
class Nearest(ChoosesNearest):
    """Find the int32 positions of the ``count`` smallest entries, the smallest first.

    Parameters
    ----------
    x : Node
    count : int
    search : NearestSearch, optional
        How the source chooses among equal entries; by position where it is None.
    rows : Node, optional
        The rows, by whose dtype a search may go.
    bounds : tuple of Node
        What else the search reads.
    where : Node, optional
        Tells the rows in which the choice matters.
    formula : Formula, optional
        How the source computes the entries of ``rows``, where its rounding decides.
    ordered : bool
        The order of equal entries matters too, not only which are found.
    """

    x: Node
    count: int
    search: NearestSearch | None = None
    rows: Node | None = None
    bounds: tuple[Node, ...] = ()
    where: Node | None = None
    formula: Formula | None = None
    ordered: bool = False

    @property
    def entries(self) -> Node:
        return self.x

    def nearest(self, b: Builder, *inputs: Value) -> Value:
        return b.op("topk", inputs[0], k=self.listed)

    def listed_entries(self, b: Builder, positions: Value, *inputs: Value) -> Value:
        return b.gather(inputs[0], positions)


@container
class Searched(Node):
    """Find the int32 positions of the ``count`` smallest entries as a search of the source does.

    Parameters
    ----------
    entries : Node
    bounds : tuple of Node
        What else the search reads.
    search : WrittenSearch
    count : int
    shared : bool
        Threads share the entries out.
    """

    entries: Node
    bounds: tuple[Node, ...]
    search: WrittenSearch
    count: int
    shared: bool

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        entries, *bounds = inputs
        return self.search.write(b, entries, bounds, self.count, shared=self.shared)


@container
class EntriesAt(Node):
    """Each row's entries at its own int32 positions."""

    x: Node
    positions: Node

    def narrowed(self, columns: Array) -> Node:
        return EntriesAt(self.x, Select(self.positions, columns))

    def infer(self) -> Type:
        return Type(self.positions.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.gather(*inputs)


@container
class NearestPoints(ChoosesNearest):
    """Find the ``count`` constant points nearest to each row of floats, the nearest first.

    The values are int32 positions.

    Parameters
    ----------
    x : Node
    points : Array, shape (n_points, width)
    count, search, rows, bounds, where, formula, ordered
        As those of ``Nearest``.
    """

    x: Node
    points: Array
    count: int
    search: NearestSearch | None = None
    rows: Node | None = None
    bounds: tuple[Node, ...] = ()
    where: Node | None = None
    formula: Formula | None = None
    ordered: bool = False

    @property
    def detail(self) -> str:
        return f"{self.count} of {len(self.points)} points"

    @property
    def entries(self) -> Node:
        return Distances(self.x, self.points)

    def nearest(self, b: Builder, *inputs: Value) -> Value:
        x = inputs[0]
        return b.op("nearest", x, b.constant(self.points, x.dtype), k=self.listed)

    def listed_entries(self, b: Builder, positions: Value, *inputs: Value) -> Value:
        return _squares_at(b, inputs[0], positions, self.points)


@container
class SquaresAt(Node):
    """Compute squared distances from each row of floats to the points at its own positions.

    The positions are int32, a row of them for each row of x.
    """

    x: Node
    positions: Node
    points: Array

    @property
    def detail(self) -> str:
        return f"to some of {len(self.points)} points"

    def narrowed(self, columns: Array) -> Node:
        return replace(self, positions=Select(self.positions, columns))

    def infer(self) -> Type:
        return Type(self.positions.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x, positions = inputs
        return _squares_at(b, x, positions, self.points)


def _squares_at(b: Builder, x: Value, positions: Value, points: Array) -> Value:
    apart = b.reshape(x, 1, *x.shape) - b.lookup(b.constant(points, x.dtype), positions)
    return b.reduce("ordered_sum", apart * apart, axis=1)


@container
class InverseDistances(Node):
    """``1 / x``; in a row where that is infinite somewhere, 1 there and 0 elsewhere.

    Each of ``groups`` equal blocks of columns counts as a row of its own.
    """

    x: Node
    groups: int = 1

    @property
    def detail(self) -> str:
        return f"in {self.groups} groups" if self.groups > 1 else ""

    def infer(self) -> Type:
        return self.x.type

    def check(self) -> str | None:
        fits = self.groups > 0 and self.x.type.width % self.groups == 0
        return None if fits else f"{self.groups} groups of {self.x.type.width} columns"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.type.width
        inverse = b.constant([1.0], inputs[0].dtype) / inputs[0]
        inverse = b.reshape(inverse, self.groups, width // self.groups)
        infinite = b.op("isinf", inverse)
        # scikit-learn weighs a row that is a fitted one by its exact hits alone.
        any_infinite = b.reshape(b.reduce("reduce_any", infinite, axis=1), self.groups, 1)
        return b.reshape(b.where(any_infinite, b.cast(infinite, inverse.dtype), inverse), width)


@container
class Barycentric(Node):
    """Find weights of sum 1 with which the points at the positions come nearest to x, in float64.

    They solve ``(G + r I) w = 1``, then are divided by their sum. G holds the inner products of the
    differences between the points and x, and r is a share of G's trace. This is locally linear
    embedding by Saul and Roweis (2000).

    Parameters
    ----------
    x, positions : Node
    points : Array, shape (n_points, width)
    regularization : float
        The share; the number itself where the trace is 0.
    """

    x: Node
    positions: Node
    points: Array
    regularization: float

    @property
    def detail(self) -> str:
        return f"of {len(self.points)} points, regularization {self.regularization:g}"

    def infer(self) -> Type:
        return Type(self.positions.type.width, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        positions = inputs[1]
        difference = b.lookup(b.constant(self.points, "float64"), positions) - b.reshape(
            x, 1, *x.shape
        )
        products = self._regularize(b, _products(b, difference))
        weights = _solve_for_ones(b, products)
        return weights / b.reshape(b.reduce("reduce_sum", weights), 1)

    def _regularize(self, b: Builder, products: Value) -> Value:
        count = products.shape[0]
        share = b.constant([self.regularization], products.dtype)
        zero = b.constant([0.0], products.dtype)
        diagonal = b.take(b.reshape(products, count * count), np.arange(count) * (count + 1))
        trace = b.reshape(b.reduce("reduce_sum", diagonal), 1)
        # scikit-learn's ``barycenter_weights`` adds the
        # share itself where all differences are zero.
        added = b.where(trace > zero, share * trace, b.op("expand", trace, share))
        return products + b.reshape(added, 1, 1) * b.constant(np.eye(count), products.dtype)


def _products(b: Builder, vectors: Value) -> Value:
    """Inner products (rows, k, k) of k vectors (rows, k, d)."""
    rows = [
        b.reduce("reduce_sum", vectors * b.take(vectors, [i]), axis=1)
        for i in range(vectors.shape[0])
    ]
    return b.concat([b.reshape(row, 1, *row.shape) for row in rows])


def _solve_for_ones(b: Builder, matrix: Value) -> Value:
    """Solve ``matrix @ w = 1`` by Gauss-Jordan elimination.

    A positive definite matrix needs no pivoting.
    """
    count = matrix.shape[0]
    ones = b.op("expand", matrix, b.constant(np.ones((count, 1)), matrix.dtype))
    system = b.concat([matrix, ones], axis=1)
    for step in range(count):
        row = b.take(system, [step])
        # The matrix is positive definite, so the pivot is above 0 without any exchange of rows.
        row = row / b.take(row, [step], axis=1)
        column = b.take(system, [step], axis=1) - b.constant(np.eye(count)[:, [step]], system.dtype)
        # The column holds the pivot less 1, so the pivot row becomes itself divided by the pivot.
        system = system - column * row
    return b.reshape(b.take(system, [count], axis=1), count)


@container
class Scatter(Node):
    """Each row's values at its own int32 positions, and the value of absent ones elsewhere."""

    values: Node
    positions: Node
    width: int
    absent: float = 0.0

    def infer(self) -> Type:
        return Type(self.width, self.values.type.dtype)

    def check(self) -> str | None:
        fits = self.width > 0 and self.values.type.width == self.positions.type.width
        return None if fits else f"scatters over {self.width} columns"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        values, positions = inputs
        scattered = b.op("scatter", positions, values, width=self.width)
        if self.absent == 0:
            return scattered
        ones = b.op(
            "expand", values, b.constant(Array(np.ones(self.positions.type.width)), values.dtype)
        )
        # A value may itself be 0, so entries that are there are counted apart.
        there = b.op("scatter", positions, ones, width=self.width) > b.constant(0.0, values.dtype)
        return b.where(there, scattered, b.constant(self.absent, values.dtype))


@container
class Held(ColumnWise):
    """The values that are held, and the value of absent ones elsewhere."""

    held: Node
    values: Node
    absent: float = 0.0

    def infer(self) -> Type:
        return self.values.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        held, values = inputs
        return b.where(held, values, b.constant(self.absent, values.dtype))


@container
class ShortestPaths(OwnConstants):
    """Find the length of the shortest way to each point through a neighbour.

    This is ``min over i of distances[:, i] + lengths[positions[:, i]]``.
    """

    positions: Node
    distances: Node
    lengths: PerOutput

    @property
    def detail(self) -> str:
        return f"to {self.lengths.shape[1]} points"

    def infer(self) -> Type:
        return Type(
            self.lengths.shape[1],
            np.result_type(self.distances.type.dtype, self.lengths.dtype).name,
        )

    def lower(self, b: Builder, *inputs: Value) -> Value:
        positions, distances = inputs
        lengths = b.constant(self.lengths, self.type.dtype)
        distances = b.cast(distances, self.type.dtype)
        ways = []
        for i in range(positions.shape[0]):
            onward = b.reshape(b.lookup(lengths, b.take(positions, [i])), self.type.width)
            ways.append(onward + b.take(distances, [i]))
        return reduce(lambda shortest, way: b.op("minimum", shortest, way), ways)
