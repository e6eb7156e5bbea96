"""Evaluate the linear part in double-double, with a bound of what float arithmetic would lose.

The bound is running: each operation adds what it rounds at most, in units of roundoff. A sum of n
terms counts ``1 + sqrt(n)`` times the sum of their magnitudes, which holds with a probability of
nearly one whatever the order (N. J. Higham, T. Mary, "A new approach to probabilistic rounding
error analysis", 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
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
    Polynomial,
    RowDot,
    Select,
    Together,
)
from hbconv.optimize.normal_form.double_double import Wide

__all__ = ["Bounded", "evaluate"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bounded:
    """Values of a node for some rows, and how far float arithmetic may be from them.

    Parameters
    ----------
    value : Wide, shape (n_rows, width)
    error : ndarray, shape (n_rows, width)
        In units of roundoff: half the spacing at one.
    """

    value: Wide
    error: Floats

    @staticmethod
    def exact(values: npt.ArrayLike) -> Bounded:
        """Take values without error."""
        value = Wide.of(values)
        return Bounded(value, np.zeros_like(value.high))

    @property
    def size(self) -> Floats:
        """Magnitudes of the values."""
        return np.abs(self.value.high)

    def __getitem__(self, columns: Any) -> Bounded:
        return Bounded(self.value[:, columns], self.error[:, columns])

    def __add__(self, other: Bounded) -> Bounded:
        value = self.value + other.value
        return Bounded(value, self.error + other.error + np.abs(value.high))

    def __mul__(self, other: Bounded) -> Bounded:
        value = self.value * other.value
        error = self.error * other.size + self.size * other.error
        return Bounded(value, error + np.abs(value.high))

    def __matmul__(self, weights: Floats) -> Bounded:
        sizes = np.abs(weights)
        growth = 1.0 + np.sqrt(len(weights))
        error = (self.error + growth * self.size) @ sizes
        return Bounded(self.value @ weights, error)

    def sums(self, groups: int) -> Bounded:
        """Add up each of some equal blocks of columns."""
        shape = (len(self.error), groups, -1)
        blocks = Wide(self.value.high.reshape(shape), self.value.low.reshape(shape))
        columns = Wide(blocks.high.transpose(0, 2, 1), blocks.low.transpose(0, 2, 1))
        growth = 1.0 + np.sqrt(columns.high.shape[1])
        error = self.error.reshape(shape).sum(axis=2) + growth * np.abs(blocks.high).sum(axis=2)
        return Bounded(columns.sum(), error)


def evaluate(nodes: Iterable[Node], given: Mapping[Node, Bounded]) -> dict[Node, Bounded]:
    """Compute the values of nodes, inputs first, from those of the leaves.

    Examples
    --------
    >>> from hbconv.containers import Columns, Linear, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> model = Linear.of(x, [3.0, 4.0], 5.0)
    >>> found = evaluate([model], {x: Bounded.exact([[1.0, 2.0]])})[model]
    >>> found.value.high
    array([[16.]])
    """
    values = dict(given)
    with np.errstate(all="ignore"):
        for node in nodes:
            if node not in values:
                operands = [values[x] for x in node.inputs]
                values[node] = _MEANINGS[type(node)](node, operands)
    return values


def _affine(node: Affine, operands: list[Bounded]) -> Bounded:
    (x,) = operands
    for step in node.steps:
        constant = Bounded.exact(step.constant.data[None])
        if step.op == "mul":
            x = x * constant
        elif step.op == "div":
            x = _divided(x, constant)
        else:
            x = x + (constant if step.op == "add" else Bounded.exact(-step.constant.data[None]))
    return x


def _divided(x: Bounded, constant: Bounded) -> Bounded:
    value = x.value / constant.value
    return Bounded(value, x.error / constant.size + np.abs(value.high))


def _linear(node: Linear, operands: list[Bounded]) -> Bounded:
    return operands[0] @ node.weights.data.astype(np.float64) + Bounded.exact(node.bias.data[None])


def _one_hot(node: OneHot, operands: list[Bounded]) -> Bounded:
    codes = np.repeat(operands[0].value.high, node.sizes, axis=1)
    positions = np.concatenate([np.arange(size) for size in node.sizes])
    return Bounded.exact(codes == positions)


def _lookup_sum(node: LookupSum, operands: list[Bounded]) -> Bounded:
    codes = operands[0].value.high.astype(np.int64)
    rows = (Bounded.exact(table.data[codes[:, j] + 1]) for j, table in enumerate(node.tables))
    return reduce(Bounded.__add__, rows)


def _joined(parts: list[Bounded]) -> Bounded:
    error = np.concatenate([part.error for part in parts], axis=1)
    return Bounded(Wide.joined([part.value for part in parts]), error)


def _expanded(node: ConstantRows, operands: list[Bounded]) -> Bounded:
    return Bounded.exact(np.tile(node.values.data, (len(operands[0].error), 1)))


def _polynomial(node: Polynomial, operands: list[Bounded]) -> Bounded:
    (x,) = operands
    factors = _joined([x, Bounded.exact(np.ones((len(x.error), 1)))])  # whose last one -1 reads
    return reduce(Bounded.__mul__, (factors[columns] for columns in node.terms.data.T))


_MEANINGS: Mapping[type[Node], Callable[[Any, list[Bounded]], Bounded]] = {
    Add: lambda node, xs: reduce(Bounded.__add__, xs),
    Affine: _affine,
    Cast: lambda node, xs: xs[0],
    Concat: lambda node, xs: _joined(xs),
    ConstantRows: _expanded,
    GroupSums: lambda node, xs: xs[0].sums(node.groups),
    Linear: _linear,
    LookupSum: _lookup_sum,
    Map: lambda node, xs: xs[0] * xs[0],
    OneHot: _one_hot,
    Polynomial: _polynomial,
    RowDot: lambda node, xs: (xs[0] * xs[1]).sums(1),
    Select: lambda node, xs: xs[0][node.indices.data],
    Together: lambda node, xs: xs[0],
}
