"""Programs of a model: compiled when first needed, once for each set of methods, combination of column dtypes, and size of sparse rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

from hbconv.backends import Artifact, find_backend
from hbconv.containers import Graph
from hbconv.containers.analysis.guard import Guard, find_guard
from hbconv.errors import BackendError, HbconvError
from hbconv.lower import DENSE, FLAGGED, Lowered, Padding, lower
from hbconv.optimize import optimize, optimize_exactly
from hbconv.optimize.plan import Plan, make_plan
from hbconv.runtime.batching import bytes_given, rows_per_chunk
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.text.sparse_rows import as_csr
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["Key", "Planned", "Program", "Programs"]

Key = tuple[tuple[str, ...], tuple[str, ...], Padding]
"""Methods, the dtype of each column, and how sparse rows come."""

WIDE = 256
"""Columns from which a sparse matrix is worth programs of its own."""


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
    guard: Guard
    check: Checker

    def checked(self, table: Table) -> dict[str, Any]:
        """Compute the methods' values, or raise InputError where a check refuses the rows."""
        if not self.guard.flags_rows:
            self.check(table)
            return self.run(table)
        values = self.run(table)
        self.check(table, flagged=bool(values.pop(FLAGGED).any()))
        return values

    def run(self, table: Table) -> dict[str, Any]:
        """Compute the methods' values: arrays, and scipy CSR matrices of those that are sparse."""
        values: dict[str, Any] = self.artifact.run(table.inputs(self.lowered.feeds))
        for name, width in self.lowered.sparse.items():
            values[name] = as_csr(
                values.pop(f"{name}_tokens"), values.pop(f"{name}_weights"), width
            )
        return values


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

    def __init__(
        self, parsed: Graph, target: Target, files: Mapping[Key, Mapping[str, bytes]] | None = None
    ) -> None:
        self.parsed, self.target = parsed, target
        self._planned: dict[tuple[tuple[str, ...], bool], Planned] = {}
        self._stored = dict(files or {})
        self.compiled: dict[Key, Program] = {}
        self._takes_entries: dict[tuple[tuple[str, ...], tuple[str, ...]], bool] = {}
        self._lock = RLock()

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Name what goes wrong inside, for one thread at a time: the graph of a file may be one that no parser makes."""
        with self._lock:
            try:
                yield
            except (HbconvError, MemoryError):
                raise
            except Exception as error:
                raise BackendError(
                    f"The model cannot be compiled for {self.target.backend!r}: {type(error).__name__}: {str(error).rstrip('.'):.500}."
                ) from error

    def program(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Program:
        """Return a program, compiling it the first time."""
        key = (methods, dtypes, padding)
        found = self.compiled.get(key)
        if found is not None:
            return found
        with self._compiling():
            if key not in self.compiled:
                self.compiled[key] = self._compile(key)
            return self.compiled[key]

    def takes_entries(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> bool:
        """Whether a sparse matrix is best taken by its entries: nothing needs a row whole, and the rows are wide or the answer is sparse."""
        with self._compiling():
            if (methods, dtypes) not in self._takes_entries:
                lowered = self.lowered(methods, dtypes, Padding(matrix=True))
                worthwhile = len(dtypes) >= WIDE or bool(lowered.sparse)
                self._takes_entries[methods, dtypes] = (
                    worthwhile and "scatter" not in lowered.program.primitives
                )
            return self._takes_entries[methods, dtypes]

    def files(self) -> dict[Key, dict[str, bytes]]:
        """Return what the backend stores of all programs compiled so far, and of those stored before."""
        with self._lock:
            fresh = {key: program.artifact.files() for key, program in self.compiled.items()}
            return {key: dict(files) for key, files in {**self._stored, **fresh}.items() if files}

    def lowered(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Lowered:
        """Return the methods as a program that no backend has seen."""
        return lower(self.typed(dtypes, padding).only(*methods), self.target.precision, padding)

    def prepared(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> TensorProgram:
        """Return the methods as the backend will emit them."""
        return find_backend(self.target.backend).prepare(
            self.lowered(methods, dtypes).program, self.target
        )

    def typed(self, dtypes: tuple[str, ...], padding: Padding = DENSE) -> Graph:
        """Return the optimized graph over columns of these dtypes, for rows of this form."""
        return self.planned(dtypes, padding).graph

    def planned(self, dtypes: tuple[str, ...], padding: Padding = DENSE) -> Planned:
        """Run the middle of the compiler, optimize and plan, the first time that columns of these dtypes come."""
        key = dtypes, (padding.matrix or padding.written) and self.parsed.depends_on_form
        with self._compiling():
            if key not in self._planned:
                graph = self.parsed.for_rows(sparse=key[1])
                graph = optimize(graph.with_schema(graph.schema.with_dtypes(dtypes)))
                plan = make_plan(graph, self.target, find_backend(self.target.backend))
                self._planned[key] = Planned(plan.apply(graph), plan)
            return self._planned[key]

    def _compile(self, key: Key) -> Program:
        methods, dtypes, padding = key
        backend = find_backend(self.target.backend)
        graph = self.typed(dtypes, padding).only(*methods)
        guard = find_guard(graph, flags=self._flags(padding))
        inside = optimize_exactly(graph, [check.node for check in guard.inside])
        proof = () if guard.finite_output is None else (guard.finite_output,)
        lowered = lower(graph, self.target.precision, padding, flags=(*inside, *proof))
        prepared = backend.prepare(lowered.program, self.target)
        files = self._stored.get(key)
        artifact = (
            backend.load(files, lowered.program, self.target)
            if files
            else backend.compile(lowered.program, self.target)
        )
        chunk = (
            max(1, self.target.memory // bytes_given(prepared))
            if backend.tiled
            else rows_per_chunk(prepared, self.target)
        )
        return Program(lowered, artifact, chunk, guard, Checker(graph, guard, padding))

    def _flags(self, padding: Padding) -> bool:
        """Whether a program may flag rows itself: where that is cheap, and as exact as on the host."""
        tiled = find_backend(self.target.backend).tiled
        return tiled and self.target.precision == "exact" and padding == DENSE
