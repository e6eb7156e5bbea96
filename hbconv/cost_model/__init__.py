"""The cost model: counts of work, the prices of a unit on each backend, and seconds predicted.

Counts belong to a program or a forest, prices to a backend and a machine. A price grows where what
is read exceeds a cache. Prices are shipped; factors of this machine correct them where it was
measured.
"""

from hbconv.cost_model.predict import OperatorCost, find_prices, predict, scaled_prices, show_prices
from hbconv.cost_model.price_record import (
    GROUPS,
    Factors,
    PriceRecord,
    Prices,
    describe_host,
    find_record,
    forget_record,
    keep_record,
    settled,
)
from hbconv.cost_model.shipped import CLOCK, SINGLE_ROW, SMALL_TILE
from hbconv.cost_model.work import Work, count_work, total_work
from hbconv.system.processor import Caches, find_caches

__all__ = [
    "CLOCK",
    "GROUPS",
    "SINGLE_ROW",
    "SMALL_TILE",
    "Caches",
    "Factors",
    "OperatorCost",
    "PriceRecord",
    "Prices",
    "Work",
    "count_work",
    "describe_host",
    "find_caches",
    "find_prices",
    "find_record",
    "forget_record",
    "keep_record",
    "predict",
    "scaled_prices",
    "settled",
    "show_prices",
    "total_work",
]
