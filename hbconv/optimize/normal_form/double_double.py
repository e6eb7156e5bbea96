"""Double-double: a number as the exact sum of two float64, which is good for about 100 bits.

The sums and products without error are Knuth's and Dekker's (T. J. Dekker, "A floating-point
technique for extending the available precision", 1971).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Wide"]

Floats = npt.NDArray[np.float64]

_SPLITTER = 2.0**27 + 1
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
        rest = self - first * other
        return first + Wide.of(rest.high / other.high)

    def __matmul__(self, weights: Floats) -> Wide:
        """Multiply rows (n_rows, n) by weights (n, k), some inputs at a time."""
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
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and what rounding lost."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Floats) -> tuple[Floats, Floats]:
    """Return two halves of 26 bits, whose products are exact."""
    spread = _SPLITTER * a
    high = spread - (spread - a)
    return high, a - high
