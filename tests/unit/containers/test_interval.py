"""Intervals bound values that no float holds, without an error."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

import hbconv
from hbconv.array import Array
from hbconv.containers import Columns, Node, Polynomial, Schema, SquaredDistances
from hbconv.containers.guard import BOUNDS, find_interval

X = Columns.of(Schema.matrix(1))


@pytest.mark.parametrize(
    "node",
    [
        Polynomial(X, Array.of(np.zeros((1, 40)), "int32")),
        SquaredDistances(X, Array([[1e200]])),
    ],
    ids=["power", "distances"],
)
def test_what_overflows_has_no_interval(node: Node) -> None:
    assert find_interval(node, max(BOUNDS)) is None


def test_powers_beyond_float64_are_converted() -> None:
    rows = np.linspace(-1.0, 1.0, 9)[:, None]
    source = PolynomialFeatures(degree=20).fit(rows)
    model = hbconv.convert(source, "reference")
    np.testing.assert_array_equal(model.transform(rows), source.transform(rows))
