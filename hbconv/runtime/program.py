"""Program: some methods, compiled for some column dtypes, and what the host does around them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hbconv.backends.base import Artifact
from hbconv.containers import Graph, Schema
from hbconv.containers.guard import Guard
from hbconv.lower import FLAGGED, AnyFeed, Padding
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.text.sparse_rows import as_csr
from hbconv.tensor import ProgramTypes

if TYPE_CHECKING:
    from hbconv.pipeline import Compilation

__all__ = ["HostSide", "Key", "Program", "StoredProgram", "answering", "digest_of"]

Key = tuple[tuple[str, ...], tuple[str, ...], Padding]
"""Methods, the dtype of each column, and how sparse rows come."""
P = TypeVar("P")


@dataclass(frozen=True)
class HostSide:
    """What the host does around a program: it feeds rows, checks them, and joins sparse values.

    A file holds it beside the compiled program, so that no stage of the compiler runs again.

    Parameters
    ----------
    schema : Schema
        The columns, of the dtypes at hand.
    feeds : tuple of feeds
    sparse_widths : mapping of str to int
        Width of each output that is sparse.
    guard : Guard
    padding : Padding
        How sparse rows come.
    types : ProgramTypes
    chunks : mapping of str to int
        Rows that fit in the memory of one run of each variant, by the variant's folder.
    slowdown : float
        The predicted time over that of the source model.
    """

    schema: Schema
    feeds: tuple[AnyFeed, ...]
    sparse_widths: Mapping[str, int]
    guard: Guard
    padding: Padding
    types: ProgramTypes
    chunks: Mapping[str, int]
    slowdown: float = 1.0

    @staticmethod
    def of(stages: Compilation, chunks: Mapping[str, int]) -> HostSide:
        """Describe what compiled stages need."""
        lowered = stages.lowered
        return HostSide(
            stages.graph.schema,
            lowered.feeds,
            dict(lowered.sparse_widths),
            stages.guard,
            stages.padding,
            lowered.program.types,
            chunks,
            stages.slowdown,
        )


@dataclass(frozen=True)
class StoredProgram:
    """A compiled program as a file holds it.

    Parameters
    ----------
    host : HostSide
    digest : str
        Digest of the graph that it was compiled from.
    files : mapping of str to bytes
        What the backend wrote.
    """

    host: HostSide
    digest: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Program:
    """Some methods, compiled for some column dtypes.

    Parameters
    ----------
    host : HostSide
    artifact : Artifact
    chunk : int
        Number of rows that fit in the memory of one call.
    check : Checker
        What the guard leaves to the host.
    """

    host: HostSide
    artifact: Artifact
    chunk: int
    check: Checker

    @property
    def guard(self) -> Guard:
        """Where each check is answered."""
        return self.host.guard

    @property
    def can_be_bound(self) -> bool:
        """Whether the artifact alone decides which rows are refused, and keeps its buffers."""
        return bool(self.artifact.sizes) and not self.guard.needs_host

    def unchecked(self) -> Program:
        """Return the same program without its checks: rows that they refuse get some answer."""
        # An empty guard: nothing is scanned, flagged or evaluated.
        host = replace(self.host, guard=Guard())
        return replace(self, host=host, check=Checker(host.schema, host.guard, host.padding))

    def checked(self, table: Table) -> dict[str, Any]:
        """Compute the methods' values, or raise InputError where a check refuses the rows."""
        self.check(table)
        values = self.run(table)
        # Flags are no answer, so they leave the values here.
        if self.guard.flags_rows and values.pop(FLAGGED).any():
            self.check.flagged(table)
        return values

    def run(self, table: Table) -> dict[str, Any]:
        """Compute the methods' values: arrays, and scipy CSR matrices of those that are sparse."""
        feeds = self.host.feeds
        values: dict[str, Any] = self.artifact.run(
            table.inputs_apart(feeds) if self.artifact.takes_columns else table.inputs(feeds)
        )
        for name, width in self.host.sparse_widths.items():
            values[name] = as_csr(
                values.pop(f"{name}_tokens"), values.pop(f"{name}_weights"), width
            )
        return values


def answering(graph: Graph, programs: Mapping[Key, P]) -> dict[Key, P]:
    """Return those of some programs that answer methods of a graph."""
    return {key: programs[key] for key in programs if graph.outputs.keys() >= {*key[0]}}


def digest_of(parsed: Graph, methods: tuple[str, ...]) -> str:
    """Return a digest of some methods of a graph and its checks: others have other programs."""
    graph = parsed.only(*methods)
    # Forms too: they decide which outputs a program has.
    keys = [f"{name} {output.form!r}" for name, output in graph.outputs.items()]
    keys += [node.key for node in graph.output_roots]
    keys += [check.node.key for check in (*graph.checks, *graph.warnings)]
    return hashlib.sha256("\n".join(keys).encode()).hexdigest()
