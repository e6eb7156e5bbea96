"""What a unit of work costs on each backend: the constants of the cost model, as measured.

``python benchmarks/strategies.py --backend NAME --fit`` times every strategy on forests of many shapes and fits these.
"""

from __future__ import annotations

from collections.abc import Mapping

from hbconv.strategy import Prices
from hbconv.target import Target

__all__ = ["find_prices"]

PRIMITIVES: Mapping[str, Prices] = {
    "torch": Prices(operator=5e-6, elementwise=5e-10, take=1e-9, lookup=2e-9, gather=2e-9, multiplication=1e-10),
}
"""Trees written as plain primitives."""

NATIVE: Mapping[str, Prices] = {"reference": Prices(visit=2e-8)}
"""Trees run by a kernel of the backend's own."""


def find_prices(target: Target, *, native: bool) -> Prices:
    """Return the prices of a backend, or of the most alike that was measured."""
    table, default = (NATIVE, "reference") if native else (PRIMITIVES, "torch")
    return table.get(target.backend, table[default])
