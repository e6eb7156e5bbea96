"""Multiply by constant matrices: at once, term after term, in ints that wrap around, or inverted.

The functions at the end write small vectors of each row, for containers that repeat a program.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array, numbers
from hbconv.containers.interval import Interval, largest_constant
from hbconv.containers.node import Node, container, container_base
from hbconv.containers.nodes.column_wise import OwnConstants, PerOutput
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = [
    "Linear",
    "OrderedLinear",
    "TriangularSolution",
    "WrappedLinear",
    "as_column",
    "as_row",
    "dot",
    "is_set",
    "least_positive",
    "number",
    "one_hot",
    "square",
    "total",
]


_MOST_GROWTH = 8.0
"""How many times their end sums of weights may reach in float32; those of random signs reach 2."""


@container_base
class _Weighted(OwnConstants):
    """Base of sums of weighted columns and a bias."""

    x: Node
    weights: PerOutput
    bias: PerOutput

    @property
    def detail(self) -> str:
        return f"{self.weights!r} + {self.bias!r}"


@container
class Linear(_Weighted):
    """Compute ``x @ weights + bias``.

    The product has numpy's common dtype of x and weights, the sum that of product and bias.

    weights are (inputs, outputs), bias (outputs,).
    """

    @staticmethod
    def of(x: Node, weights: npt.ArrayLike, bias: npt.ArrayLike = 0.0) -> Linear:
        """Make the node; a vector of weights gives one output.

        Bias may be a scalar: a Python number takes the weights' dtype.
        """
        w = numbers(weights)
        w = w[:, None] if w.ndim == 1 else w
        # numpy rounds a Python number to the dtype of the array beside it.
        dtype = (
            w.dtype if isinstance(bias, int | float) and not isinstance(bias, np.generic) else None
        )
        return Linear(x, Array(w), Array(np.broadcast_to(numbers(bias, dtype), (w.shape[1],))))

    def check(self) -> str | None:
        fits = self.weights.shape == (self.x.type.width, *self.bias.shape)
        return (
            None
            if fits
            else f"has weights of shape {self.weights.shape} and a bias of shape {self.bias.shape}"
        )

    def infer(self) -> Type:
        return Type(
            self.weights.shape[1],
            np.result_type(self.x.type.dtype, self.weights.dtype, self.bias.dtype).name,
        )

    def interval(self, *inputs: Interval) -> Interval | None:
        (x,) = inputs
        weight = largest_constant(self.weights)
        bias = largest_constant(self.bias)
        if weight is None or bias is None:
            return None
        return x.within(x.bound * weight * max(1, self.weights.shape[0]) + bias)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        if b.precision == "fast" and _fall_back(self.weights.data):
            return self._with_bias(b, b.matmul_wide(inputs[0], self.weights))
        return self._with_bias(b, b.matmul(*b.promote(inputs[0], b.constant(self.weights))))

    def lower_sparse(self, b: Builder, *inputs: SparseRows) -> Value:  # type: ignore[override]
        """Add up the weights of the tokens, which is a lookup in a table of embeddings.

        A last row of zeros stands for padding.
        """
        (rows,) = inputs
        # Padded tokens name the row behind the last feature, which adds zeros.
        none = np.zeros((1, self.weights.shape[1]), self.weights.dtype)
        weights, table = b.promote(
            rows.weights, b.constant(np.concatenate([self.weights.data, none]))
        )
        return self._with_bias(b, b.op("embedding_sum", rows.tokens, weights, table))

    def _with_bias(self, b: Builder, product: Value) -> Value:
        product = b.cast(product, self.type.dtype)
        return (
            product
            if not np.any(self.bias.data)
            else product + b.constant(self.bias, self.type.dtype)
        )


def _fall_back(weights: npt.NDArray[Any]) -> bool:
    """Whether sums grow far beyond their end, where float32 loses digits of all that is left.

    The weights of an SVC are sorted by class and add up to 0. Its scores of 2,240 vectors lost
    1.6e-3 so, and lose 6e-6 in a sum of float64, which takes a quarter more time.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.cumsum(weights, axis=0, dtype=np.float64)
        if not len(sums):
            return False
        ends = np.maximum(np.abs(sums[-1]), np.linalg.norm(weights.astype(np.float64), axis=0))
        return bool((np.abs(sums).max(axis=0) > _MOST_GROWTH * ends).any())


