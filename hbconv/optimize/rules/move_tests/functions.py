"""What is known by construction of a column as a function of another: its trend and its breaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.containers import Trend
from hbconv.optimize.rules.move_tests.lineage import Lineage, Ref

__all__ = ["Function", "describe"]


@dataclass(frozen=True)
class Function:
    """A column as a function of its cut.

    Parameters
    ----------
    is_monotone : bool
        Between its breaks, it never falls, or it never rises.
    is_exact : bool
        All backends compute the same bits.
    breaks : tuple of (Ref, float64 array)
        Columns on the way, and the values of them between which the trend holds.
    """

    is_monotone: bool
    is_exact: bool
    breaks: tuple[tuple[Ref, npt.NDArray[np.float64]], ...]


def describe(lineage: Lineage, ref: Ref, cut: Ref) -> Function:
    """Follow the ways from the cut to a column, and put trends together.

    A column may rise, fall, do both, or be constant, where its cut rises.
    """
    moves: dict[Ref, tuple[bool, bool]] = {cut: (True, False)}
    breaks: list[tuple[Ref, npt.NDArray[np.float64]]] = []
    is_exact = True
    for node, column in lineage.between(ref, cut):
        parents = lineage.parents((node, column))
        before = [moves[parent] for parent in parents]
        moves[node, column] = _after(node.trend(column), before)
        is_exact = is_exact and not node.inexact
        points = node.breaks(column)
        breaks += [(parent, points) for parent in parents if len(points) and any(moves[parent])]
    return Function(moves[ref] != (True, True), is_exact, tuple(breaks))


def _after(trend: Trend, before: list[tuple[bool, bool]]) -> tuple[bool, bool]:
    """Whether a column may rise and may fall, of a trend and of the columns that it reads."""
    rises = any(up for up, _ in before)
    falls = any(down for _, down in before)
    if trend is Trend.RISES:
        return rises, falls
    if trend is Trend.FALLS:
        return falls, rises
    moves = trend is Trend.UNKNOWN and (rises or falls)
    return moves, moves
