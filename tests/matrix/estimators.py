"""The table: every estimator that hbconv parses, each in several settings."""

from __future__ import annotations

from matrix.case import Case
from matrix.cases import ensembles, linear, preprocessing, trees, wiring

__all__ = ["CASES", "first_settings"]

CASES: tuple[Case, ...] = (*linear.CASES, *preprocessing.CASES, *trees.CASES, *ensembles.CASES, *wiring.CASES)


def first_settings() -> tuple[Case, ...]:
    """The first case of each estimator."""
    return tuple({case.estimator: case for case in reversed(CASES)}.values())[::-1]
