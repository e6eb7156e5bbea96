"""Factors: how much dearer a unit of work is on this machine than on the one of the prices."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from hbconv.cost_model.prices import Price, Prices

__all__ = ["GROUPS", "SHIPPED", "Factors", "is_factor", "settled"]

MOST = 8.0
"""A factor beyond it, or below its inverse, is taken for a disturbed measurement."""
NOISE = 1.1
"""A factor within it counts as one."""


@dataclass(frozen=True)
class Factors:
    """Factors of one backend, one for each group of units.

    Parameters
    ----------
    operators : float
        Of the overhead of an operator.
    elementwise : float
        Of words computed by arithmetic, or copied.
    functions : float
        Of words computed by functions such as ``exp``.
    reads : float
        Of entries read at fixed or computed positions.
    products : float
        Of multiply-adds.
    trees : float
        Of all that a tree strategy does, operators excepted.
    """

    operators: float = 1.0
    elementwise: float = 1.0
    functions: float = 1.0
    reads: float = 1.0
    products: float = 1.0
    trees: float = 1.0

    def of_primitives(self, prices: Prices) -> Prices:
        """Return the prices of primitives on this machine.

        Examples
        --------
        >>> found = Factors(reads=2.0).of_primitives(Prices(operator=1.0, read=(3.0, 0.5)))
        >>> found.operator, found.read
        (1.0, (6.0, 1.0))
        """
        functions = {name: price * self.functions for name, price in prices.functions.items()}
        return replace(
            prices,
            operator=prices.operator * self.operators,
            elementwise=_scaled(prices.elementwise, self.elementwise),
            take=_scaled(prices.take, self.reads),
            read=_scaled(prices.read, self.reads),
            multiplication=prices.multiplication * self.products,
            padding=prices.padding * self.products,
            span=prices.span * self.elementwise,
            functions=functions,
        )

    def of_trees(self, prices: Prices) -> Prices:
        """Return the prices of a tree strategy on this machine.

        One factor is common to all strategies of a backend, so it does not decide between them.
        """
        return replace(
            prices,
            operator=prices.operator * self.operators,
            elementwise=_scaled(prices.elementwise, self.trees),
            take=_scaled(prices.take, self.trees),
            read=_scaled(prices.read, self.trees),
            multiplication=prices.multiplication * self.trees,
            padding=prices.padding * self.trees,
            visit=_scaled(prices.visit, self.trees),
            span=prices.span * self.trees,
            column=prices.column * self.trees,
            sum=_scaled(prices.sum, self.trees),
        )


GROUPS = tuple(field.name for field in fields(Factors))
"""Names of the groups of units, in the order in which they are measured."""
SHIPPED = Factors()


def settled(ratio: float) -> float:
    """Return the factor for a measured ratio: one where it is near, and never far from it.

    Examples
    --------
    >>> [settled(ratio) for ratio in (1.05, 0.92, 2.5, 100.0, 0.0, float("nan"))]
    [1.0, 1.0, 2.5, 8.0, 0.125, 1.0]
    """
    if math.isnan(ratio) or 1 / NOISE <= ratio <= NOISE:
        return 1.0
    return min(max(ratio, 1 / MOST), MOST)


def is_factor(value: object) -> bool:
    """Whether a value of a file is a factor such as ``settled`` returns."""
    return type(value) is float and 1 / MOST <= value <= MOST


def _scaled(price: Price, factor: float) -> Price:
    if isinstance(price, tuple):
        return tuple(step * factor for step in price)
    return price * factor
