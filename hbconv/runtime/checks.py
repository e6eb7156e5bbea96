"""Checks: the conditions under which the source refuses rows, looked at before the program runs.

Nearly all ask whether some intermediate value is infinite or NaN. One look at the input answers that for ordinary rows:
when they are within a bound that no step can blow up to infinity, every such check holds. Of the rest a program that is
compiled with a guard says which rows are doubtful. Only rows beyond the bound, with NaN where it matters, or doubtful, have
the checks themselves evaluated, step by step as the source does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.reference import evaluate
from hbconv.containers import Check, Graph, IsNonFinite
from hbconv.containers.analysis.intervals import spread
from hbconv.errors import InputError
from hbconv.lower import DENSE, EntriesFeed, Feed, Lowered, Padding, lower_nodes
from hbconv.runtime.inputs.table import Table

__all__ = ["Checker"]

_BOUNDS = (1e18, 1e15, 1e12, 1e9, 1e6, 1e3)


class Checker:
    """The checks of a graph, compiled for one combination of column dtypes.

    Parameters
    ----------
    graph : Graph
        Over the schema with these dtypes.
    padding : Padding
        How sparse rows come.
    """

    def __init__(self, graph: Graph, padding: Padding = DENSE) -> None:
        checks = tuple({check.node: check for check in reversed(graph.checks)}.values())[::-1]
        bounds = [_safe_bound(check) for check in checks]
        self.bound = min((b for b in bounds if b is not None), default=0.0)
        self.strict = frozenset().union(
            *(
                _strict_columns(c, self.bound)
                for c, b in zip(checks, bounds, strict=True)
                if b is not None
            )
        )
        self.all = _Conditions(graph, checks, padding)
        unbounded = tuple(c for c, b in zip(checks, bounds, strict=True) if b is None)
        self.rest = _Conditions(graph, unbounded, padding)
        self.guard = tuple(c.node for c in unbounded)
        self.bounded = tuple(
            c.node
            for c, b in zip(checks, bounds, strict=True)
            if b is not None and isinstance(c.node, IsNonFinite)
        )
        self.warnings = _Conditions(graph, graph.warnings, padding)
        feeds = [f for f in self.all.lowered.feeds if f.dtype.startswith("float") and self.bound]
        self.floats = [f for f in feeds if isinstance(f, Feed)]
        self.entries = [f for f in feeds if isinstance(f, EntriesFeed)]

    def __call__(self, table: Table, doubtful: bool | None = None, *, proven: bool = False) -> None:
        """Raise InputError with the message of the first check that some row violates, and warn as the source does.

        Parameters
        ----------
        table : Table
        doubtful : bool, optional
            What the guard of the program found; None where it has none, and what it would look at is evaluated here.
        proven : bool
            Rows that are not doubtful need no look at the input.
        """
        if doubtful or not (proven or self._is_ordinary(table)):
            self.all.require(table)
        elif doubtful is None:
            self.rest.require(table)
        for message, holds in self.warnings.found(table):
            warnings.warn(
                message.replace("{columns}", str(np.flatnonzero(holds.any(axis=0)).tolist())),
                UserWarning,
                stacklevel=2,
            )

    def _is_ordinary(self, table: Table) -> bool:
        lying = (part for feed in self.floats for part in table.lying(feed))
        with np.errstate(all="ignore"):
            if not all(
                _within(
                    x,
                    self.bound,
                    [place for place, column in enumerate(columns) if column in self.strict],
                )
                for columns, x in lying
            ):
                return False
            return all(
                _within(table.padded(feed)[1], self.bound, list(range(feed.size)))
                for feed in self.entries
            )


class _Conditions:
    """Some conditions as one program."""

    def __init__(self, graph: Graph, checks: tuple[Check, ...], padding: Padding) -> None:
        self.messages = {f"check{i}": check.message for i, check in enumerate(checks)}
        self.lowered: Lowered = lower_nodes(
            graph, dict(zip(self.messages, (c.node for c in checks), strict=True)), padding=padding
        )

    def require(self, table: Table) -> None:
        """Raise InputError with the message of the first that holds for some row."""
        for message, _ in self.found(table):
            raise InputError(message)

    def found(self, table: Table) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Yield the message of each condition that holds for some row, and where it does."""
        if not self.messages:
            return
        for name, holds in evaluate(self.lowered.program, table.inputs(self.lowered.feeds)).items():
            if holds.any():
                yield self.messages[name], holds


def _safe_bound(check: Check) -> float | None:
    """Return how large the input may be for the check to hold whatever the rows are; None where that depends on the rows."""
    if not isinstance(check.node, IsNonFinite):
        return None
    return next((bound for bound in _BOUNDS if spread(check.node.x, bound) is not None), None)


def _strict_columns(check: Check, bound: float) -> frozenset[int]:
    """Columns in which NaN violates the check."""
    if not isinstance(check.node, IsNonFinite) or check.node.allow_nan:
        return frozenset()
    found = spread(check.node.x, bound)
    return frozenset() if found is None else found.nan_from


def _within(x: npt.NDArray[Any], bound: float, strict: list[int]) -> bool:
    """Whether all values are within the bound, or NaN outside the strict columns. A sum of squares usually tells at once."""
    flat = x.reshape(-1)
    if flat.dot(flat) <= bound * bound:
        return True
    low, high = np.fmin.reduce(flat, initial=0.0), np.fmax.reduce(flat, initial=0.0)
    return bool(-bound <= low and high <= bound and not np.isnan(x[:, strict]).any())
