"""When few rows are better off with a loop of their own."""

from __future__ import annotations

from hbconv.forest import Forest
from hbconv.tensor import Op, TensorProgram

__all__ = ["few_rows"]

TESTS = 2_000
"""Tests below which one row takes about as long by either loop."""


def few_rows(program: TensorProgram) -> int:
    """Return up to how many rows walking trees one row at a time is the faster: none where there are few tests."""
    forests: list[Forest] = [i.attributes["forest"] for i in program.instructions if isinstance(i, Op) and "forest" in i.attributes]
    return 8 if sum(forest.n_tests for forest in forests) >= TESTS else 0
