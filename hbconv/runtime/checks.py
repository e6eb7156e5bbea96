"""Checks: evaluate what the row guard leaves to the host.

Nearly all checks ask whether a value is infinite or NaN. One look at the input settles them for
ordinary rows. Only rows beyond the guard's bound, with NaN where it matters, or flagged by the
program have the checks themselves evaluated, step by step as the source does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property, partial
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from hbconv.containers import Check, FindCode, Graph, Schema, topological
from hbconv.containers.guard import Guard
from hbconv.errors import InputError
from hbconv.lower import DENSE, AnyFeed, EntriesFeed, Feed, Lowered, Padding, lower_nodes
from hbconv.runtime.batching import rows_per_chunk, run_in_chunks
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.magnitudes import are_within
from hbconv.runtime.refused_rows import name_rows
from hbconv.target import Target

__all__ = ["Checker"]


class Checker:
    """The checks of a program, ready to be evaluated.

    Parameters
    ----------
    schema : Schema
        The columns, of the dtypes at hand.
    guard : Guard
        Where the checks are answered.
    padding : Padding
        How sparse rows come.
    """

    def __init__(self, schema: Schema, guard: Guard, padding: Padding = DENSE) -> None:
        graph = Graph(schema, {})
        self.guard = guard
        self.all = _Conditions(graph, guard.checks, padding)
        self.host = _Conditions(graph, guard.host, padding)
        by_host = guard.warned_by_host
        inside = tuple(warning for warning in guard.warnings if warning not in by_host)
        self.warnings = _Conditions(graph, by_host, padding)
        self.flagged_warnings = _Conditions(graph, inside, padding)

    @cached_property
    def feeds(self) -> list[Feed | EntriesFeed]:
        """The floats that the checks read, if the guard bounds them."""
        feeds = [f for f in self.all.lowered.feeds if f.dtype.startswith("float")]
        return [f for f in feeds if _may_be_large(f) and self.guard.bound]

    def __call__(self, table: Table) -> None:
        """Ask what the program does not: raise InputError, or warn, as the source model does.

        The message is that of the first check that a row violates.
        """
        (self.host if self._is_settled(table) else self.all).require(table)
        self.warnings.warn(table)

    def flagged(self, table: Table) -> None:
        """Ask all checks, and what the program tells of warnings: it flagged some row."""
        self.all.require(table)
        self.flagged_warnings.warn(table)

    def _is_settled(self, table: Table) -> bool:
        """Whether the settled checks hold: the program answers them, or the input is ordinary."""
        return not self.guard.looks_at_rows or self._is_ordinary(table)

    def _is_ordinary(self, table: Table) -> bool:
        bound = self.guard.bound
        without_nan = self.guard.without_nan
        with np.errstate(all="ignore"):
            for feed in (f for f in self.feeds if isinstance(f, Feed)):
                for columns, x in table.lying(feed):
                    strict = [i for i, column in enumerate(columns) if column in without_nan]
                    if not are_within(x, bound, strict):
                        return False
            return all(
                are_within(table.padded(feed)[1], bound, list(range(feed.size)))
                for feed in self.feeds
                if isinstance(feed, EntriesFeed)
            )


def _may_be_large(feed: AnyFeed) -> TypeGuard[Feed | EntriesFeed]:
    """Whether a feed holds any number: not codes, and not numbers of terms in texts."""
    if isinstance(feed, EntriesFeed):
        return feed.leaf is None or not feed.leaf.extractor.sums_ones
    return isinstance(feed, Feed)


class _Conditions:
    """Some conditions as one program, written when it is first evaluated."""

    def __init__(self, graph: Graph, checks: tuple[Check, ...], padding: Padding) -> None:
        self._graph = graph
        self._padding = padding
        self.checks = {f"check{i}": check for i, check in enumerate(checks)}
        self._nodes = {name: check.node for name, check in self.checks.items()}

    @cached_property
    def lowered(self) -> Lowered:
        """The program."""
        nodes = self._nodes
        if any(isinstance(node, FindCode) for node in topological(tuple(nodes.values()))):
            from hbconv.optimize.late_rewrites import join_conditions

            nodes = join_conditions(self._graph, nodes)
        return lower_nodes(self._graph, nodes, padding=self._padding)

    def require(self, table: Table) -> None:
        """Raise InputError with the message of the first that holds."""
        for name, holds in self._found(table):
            told = name_rows(self._graph, self._nodes[name], table, holds)
            raise InputError(f"{self.checks[name].message} {told}".rstrip())

    def warn(self, table: Table) -> None:
        """Warn with the message of each that holds."""
        for name, holds in self._found(table):
            columns = str(np.flatnonzero(holds.any(axis=0)).tolist())
            message = self.checks[name].message.replace("{columns}", columns)
            warnings.warn(message, UserWarning, stacklevel=3)

    def _found(self, table: Table) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
        """Yield the name of each condition that holds for the rows, and where it does."""
        if not self.checks:
            return
        from hbconv.backends.reference import evaluate

        inputs = table.inputs(self.lowered.feeds)
        program = self.lowered.program
        values = run_in_chunks(
            partial(evaluate, program), inputs, rows_per_chunk(program, Target())
        )
        for name, check in self.checks.items():
            holds = values[name]
            if holds.any() and (holds.all() or not check.every):
                yield name, holds
