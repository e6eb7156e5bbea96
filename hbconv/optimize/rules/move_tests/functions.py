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
    is_sources : bool
        Nodes whose bits differ between backends are evaluated by the source's own function.
    breaks : tuple of (Ref, float64 array)
        Columns on the way, and the values of them between which the trend holds.
    """

    is_monotone: bool
    is_exact: bool
    is_sources: bool
    breaks: tuple[tuple[Ref, npt.NDArray[np.float64]], ...]


def describe(lineage: Lineage, ref: Ref, cut: Ref) -> Function:
    """Follow the ways from the cut to a column, and put trends together.

    A column may rise, fall, do both, or be constant, where its cut rises.
    """
    moves: dict[Ref, tuple[bool, bool]] = {cut: (True, False)}
    breaks: list[tuple[Ref, npt.NDArray[np.float64]]] = []
    ways = list(lineage.between(ref, cut))
    for node, column in ways:
        parents = lineage.parents((node, column))
        before = [moves[parent] for parent in parents]
        moves[node, column] = _after(node.trend(column), before)
        points = node.breaks(column)
        breaks += [(parent, points) for parent in parents if len(points) and any(moves[parent])]
    inexact = {node for node, _ in ways if node.inexact}
    is_sources = all(node.source_function() is not None for node in inexact)
    return Function(moves[ref] != (True, True), not inexact, is_sources, tuple(breaks))


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
