"""The nearest points of each row, and their weights: Nearest, InverseDistances, Barycentric."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.wiring import Select
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Barycentric", "EntriesAt", "InverseDistances", "Nearest", "NearestPoints", "SquaresAt"]


@container
class Nearest(Node):
    """Find the int32 positions of the ``count`` smallest entries, the smallest first.

    Ties are ordered by position, and NaN comes last.
    """

    x: Node
    count: int

    decides: ClassVar[bool] = True

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("topk", inputs[0], k=self.count)


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
class NearestPoints(Node):
    """Find the ``count`` constant points nearest to each row of floats, the nearest first.

    The values are int32 positions. Ties are ordered by position, and NaN comes last.
    """

    x: Node
    points: Array
    count: int

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{self.count} of {len(self.points)} points"

    def infer(self) -> Type:
        return Type(self.count, "int32")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.op("nearest", inputs[0], b.constant(self.points, inputs[0].dtype), k=self.count)


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
        apart = b.reshape(x, 1, *x.shape) - b.lookup(b.constant(self.points, x.dtype), positions)
        return b.reduce("ordered_sum", apart * apart, axis=1)


@container
class InverseDistances(Node):
    """``1 / x``; in a row where that is infinite somewhere, 1 there and 0 elsewhere."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        inverse = b.constant([1.0], inputs[0].dtype) / inputs[0]
        infinite = b.op("isinf", inverse)
        any_infinite = b.reshape(b.reduce("reduce_any", infinite), 1)
        return b.where(any_infinite, b.cast(infinite, inverse.dtype), inverse)


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
        products = self._regularized(b, _products(b, difference))
        weights = _solve_for_ones(b, products)
        return weights / b.reshape(b.reduce("reduce_sum", weights), 1)

    def _regularized(self, b: Builder, products: Value) -> Value:
        count = products.shape[0]
        share = b.constant([self.regularization], products.dtype)
        zero = b.constant([0.0], products.dtype)
        diagonal = b.take(b.reshape(products, count * count), np.arange(count) * (count + 1))
        trace = b.reshape(b.reduce("reduce_sum", diagonal), 1)
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
        row = row / b.take(row, [step], axis=1)
        column = b.take(system, [step], axis=1) - b.constant(np.eye(count)[:, [step]], system.dtype)
        system = system - column * row
    return b.reshape(b.take(system, [count], axis=1), count)
