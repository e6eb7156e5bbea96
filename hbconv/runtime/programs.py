"""Programs of a model: the memo of the compiler.

Each program is compiled when it is first needed: once for each set of methods, combination of
column dtypes, and form of sparse rows. Where calls of few rows are best served by other strategies,
a program has a variant for each such bucket of rows, compiled with it: no later call compiles.
``hbconv.pipeline`` has the stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any

from hbconv.backends import Artifact, find_backend
from hbconv.containers import Graph
from hbconv.containers.analysis.guard import Guard
from hbconv.errors import BackendError, HbconvError, MissingPackageError
from hbconv.lower import DENSE, FLAGGED, Lowered, Padding
from hbconv.optimize.row_plans import Bucket
from hbconv.optimize.tuning.record import Tuning
from hbconv.pipeline import Compilation, Planned
from hbconv.runtime.batching import bytes_given, rows_per_chunk
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.row_artifact import RowArtifact, Variant, other_files, own_files
from hbconv.runtime.substitute import find_substitute
from hbconv.runtime.text.sparse_rows import as_csr
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["Key", "Program", "Programs"]

Key = tuple[tuple[str, ...], tuple[str, ...], Padding]
"""Methods, the dtype of each column, and how sparse rows come."""

DIGEST = "graph.sha256"
"""Beside the files of a stored program: the digest of the graph that it was compiled from."""
WIDE = 256
"""Columns from which a sparse matrix is worth programs of its own."""


@dataclass(frozen=True)
class Program:
    """Some methods, compiled for some column dtypes.

    Parameters
    ----------
    lowered : Lowered
    artifact : Artifact
    chunk : int
        Number of rows that fit in the memory of one call.
    guard : Guard
    check : Checker
        What the guard leaves to the host.
    """

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
        for name, width in self.lowered.sparse_widths.items():
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
    tuning : Tuning, optional
        Times measured.

    Attributes
    ----------
    compiled : dict
        The programs so far.
    """

    def __init__(
        self,
        parsed: Graph,
        target: Target,
        files: Mapping[Key, Mapping[str, bytes]] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        self.parsed, self.target, self.tuning = parsed, target, tuning
        self._planned: dict[tuple[tuple[str, ...], bool], Planned] = {}
        self._stored = dict(files or {})
        self.compiled: dict[Key, Program] = {}
        self._fitted: dict[Key, Variant] = {}
        self._takes_entries: dict[tuple[tuple[str, ...], tuple[str, ...]], bool] = {}
        self._substitute: Programs | None = None
        self._lock = RLock()

    @contextmanager
    def _compiling(self) -> Iterator[None]:
        """Raise BackendError for any failure inside, and let in one thread at a time.

        The graph of a file may be one that no parser makes.
        """
        with self._lock:
            try:
                yield
            except (HbconvError, MemoryError):
                raise
            except Exception as error:
                raise BackendError(
                    f"The model cannot be compiled for {self.target.backend!r}: "
                    f"{type(error).__name__}: {str(error).rstrip('.'):.500}."
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
        """Whether a sparse matrix is best given by its nonzeros.

        No node may need a dense row, and the rows must be wide or the answer sparse.
        """
        with self._compiling():
            if (methods, dtypes) not in self._takes_entries:
                lowered = self.lowered(methods, dtypes, Padding(matrix=True))
                worthwhile = len(dtypes) >= WIDE or bool(lowered.sparse_widths)
                self._takes_entries[methods, dtypes] = (
                    worthwhile and "scatter" not in lowered.program.primitives
                )
            return self._takes_entries[methods, dtypes]

    def files(self) -> dict[Key, dict[str, bytes]]:
        """Return what the backend stores of all programs, compiled here or stored before."""
        with self._lock:
            fresh = {key: program.artifact.files() for key, program in self.compiled.items()}
            digests = {key: {DIGEST: self.compilation(*key).digest} for key in fresh}
            stored = {key: {**files, **digests[key]} for key, files in fresh.items() if files}
            return {key: dict(files) for key, files in {**self._stored, **stored}.items()}

    def lowered(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Lowered:
        """Return the methods as a program that no backend has seen."""
        with self._compiling():
            return self.compilation(methods, dtypes, padding).lowered

    def prepared(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> TensorProgram:
        """Return the methods as the backend will emit them."""
        with self._compiling():
            return self.compilation(methods, dtypes).prepared

    def planned(self, dtypes: tuple[str, ...], padding: Padding = DENSE) -> Planned:
        """Return the stages that all methods share, run the first time that such columns come."""
        sparse = (padding.matrix or padding.written) and self.parsed.depends_on_form
        with self._compiling():
            if (dtypes, sparse) not in self._planned:
                planned = Planned(self.parsed, dtypes, self.target, sparse, self.tuning)
                _ = planned.graph
                self._planned[dtypes, sparse] = planned
            return self._planned[dtypes, sparse]

    def compilation(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Compilation:
        """Return the stages of some methods, each of which runs when it is first asked for."""
        return Compilation(self.planned(dtypes, padding), methods, padding)

    def fitted(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Artifact:
        """Return the variant of a program that serves any number of rows, as exports hold it."""
        key = (methods, dtypes, DENSE)
        with self._compiling():
            return self._fitted_variant(key, self.compilation(*key)).artifact

    def _compile(self, key: Key) -> Program:
        """Compile a program, or take the substitute's where a loaded model cannot be compiled."""
        try:
            return self._own(key)
        except MissingPackageError as error:
            if not self._stored:
                raise
            if self._substitute is None:
                target = find_substitute(self.target, error)
                self._substitute = Programs(self.parsed, target)
            return self._substitute.program(*key)

    def _own(self, key: Key) -> Program:
        stages = self.compilation(*key)
        fitted = self._fitted_variant(key, stages)
        others = self._other_variants(key, stages)
        whole = RowArtifact(fitted, others) if others else None
        artifact, chunk = (whole, whole.chunk) if whole else (fitted.artifact, fitted.chunk)
        checker = Checker(stages.graph, stages.guard, stages.padding)
        return Program(stages.lowered, artifact, chunk, stages.guard, checker)

    def _stored_of(self, key: Key, stages: Compilation) -> Mapping[str, bytes]:
        """Return what was stored of a program; nothing where it was of another graph."""
        stored = dict(self._stored.get(key, {}))
        return stored if stored.pop(DIGEST, None) == stages.digest else {}

    def _fitted_variant(self, key: Key, stages: Compilation) -> Variant:
        if key not in self._fitted:
            self._fitted[key] = self.variant(stages, own_files(self._stored_of(key, stages)))
        return self._fitted[key]

    def _other_variants(self, key: Key, stages: Compilation) -> dict[Bucket, Variant]:
        """Compile a variant for each other plan, or read those that are stored."""
        stored = self._stored_of(key, stages)
        if stored:
            others = other_files(stored).items()
            read = [(buckets, self.variant(stages, files)) for buckets, files in others]
            return {bucket: variant for buckets, variant in read for bucket in buckets}
        plans = {row_plan.bucket: row_plan.plan for row_plan in stages.planned.row_plans}
        distinct = {plan.strategies: plan for plan in plans.values()}
        made = {name: self.variant(replace(stages, plan=p)) for name, p in distinct.items()}
        return {bucket: made[plan.strategies] for bucket, plan in plans.items()}

    def variant(self, stages: Compilation, stored: Mapping[str, bytes] | None = None) -> Variant:
        """Compile a program with the plan of its stages, or read it back."""
        return Variant(stages.emitted(stored), self._chunk(stages.prepared))

    def _chunk(self, prepared: TensorProgram) -> int:
        """Return how many rows one run takes: a tiled backend holds only inputs and outputs."""
        if find_backend(self.target.backend).tiled:
            return max(1, self.target.memory // bytes_given(prepared))
        return rows_per_chunk(prepared, self.target)
