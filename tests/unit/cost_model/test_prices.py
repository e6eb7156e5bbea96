"""Prices: proportional to counts, monotone, and growing by cache level."""

from dataclasses import replace

import pytest

from hbconv.cost_model import Caches, Prices, Work, find_prices
from hbconv.cost_model.price_record import unit_price
from hbconv.cost_model.shipped import KERNEL_PRICES, LOWERED_PRICES, PRIMITIVE_PRICES
from hbconv.target import Target

FAKE = Caches(level1=1000, level2=10_000, level3=100_000)
TARGET = Target(rows=100)
SHIPPED = {**KERNEL_PRICES, **LOWERED_PRICES, **PRIMITIVE_PRICES}
COUNTS = ("operators", "elementwise", "takes", "reads", "multiplications", "visits", "sums")


def test_a_flat_price_knows_no_cache():
    assert unit_price(2.0, 10**9, FAKE) == 2.0


def test_a_levelled_price_adds_the_misses_of_each_level():
    price = (1.0, 2.0, 4.0, 8.0)
    assert unit_price(price, 1000, FAKE) == 1.0
    assert unit_price(price, 2000, FAKE) == 1.0 + 2.0 / 2
    assert unit_price(price, 20_000, FAKE) == pytest.approx(1.0 + 2.0 * 0.95 + 4.0 / 2)
    assert unit_price((1.0, 2.0), 10**12, FAKE) == pytest.approx(3.0)


@pytest.mark.parametrize("unit", COUNTS)
def test_each_count_costs_its_own_price(unit):
    name = {"reads": "read", "takes": "take", "visits": "visit", "sums": "sum"}.get(
        unit, unit.rstrip("s")
    )
    priced = Prices(**{name: 2.0}).seconds(Work(**{unit: 3}), TARGET, FAKE)
    assert priced == (6.0 if unit == "operators" else 600.0)
    assert Prices().seconds(Work(**{unit: 3}), TARGET, FAKE) == 0


def test_visits_miss_by_tables_and_words_by_temporaries():
    prices = Prices(visit=(1.0, 1.0), elementwise=(1.0, 1.0))
    visits = Work(visits=1, tables=2000)
    assert prices.seconds(visits, TARGET, FAKE) == 150
    assert prices.seconds(replace(visits, tables=0, temporaries=2000), TARGET, FAKE) == 100
    words = Work(elementwise=1, temporaries=20)
    assert prices.seconds(words, TARGET, FAKE) == 150
    assert prices.seconds(words, Target(rows=10), FAKE) == 10


def test_a_function_costs_its_own_price_or_that_of_exp():
    prices = Prices(elementwise=1.0, functions={"exp": 3.0, "pow": 7.0})
    seconds = [
        prices.seconds(Work(functions=((name, 2),)), Target(rows=1), FAKE)
        for name in ("exp", "pow", "cos")
    ]
    assert seconds == [6, 14, 6]
    assert Prices(elementwise=1.0).seconds(Work(functions=(("exp", 2),)), Target(rows=1)) == 2


@pytest.mark.parametrize("tiled", [(Prices(visit=1.0, tile=16), 1), (Prices(visit=1.0), 16)])
def test_a_tile_is_paid_whole(tiled):
    prices, tile = tiled
    seconds = [
        prices.seconds(Work(visits=1, tile=tile), Target(rows=rows), FAKE) for rows in (1, 16, 17)
    ]
    assert seconds == [16, 16, 17]


@pytest.mark.parametrize("prices", SHIPPED.values(), ids=map(str, SHIPPED))
def test_shipped_prices_are_positive_and_monotone(prices):
    work = Work(**dict.fromkeys(COUNTS, 10), functions=(("exp", 10),))
    sizes = [replace(work, tables=10**e, temporaries=10**e) for e in range(8)]
    one_run = Target(rows=64)
    seconds = [prices.seconds(each, one_run, FAKE) for each in sizes]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0
    by_rows = [prices.seconds(work, Target(rows=rows), FAKE) for rows in (1, 100, 10_000)]
    assert by_rows == sorted(by_rows)


def test_prices_of_a_kernel_hold_on_the_processor_only():
    native = find_prices(Target("torch"), "select", native=True)
    assert native == find_prices(Target("torchscript"), "select", native=True)
    assert native != find_prices(Target("torch", device="cuda"), "select", native=True)
    assert find_prices(Target("tvm"), "", native=False) == PRIMITIVE_PRICES["tvm"]
    assert find_prices(Target("reference"), "gemm", native=False) == LOWERED_PRICES["torch", "gemm"]
