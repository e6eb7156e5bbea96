"""The cost model: counts of work, the prices of a unit on each backend, and seconds predicted.

Counts belong to a program or a forest, prices to a backend and a machine. A price grows where what
is read exceeds a cache.
"""

from hbconv.cost_model.caches import Caches, find_caches
from hbconv.cost_model.count import count_work
from hbconv.cost_model.predict import OperatorCost, find_prices, predict
from hbconv.cost_model.prices import Prices
from hbconv.cost_model.shipped import CLOCK, SINGLE_ROW, SMALL_TILE
from hbconv.cost_model.work import Work

__all__ = [
    "CLOCK",
    "SINGLE_ROW",
    "SMALL_TILE",
    "Caches",
    "OperatorCost",
    "Prices",
    "Work",
    "count_work",
    "find_caches",
    "find_prices",
    "predict",
]
