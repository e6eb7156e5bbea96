"""Evaluate the linear part in double-double, with a bound of what float arithmetic would lose.

The bound is running: each operation adds what it rounds at most, in units of roundoff. A sum of n
terms counts ``1 + sqrt(n)`` times the sum of their magnitudes, which holds with a probability of
nearly one whatever the order (N. J. Higham, T. Mary, "A new approach to probabilistic rounding
error analysis", 2019).

``Wide`` is a number as the exact sum of two float64, which is good for about 100 bits. Its sums and
products without error are Knuth's and Dekker's (T. J. Dekker, "A floating-point technique for
extending the available precision", 1971).
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

__all__ = ["Bounded", "Wide", "evaluate"]

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
        # Rounding errors add up like a random walk, with one more for the product itself.
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


def evaluate(nodes: Iterable[Node], at_leaves: Mapping[Node, Bounded]) -> dict[Node, Bounded]:
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
    values = dict(at_leaves)
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
            x = _divide(x, constant)
        else:
            x = x + (constant if step.op == "add" else Bounded.exact(-step.constant.data[None]))
    return x


def _divide(x: Bounded, constant: Bounded) -> Bounded:
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


def _join(parts: list[Bounded]) -> Bounded:
    error = np.concatenate([part.error for part in parts], axis=1)
    return Bounded(Wide.joined([part.value for part in parts]), error)


def _expand(node: ConstantRows, operands: list[Bounded]) -> Bounded:
    return Bounded.exact(np.tile(node.values.data, (len(operands[0].error), 1)))


def _polynomial(node: Polynomial, operands: list[Bounded]) -> Bounded:
    (x,) = operands
    factors = _join([x, Bounded.exact(np.ones((len(x.error), 1)))])  # whose last one -1 reads
    return reduce(Bounded.__mul__, (factors[columns] for columns in node.terms.data.T))


_MEANINGS: Mapping[type[Node], Callable[[Any, list[Bounded]], Bounded]] = {
    Add: lambda node, xs: reduce(Bounded.__add__, xs),
    Affine: _affine,
    Cast: lambda node, xs: xs[0],
    Concat: lambda node, xs: _join(xs),
    ConstantRows: _expand,
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


# Dekker's splitter: it cuts 53 bits into two halves of 26, whose products are exact.
_SPLITTER = 2.0**27 + 1
# Two megabytes of products at a time, however large the matrix is.
_PRODUCTS_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Wide:
    """An array of double-doubles: ``high + low``, where low is at most half a unit of high.

    Examples
    --------
    >>> third = Wide.of([1.0]) / Wide.of([3.0])
    >>> (third * Wide.of([3.0]) - Wide.of([1.0])).high
    array([0.])
    """

    high: Floats
    low: Floats

    @staticmethod
    def of(values: npt.ArrayLike) -> Wide:
        """Take float64, or what converts to it, as it is."""
        high = np.asarray(values, dtype=np.float64)
        return Wide(high, np.zeros_like(high))

    def __add__(self, other: Wide) -> Wide:
        total, error = _two_sum(self.high, other.high)
        return Wide(*_two_sum(total, error + (self.low + other.low)))

    def __sub__(self, other: Wide) -> Wide:
        return self + Wide(-other.high, -other.low)

    def __mul__(self, other: Wide) -> Wide:
        product, error = _two_product(self.high, other.high)
        cross = self.high * other.low + self.low * other.high
        return Wide(*_two_sum(product, error + cross))

    def __truediv__(self, other: Wide) -> Wide:
        """Divide once, and divide what remains again."""
        first = Wide.of(self.high / other.high)
        # One quotient is good for 53 bits, that of the remainder for the next ones.
        rest = self - first * other
        return first + Wide.of(rest.high / other.high)

    def __matmul__(self, weights: Floats) -> Wide:
        """Multiply rows (n_rows, n) by weights (n, k), some inputs at a time."""
        # Probes leave most columns of a wide leaf at 0, which add nothing.
        used = np.flatnonzero(self.high.any(axis=0))
        step = max(1, _PRODUCTS_AT_ONCE // max(1, len(self.high) * weights.shape[1]))
        total = Wide.of(np.zeros((len(self.high), weights.shape[1])))
        for first in range(0, len(used), step):
            chosen = used[first : first + step]
            total = total + (self[:, chosen, None] * Wide.of(weights[chosen])).sum()
        return total

    def __getitem__(self, index: Any) -> Wide:
        return Wide(self.high[index], self.low[index])

    def sum(self) -> Wide:
        """Add up axis 1, in pairs."""
        total = self
        while total.high.shape[1] > 1:
            # In pairs the depth is a logarithm, so few steps of numpy add up many columns.
            half = total.high.shape[1] // 2
            paired = total[:, :half] + total[:, half : 2 * half]
            rest = total[:, 2 * half :]
            total = Wide.joined([paired, rest])
        return total[:, 0]

    @staticmethod
    def joined(parts: list[Wide]) -> Wide:
        """Put arrays side by side along axis 1."""
        return Wide(
            *(np.concatenate(side, axis=1) for side in zip(*map(_halves, parts), strict=True))
        )


def _halves(value: Wide) -> tuple[Floats, Floats]:
    return value.high, value.low


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded sum and what rounding lost."""
    total = a + b
    # Knuth's sum: exact whichever of the two is larger.
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and what rounding lost."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    # In Dekker's order, from the largest part down: in another one, last bits are lost.
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Floats) -> tuple[Floats, Floats]:
    """Return two halves of 26 bits, whose products are exact."""
    spread = _SPLITTER * a
    high = spread - (spread - a)
    return high, a - high
