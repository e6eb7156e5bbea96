"""Barycentric: how much of each neighbour makes up a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["Barycentric"]


@container
class Barycentric(Node):
    """Weights of sum 1 with which the points at the positions come nearest to x, all differences weighed alike: float64.

    They solve ``(G + r I) w = 1`` up to their sum, for the inner products G of the differences between the points and x, and r
    a share of G's trace: locally linear embedding, Saul and Roweis (2000).

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
        x, positions = b.cast(inputs[0], "float64"), inputs[1]
        difference = b.lookup(b.constant(self.points, "float64"), positions) - b.reshape(x, 1, *x.shape)
        products = self._regularized(b, _products(b, difference))
        weights = _solve_for_ones(b, products)
        return weights / b.reshape(b.reduce("reduce_sum", weights), 1)

    def _regularized(self, b: Builder, products: Value) -> Value:
        count = products.shape[0]
        share, zero = b.constant([self.regularization], products.dtype), b.constant([0.0], products.dtype)
        diagonal = b.take(b.reshape(products, count * count), np.arange(count) * (count + 1))
        trace = b.reshape(b.reduce("reduce_sum", diagonal), 1)
        added = b.where(trace > zero, share * trace, b.op("expand", trace, share))
        return products + b.reshape(added, 1, 1) * b.constant(np.eye(count), products.dtype)


def _products(b: Builder, vectors: Value) -> Value:
    """Inner products (rows, k, k) of k vectors (rows, k, d)."""
    rows = [b.reduce("reduce_sum", vectors * b.take(vectors, [i]), axis=1) for i in range(vectors.shape[0])]
    return b.concat([b.reshape(row, 1, *row.shape) for row in rows])


def _solve_for_ones(b: Builder, matrix: Value) -> Value:
    """Solve ``matrix @ w = 1`` by Gauss's and Jordan's elimination, which needs no pivoting where the matrix is positive definite."""
    count = matrix.shape[0]
    ones = b.op("expand", matrix, b.constant(np.ones((count, 1)), matrix.dtype))
    system = b.concat([matrix, ones], axis=1)
    for step in range(count):
        row = b.take(system, [step])
        row = row / b.take(row, [step], axis=1)
        column = b.take(system, [step], axis=1) - b.constant(np.eye(count)[:, [step]], system.dtype)
        system = system - column * row
    return b.reshape(b.take(system, [count], axis=1), count)
