"""Prices: seconds for a unit of work, growing where what is read exceeds the caches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hbconv.caches import Caches, find_caches
from hbconv.cost_model.work import Work
from hbconv.target import Target

__all__ = ["Price", "Prices", "unit_price"]

Price = float | tuple[float, ...]
"""Seconds for one unit: in the nearest cache, then what a miss of each level adds."""


def unit_price(price: Price, size: float, caches: Caches) -> float:
    """Return the seconds for one unit of work that reads a table of ``size`` bytes.

    Examples
    --------
    >>> caches = Caches(level1=1000, level2=4000)
    >>> unit_price(1.0, 8000, caches), unit_price((1.0, 0.0, 4.0), 8000, caches)
    (1.0, 3.0)
    """
    if not isinstance(price, tuple):
        return price
    nearest, *steps = price
    return nearest + sum(
        step * missed for step, missed in zip(steps, caches.beyond(size), strict=False)
    )


@dataclass(frozen=True)
class Prices:
    """Seconds for each unit of work on one backend and device; a price left out is zero.

    A price is a number, or a tuple: in the nearest cache, then what a miss of the first, the second
    and the third level adds. Reads and visits miss where the tables exceed a cache. Elementwise
    words and takes miss where the temporaries of the rows at once do.

    Parameters
    ----------
    operator, elementwise, take, read, multiplication, padding, visit, column, sum, span : Price
        Seconds for one unit of the count of ``Work`` with that name.
    tile : int
        Least number of rows that the backend computes, wanted or not.
    functions : mapping of str to float
        Seconds for a word of each primitive that has a price of its own. One that has none costs
        what ``exp`` does.
    """

    operator: float = 0.0
    elementwise: Price = 0.0
    take: Price = 0.0
    read: Price = 0.0
    multiplication: float = 0.0
    padding: float = 0.0
    visit: Price = 0.0
    tile: int = 1
    column: float = 0.0
    sum: Price = 0.0
    span: float = 0.0
    functions: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, work: Work, target: Target, caches: Caches | None = None) -> float:
        """Return the price of the work for ``target.rows`` rows, on this machine if none is named.

        Examples
        --------
        >>> Prices(operator=0.5, take=0.125).seconds(Work(operators=2, takes=3), Target(rows=4))
        2.5
        """
        runs = math.ceil(target.rows / work.rows_at_once(target))
        row = self._row_seconds(work, target, caches or find_caches())
        return runs * work.operators * self.operator + max(target.rows, self.tile, work.tile) * row

    def _row_seconds(self, work: Work, target: Target, caches: Caches) -> float:
        held = work.temporaries * work.rows_at_once(target)
        elementwise = unit_price(self.elementwise, held, caches)
        products = work.multiplications * self.multiplication + work.padding * self.padding
        plain = products + work.columns * self.column + work.spans * self.span
        functions = sum(
            count * self.functions.get(name, self.functions.get("exp", elementwise))
            for name, count in work.functions
        )
        streams = work.elementwise * elementwise + work.takes * unit_price(self.take, held, caches)
        scattered = (
            work.reads * unit_price(self.read, work.tables, caches)
            + work.visits * unit_price(self.visit, work.tables, caches)
            + work.sums * unit_price(self.sum, work.tables, caches)
        )
        return plain + functions + streams + scattered