@container
class OrderedLinear(_Weighted):
    """Compute ``bias + x[0] * weights[0] + x[1] * weights[1] + ...``, one term after another.

    Each step is rounded to the dtype of x and weights. NaN adds nothing.

    weights are (inputs, outputs), bias (outputs,), of x's dtype.
    """

    def infer(self) -> Type:
        return Type(self.weights.shape[1], self.weights.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        width = self.x.type.width
        dtype = b.dtype(self.weights.dtype)
        x = b.reshape(b.cast(inputs[0], dtype), width, 1)
        # XGBoost's linear booster skips missing values: they add nothing.
        terms = b.where(
            b.op("isnan", x), b.constant(0.0, dtype), x * b.constant(self.weights, dtype)
        )
        bias = b.op("expand", inputs[0], b.constant(self.bias.data[None], dtype))
        return b.reduce("ordered_sum", b.concat([bias, terms]))


@container
class WrappedLinear(OwnConstants):
    """Compute ``x @ weights`` in ints of the weights' dtype, which wrap around.

    Sources that hash several whole numbers together do so by sums of their multiples.

    Parameters
    ----------
    x : Node
        Whole numbers.
    weights : Array of int32 or int64, shape (inputs, outputs)
        Most are zero: they take no work.
    """

    x: Node
    weights: PerOutput

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{np.count_nonzero(self.weights.data)} terms  width {self.type.width}"

    def check(self) -> str | None:
        is_matrix = self.weights.data.ndim == 2 and self.weights.dtype in ("int32", "int64")
        fits = is_matrix and len(self.weights) == self.x.type.width
        return None if fits else f"has weights of {self.weights.dtype} {self.weights.shape}"

    def infer(self) -> Type:
        return Type(self.weights.shape[1], self.weights.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Multiply each column by each of its weights once, and add up the terms of each output.

        Outputs of as many terms are added up together.
        """
        column, output = np.nonzero(self.weights.data)
        weight = self.weights.data[column, output]
        # Equal multiples of a column are computed once: hashes of many combinations share them.
        pairs, product = np.unique(np.stack([column, weight], axis=1), axis=0, return_inverse=True)
        products = b.take(b.cast(inputs[0], self.type.dtype), pairs[:, 0])
        # Products by 1 are left out, which most terms are.
        if np.any(pairs[:, 1] != 1):
            products = products * b.constant(pairs[:, 1], self.type.dtype)
        count = np.bincount(output, minlength=self.type.width)
        counts = np.unique(count)
        alike = [np.flatnonzero(count == terms) for terms in counts.tolist()]
        terms_of = np.split(
            product.reshape(-1)[np.argsort(output, kind="stable")], np.cumsum(count)
        )
        sums = [
            _sum(b, products, np.array([terms_of[j] for j in outputs]).reshape(len(outputs), -1))
            for outputs in alike
        ]
        return b.take(b.concat(sums), np.argsort(np.concatenate(alike)))


def _sum(b: Builder, products: Value, terms: npt.NDArray[np.int64]) -> Value:
    """Add up some of the products for each output: (outputs, terms); no terms give zero."""
    if not terms.shape[1]:
        return b.op("expand", products, b.constant(np.zeros(len(terms)), products.dtype))
    parts = (b.take(products, places) for places in terms.T)
    return reduce(lambda total, part: total + part, parts)


@container
class TriangularSolution(Node):
    """``solve(lower, x.T).T`` in float64: the rows v for which ``v @ lower.T`` is x.

    A product with the inverse loses digits by the condition of the matrix: the deviations of a
    process near its fitted rows lost all of them. One step of iterative refinement has the error
    of a substitution (Skeel, 1980): they are as near to the source's as its own are when its rows
    are fitted in another order. So it is no Linear: a rule would make one product of that.
    """

    x: Node
    triangle: Array

    @property
    def detail(self) -> str:
        return f"of {len(self.triangle)} rows"

    def check(self) -> str | None:
        width = self.x.type.width
        fits = self.triangle.shape == (width, width)
        return None if fits else f"has a matrix of shape {self.triangle.shape}"

    def infer(self) -> Type:
        return Type(len(self.triangle), "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], "float64")
        # The inverse is made once; its error is what the refinement below takes away.
        inverse = b.constant(np.linalg.inv(self.triangle.data).T)
        first = b.matmul(x, inverse)
        # The residual is small, so its own rounding no longer matters.
        rest = x - b.matmul(first, b.constant(self.triangle.data.T))
        return first + b.matmul(rest, inverse)


def number(b: Builder, value: float) -> Value:
    """Write a number of float64."""
    return b.constant(np.array([value]), "float64")


def is_set(b: Builder, x: Value) -> Value:
    """Tell where a number is above zero."""
    return x > number(b, 0.0)


def dot(b: Builder, x: Value, y: Value) -> Value:
    """Multiply and add up, into a vector of one entry."""
    return total(b, x * y)


def total(b: Builder, x: Value) -> Value:
    """Add up, into a vector of one entry."""
    return b.reshape(b.reduce("reduce_sum", x), 1)


def as_row(b: Builder, x: Value) -> Value:
    """Make a vector a matrix of one row."""
    return b.reshape(x, 1, x.shape[0])


def as_column(b: Builder, x: Value) -> Value:
    """Make a vector a matrix of one column."""
    return b.reshape(x, x.shape[0], 1)


def square(b: Builder, v: Value, factor: Value) -> Value:
    """Return ``factor * v * v'``."""
    return as_column(b, factor * v) * as_row(b, v)


def one_hot(b: Builder, index: Value, size: int) -> Value:
    """Write 1 at a computed position, 0 elsewhere."""
    places = b.constant(np.arange(size), "int32")
    return b.cast(b.op("eq", b.reshape(index, 1), places), "float64")


def least_positive(b: Builder, x: Value, counts: Value) -> Value:
    """Find the least of the entries that count and are above zero."""
    # Stands for entries that do not count, since no step is that long.
    most = number(b, np.finfo(np.float64).max)
    positive = b.where(counts & is_set(b, x), x, most)
    return b.reshape(b.reduce("reduce_min", positive), 1)
