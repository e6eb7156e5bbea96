"""Programs of a model: compiled when first needed, once for each set of methods and combination of column dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy.typing as npt

from hbconv.backends import Artifact, find_backend
from hbconv.containers import Graph
from hbconv.lower import Lowered, lower
from hbconv.optimize import optimize
from hbconv.optimize.plan import Plan, make_plan
from hbconv.runtime.batching import rows_per_chunk
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs import Table
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["Key", "Planned", "Program", "Programs"]

Key = tuple[tuple[str, ...], tuple[str, ...]]
"""Methods, and the dtype of each column."""


@dataclass(frozen=True)
class Planned:
    """An optimized graph with its strategies chosen, and the plan that chose them."""

    graph: Graph
    plan: Plan


@dataclass(frozen=True)
class Program:
    """Some methods, compiled for some column dtypes; ``chunk`` rows fit in the memory of one call."""

    lowered: Lowered
    artifact: Artifact
    chunk: int

    def run(self, table: Table) -> dict[str, npt.NDArray[Any]]:
        """Compute the methods' values."""
        return self.artifact.run({feed.name: table.feed(feed) for feed in self.lowered.feeds})


class Programs:
    """All programs of a graph, safe to ask from many threads.

    Parameters
    ----------
    parsed : Graph
        As the parsers made it: it is optimized and planned for each combination of column dtypes.
    target : Target
    files : mapping
        What the backend stored for programs compiled before.

    Attributes
    ----------
    compiled : dict
        The programs so far.
    """

    def __init__(self, parsed: Graph, target: Target, files: Mapping[Key, Mapping[str, bytes]] | None = None) -> None:
        self.parsed, self.target = parsed, target
        self._planned: dict[tuple[str, ...], Planned] = {}
        self._stored = dict(files or {})
        self.compiled: dict[Key, Program] = {}
        self._checkers: dict[tuple[str, ...], Checker] = {}
        self._lock = RLock()

    def program(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Program:
        """Return a program, compiling it the first time."""
        found = self.compiled.get((methods, dtypes))
        if found is not None:
            return found
        with self._lock:
            if (methods, dtypes) not in self.compiled:
                self.compiled[methods, dtypes] = self._compile(methods, dtypes)
            return self.compiled[methods, dtypes]

    def checker(self, dtypes: tuple[str, ...]) -> Checker:
        """Return the checks, compiled the first time."""
        found = self._checkers.get(dtypes)
        if found is not None:
            return found
        with self._lock:
            if dtypes not in self._checkers:
                self._checkers[dtypes] = Checker(self.typed(dtypes))
            return self._checkers[dtypes]

    def files(self) -> dict[Key, dict[str, bytes]]:
        """Return what the backend stores of all programs compiled so far, and of those stored before."""
        with self._lock:
            fresh = {key: program.artifact.files() for key, program in self.compiled.items()}
            return {key: dict(files) for key, files in {**self._stored, **fresh}.items() if files}

    def lowered(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Lowered:
        """Return the methods as a program that no backend has seen."""
        return lower(self.typed(dtypes).only(*methods), self.target.precision)

    def prepared(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> TensorProgram:
        """Return the methods as the backend will emit them."""
        return find_backend(self.target.backend).prepare(self.lowered(methods, dtypes).program, self.target)

    def typed(self, dtypes: tuple[str, ...]) -> Graph:
        """Return the optimized graph over columns of these dtypes."""
        return self.planned(dtypes).graph

    def planned(self, dtypes: tuple[str, ...]) -> Planned:
        """Run the middle of the compiler, optimize and plan, the first time that columns of these dtypes come."""
        with self._lock:
            if dtypes not in self._planned:
                graph = optimize(self.parsed.with_schema(self.parsed.schema.with_dtypes(dtypes)))
                plan = make_plan(graph, self.target, find_backend(self.target.backend))
                self._planned[dtypes] = Planned(plan.apply(graph), plan)
            return self._planned[dtypes]

    def _compile(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Program:
        backend, lowered = find_backend(self.target.backend), self.lowered(methods, dtypes)
        prepared = backend.prepare(lowered.program, self.target)
        files = self._stored.get((methods, dtypes))
        artifact = backend.load(files, lowered.program, self.target) if files else backend.compile(lowered.program, self.target)
        return Program(lowered, artifact, rows_per_chunk(prepared, self.target))
