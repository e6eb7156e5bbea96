"""Double-double against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hbconv.optimize.normal_form.evaluate import Wide

RNG = np.random.default_rng(0)
A, B, C = (RNG.normal(size=50) * 10.0 ** RNG.integers(-30, 30, 50) for _ in range(3))


def exact(wide: Wide) -> list[Fraction]:
    return [Fraction(h) + Fraction(low) for h, low in zip(wide.high, wide.low, strict=True)]


@pytest.mark.parametrize("name", ["__add__", "__sub__", "__mul__", "__truediv__"])
def test_arithmetic_is_good_for_a_hundred_bits(name: str) -> None:
    a = Wide.of(A) * Wide.of(C)
    got = exact(getattr(a, name)(Wide.of(B)))
    want = [getattr(x, name)(y) for x, y in zip(exact(a), [Fraction(b) for b in B], strict=True)]
    for g, w in zip(got, want, strict=True):
        assert abs(g - w) <= abs(w) * Fraction(2) ** -98


def test_products_of_matrices_are_sums_of_fractions() -> None:
    x, weights = RNG.normal(size=(3, 7)), RNG.normal(size=(7, 2)) * 1e8
    got = Wide.of(x) @ weights
    for i in range(3):
        for k in range(2):
            terms = [Fraction(a) * Fraction(b) for a, b in zip(x[i], weights[:, k], strict=True)]
            found = Fraction(got.high[i, k]) + Fraction(got.low[i, k])
            assert abs(found - sum(terms)) <= sum(map(abs, terms)) * Fraction(2) ** -98


def test_a_product_without_inputs_is_zero() -> None:
    np.testing.assert_array_equal(
        (Wide.of(np.zeros((2, 0))) @ np.zeros((0, 3))).high, np.zeros((2, 3))
    )
