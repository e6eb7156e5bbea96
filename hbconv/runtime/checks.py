"""Checks: evaluate what the row guard leaves to the host.

Nearly all checks ask whether a value is infinite or NaN. One look at the input settles them for
ordinary rows. Only rows beyond the guard's bound, with NaN where it matters, or flagged by the
program have the checks themselves evaluated, step by step as the source does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hbconv.backends.reference import evaluate
from hbconv.containers import Check, Graph
from hbconv.containers.analysis.guard import Guard
from hbconv.errors import InputError
from hbconv.lower import DENSE, EntriesFeed, Feed, Padding, lower_nodes
from hbconv.optimize.shared_codes import join_conditions
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.magnitudes import are_within

__all__ = ["Checker"]


class Checker:
    """The checks of a graph, ready to be evaluated.

    Parameters
    ----------
    graph : Graph
        Over columns of the dtypes at hand.
    guard : Guard
        Where its checks are answered.
    padding : Padding
        How sparse rows come.
    """

    def __init__(self, graph: Graph, guard: Guard, padding: Padding = DENSE) -> None:
        self.guard = guard
        self.all = _Conditions(graph, guard.checks, padding)
        self.host = _Conditions(graph, guard.host, padding)
        self.warnings = _Conditions(graph, guard.warnings, padding)
        feeds = [f for f in self.all.lowered.feeds if f.dtype.startswith("float") and guard.bound]
        self.floats = [f for f in feeds if isinstance(f, Feed)]
        self.entries = [f for f in feeds if isinstance(f, EntriesFeed)]

    def __call__(self, table: Table, *, flagged: bool = False) -> None:
        """Raise InputError with the message of the first check that a row violates.

        Warn as the source model does.

        Parameters
        ----------
        table : Table
        flagged : bool
            The program flagged some row, so that every check is evaluated.
        """
        if flagged or not self._is_settled(table):
            self.all.require(table)
        else:
            self.host.require(table)
        for message, holds in self.warnings.found(table):
            columns = str(np.flatnonzero(holds.any(axis=0)).tolist())
            warnings.warn(message.replace("{columns}", columns), UserWarning, stacklevel=2)

    def _is_settled(self, table: Table) -> bool:
        """Whether the settled checks hold: the program answers them, or the input is ordinary."""
        return not self.guard.looks_at_rows or self._is_ordinary(table)

    def _is_ordinary(self, table: Table) -> bool:
        bound = self.guard.bound
        without_nan = self.guard.without_nan
        with np.errstate(all="ignore"):
            for feed in self.floats:
                for columns, x in table.lying(feed):
                    strict = [i for i, column in enumerate(columns) if column in without_nan]
                    if not are_within(x, bound, strict):
                        return False
            return all(
                are_within(table.padded(feed)[1], bound, list(range(feed.size)))
                for feed in self.entries
            )


class _Conditions:
    """Some conditions as one program."""

    def __init__(self, graph: Graph, checks: tuple[Check, ...], padding: Padding) -> None:
        self.messages = {f"check{i}": check.message for i, check in enumerate(checks)}
        nodes = dict(zip(self.messages, (check.node for check in checks), strict=True))
        self.lowered = lower_nodes(graph, join_conditions(graph, nodes), padding=padding)

    def require(self, table: Table) -> None:
        """Raise InputError with the message of the first that holds for some row."""
        for message, _ in self.found(table):
            raise InputError(message)

    def found(self, table: Table) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Yield the message of each condition that holds for some row, and where it does."""
        if not self.messages:
            return
        inputs = table.inputs(self.lowered.feeds)
        for name, holds in evaluate(self.lowered.program, inputs).items():
            if holds.any():
                yield self.messages[name], holds
