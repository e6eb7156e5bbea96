"""Positions: the same number, with what is constant in it last."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm")

from tvm import tirx

from hbconv.backends.tvm.tir.kernel import beyond, position

ROW, COLUMN = (tirx.Var(name, "int32") for name in "ij")


def value(expression, **known):
    """Compute an expression of sums and products."""
    if isinstance(expression, tirx.Add):
        return value(expression.a, **known) + value(expression.b, **known)
    if isinstance(expression, tirx.Mul):
        return value(expression.a, **known) * value(expression.b, **known)
    return known[expression.name] if isinstance(expression, tirx.Var) else int(expression)


@pytest.mark.parametrize(
    ("terms", "constant"),
    [
        (((ROW + 2) * 8, COLUMN + 5), 21),
        ((3 + ROW, COLUMN * 4 + 1, np.int64(7)), 11),
        (((ROW * 2 + 1) * 3 + 4,), 7),
        ((ROW * COLUMN, 6), 6),
    ],
)
def test_constants_come_last(terms, constant):
    found = position(*terms)
    assert int(found.b) == constant
    known = {"i": 11, "j": 13}
    assert value(found, **known) == sum(value(term, **known) for term in terms)


def test_what_varies_stands_alone_without_constants():
    assert position(ROW, 0).same_as(ROW)
    assert int(position(2, np.int32(3))) == 5


def test_vectors_of_rows_move_by_their_first():
    rows = beyond(ROW * 4, tirx.Ramp(COLUMN + 8, 1, 16))
    assert (rows.lanes, int(rows.stride), int(rows.base.b)) == (16, 1, 8)
