"""Factors: which prices each one multiplies."""

from dataclasses import fields, replace

import pytest

from hbconv.cost_model import Factors, Prices
from hbconv.cost_model.price_record import GROUPS, is_factor

UNITS = tuple(f.name for f in fields(Prices) if f.name not in ("tile", "functions"))
PRICES = Prices(**dict.fromkeys(UNITS, 3.0), tile=4, functions={"exp": 3.0})
OF_PRIMITIVES = {
    "operators": {"operator"},
    "elementwise": {"elementwise", "span"},
    "functions": {"functions"},
    "reads": {"take", "read"},
    "products": {"multiplication", "padding"},
    "trees": set(),
}
OF_TREES = {group: set() for group in GROUPS} | {
    "operators": {"operator"},
    "trees": set(UNITS) - {"operator"},
}


def changed(prices):
    return {f.name for f in fields(Prices) if getattr(prices, f.name) != getattr(PRICES, f.name)}


@pytest.mark.parametrize("group", GROUPS)
def test_a_factor_multiplies_the_units_of_its_group(group):
    factors = Factors(**{group: 2.0})
    assert changed(factors.of_primitives(PRICES)) == OF_PRIMITIVES[group]
    assert changed(factors.of_trees(PRICES)) == OF_TREES[group]


def test_each_step_of_a_price_is_multiplied():
    prices = replace(PRICES, elementwise=(1.0, 0.0, 4.0))
    assert Factors(elementwise=2.0).of_primitives(prices).elementwise == (2.0, 0.0, 8.0)
    assert Factors(trees=2.0).of_trees(prices).elementwise == (2.0, 0.0, 8.0)
    assert Factors(functions=2.0).of_primitives(PRICES).functions == {"exp": 6.0}


@pytest.mark.parametrize("value", [1, True, "1.0", None, [1.0], 0.0, -1.0, 9.0, 1e308])
def test_what_no_measurement_settles_on_is_no_factor(value):
    assert not is_factor(value)


def test_nan_and_infinity_are_no_factors():
    assert not is_factor(float("nan"))
    assert not is_factor(float("inf"))
    assert is_factor(0.125)
    assert is_factor(8.0)
