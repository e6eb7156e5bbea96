"""Checks: the conditions under which the source refuses rows, looked at before the program runs."""

from __future__ import annotations

from hbconv.backends.reference import evaluate
from hbconv.containers import Graph
from hbconv.errors import InputError
from hbconv.lower import Lowered, lower_nodes
from hbconv.runtime.inputs import Table

__all__ = ["Checker"]


class Checker:
    """The checks of a graph, compiled for one combination of column dtypes."""

    def __init__(self, graph: Graph) -> None:
        self.messages = {f"check{i}": check.message for i, check in enumerate(graph.checks)}
        roots = {name: check.node for name, check in zip(self.messages, graph.checks, strict=True)}
        self.lowered: Lowered = lower_nodes(graph, roots)

    def __call__(self, table: Table) -> None:
        """Raise InputError with the message of the first check that some row violates."""
        if not self.messages:
            return
        inputs = {feed.name: table.feed(feed) for feed in self.lowered.feeds}
        for name, violated in evaluate(self.lowered.program, inputs).items():
            if violated.any():
                raise InputError(self.messages[name])
