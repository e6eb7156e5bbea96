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
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

from hbconv.backends import Artifact, find_backend
from hbconv.containers import Graph
from hbconv.cost_model.tuning_record import BUCKETS, Bucket, Tuning
from hbconv.errors import BackendError, HbconvError, MissingPackageError, log_slower
from hbconv.lower import DENSE, TIED, Lowered, Padding
from hbconv.optimize.program_cost import SLOWER
from hbconv.runtime.batching import bytes_given, rows_in_time, rows_per_chunk
from hbconv.runtime.checks import Checker
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.options import compiling_target, find_substitute
from hbconv.runtime.outputs.dataframes import Framing
from hbconv.runtime.program import (
    HostSide,
    Key,
    Program,
    StoredProgram,
    answering,
    digest_of,
)
from hbconv.runtime.program_choice import ChosenPrograms, OnNewDtypes, name_dtypes
from hbconv.runtime.row_artifact import FITTED, RowArtifact, Variant, other_files, own_files
from hbconv.runtime.tied_rows import Finisher, TiedRows, first_files, rest_files, rest_program
from hbconv.target import Target
from hbconv.tensor import TensorProgram

if TYPE_CHECKING:
    from hbconv.pipeline import Compilation, Planned

__all__ = ["CompiledProgram", "Programs"]

WIDE = 256
"""Columns from which a sparse matrix is worth programs of its own."""


@dataclass(frozen=True)
class CompiledProgram:
    """A program that a model has.

    Parameters
    ----------
    methods : tuple of str
        What it answers.
    dtypes : tuple of str
        Of each column; ``"string"`` for text and for what is not read.
    rows : tuple of str
        Numbers of rows that have a variant of their own.
    loaded : bool
        It is ready to run. Else it is in the file that the model came from, and is read when it
        is first called.
    """

    methods: tuple[str, ...]
    dtypes: tuple[str, ...]
    rows: tuple[str, ...]
    loaded: bool

    def __str__(self) -> str:
        apart = f"; apart: {', '.join(self.rows)}" if self.rows else ""
        dtypes = name_dtypes(self.dtypes, range(len(self.dtypes)))
        return f"{', '.join(self.methods)} of {dtypes}{apart}"


class Programs:
    """All programs of a graph, safe to ask from many threads.

    Parameters
    ----------
    parsed : Graph
        As the parsers made it: it is optimized and planned for each combination of column dtypes.
    target : Target
        What is asked for; the attribute says what is compiled for it.
    stored : mapping
        Programs compiled before.
    tuning : Tuning, optional
        Times measured.
    on_new_dtypes : {"compile", "convert", "refuse"}
        What rows get that no program answers as the source model does.

    Attributes
    ----------
    compiled : dict
        The programs so far.
    """

    def __init__(
        self,
        parsed: Graph,
        target: Target,
        stored: Mapping[Key, StoredProgram] | None = None,
        tuning: Tuning | None = None,
        on_new_dtypes: OnNewDtypes = "compile",
    ) -> None:
        self.choices = ChosenPrograms(parsed, on_new_dtypes)
        self.parsed, self.tuning = parsed, tuning
        self.target = compiling_target(target, stored=bool(stored))
        self._planned: dict[tuple[tuple[str, ...], bool], Planned] = {}
        self._stored = dict(stored or {})
        self.compiled: dict[Key, Program] = {}
        self._fitted: dict[Key, Variant] = {}
        self._alone: dict[tuple[tuple[str, ...], tuple[str, ...]], Artifact] = {}
        self._takes_entries: dict[tuple[tuple[str, ...], tuple[str, ...]], bool] = {}
        self._framings: dict[tuple[tuple[str, ...], str], Framing] = {}
        self._substitute: Programs | None = None
        # Reentrant: ``planned`` and ``lowered`` take it again inside ``program``.
        self._lock = RLock()
        self._is_told = False
        self._tell(max((program.host.slowdown for program in self._stored.values()), default=1.0))

    def _tell(self, slowdown: float) -> None:
        """Warn once where the model is predicted slower than its source."""
        if slowdown >= SLOWER and not self._is_told:
            self._is_told = True
            log_slower(self.parsed.traits.estimator, self.target, slowdown)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Raise BackendError for any failure inside, and let in one thread at a time.

        The graph of a file may be one that no parser makes.
        """
        with self._lock:
            try:
                yield
            # These say what is wrong; anything else comes from a graph that no parser made.
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
        compiled = self.compiled.get(key)
        if compiled is not None:
            return compiled
        with self.compiling():
            if key not in self.compiled:
                self.compiled[key] = self._compile(key)
            return self.compiled[key]

    @property
    def backend(self) -> str:
        """Name of the backend that compiles: a substitute where the target's is not installed."""
        substitute = self._substitute
        return self.target.backend if substitute is None else substitute.target.backend

    @property
    def known(self) -> tuple[Key, ...]:
        """Programs that are there, compiled here or stored before."""
        return tuple(dict.fromkeys((*self.compiled, *self._stored)))

    def listed(self) -> tuple[CompiledProgram, ...]:
        """List the programs that are there."""
        return tuple(self._describe(key) for key in self.known)

    def _describe(self, key: Key) -> CompiledProgram:
        program = self.compiled.get(key)
        buckets: set[Bucket]
        if program is None:
            buckets = {b for _, of, _ in other_files(self._stored[key].files) for b in of}
        else:
            artifact = program.artifact
            buckets = set(artifact.others) if isinstance(artifact, RowArtifact) else set()
        rows = tuple(str(bucket) for bucket in BUCKETS if bucket in buckets)
        return CompiledProgram(key[0], key[1], rows, loaded=program is not None)

    def converted(self, methods: tuple[str, ...], table: Table) -> Table:
        """Return rows in the dtypes of the program that answers them, or raise InputError."""
        return self.choices.converted(table, methods, self.known)

    def asked(self, methods: tuple[str, ...], table: Table) -> Table:
        """Return rows in the dtypes of a program that may be compiled for them."""
        return self.choices.asked(table, methods)

    def framing(self, dtypes: tuple[str, ...], library: str) -> Framing:
        """Return what the columns of frames are, of rows whose columns have these dtypes."""
        key = (dtypes, library)
        # Types of a graph are inferred once for all rows of these dtypes.
        if key not in self._framings:
            typed = self.parsed.with_schema(self.parsed.schema.with_dtypes(dtypes))
            self._framings[key] = Framing.of(typed.outputs["transform"], library)
        return self._framings[key]

    def takes_entries(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> bool:
        """Whether a sparse matrix is best given by its nonzeros.

        No node may need a dense row, and the rows must be wide or the answer sparse.
        """
        with self.compiling():
            if (methods, dtypes) not in self._takes_entries:
                lowered = self.lowered(methods, dtypes, Padding(matrix=True))
                worthwhile = len(dtypes) >= WIDE or bool(lowered.sparse_widths)
                self._takes_entries[methods, dtypes] = (
                    worthwhile and "scatter" not in lowered.program.primitives
                )
            return self._takes_entries[methods, dtypes]

    def stored(self) -> dict[Key, StoredProgram]:
        """Return all programs that can be stored, compiled here or stored before."""
        with self._lock:
            fresh = {
                key: StoredProgram(program.host, digest_of(self.parsed, key[0]), files)
                for key, program in self.compiled.items()
                if (files := program.artifact.files())
            }
            return {**self._stored, **fresh}

    def only(self, parsed: Graph) -> Programs:
        """Return the programs of a graph that has some of the methods; it compiles others anew."""
        stored, on_new = answering(parsed, self._stored), self.choices.on_new_dtypes
        programs = Programs(parsed, self.target, stored, self.tuning, on_new)
        with self._lock:
            programs.compiled |= answering(parsed, self.compiled)
        return programs

    def lowered(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Lowered:
        """Return the methods as a program that no backend has seen."""
        with self.compiling():
            return self.compilation(methods, dtypes, padding).lowered

    def prepared(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> TensorProgram:
        """Return the methods as the backend will emit them."""
        with self.compiling():
            # Of the first method, which most calls ask for: others may take far longer.
            self._tell(self.compilation(methods[:1], dtypes).slowdown)
            return self.compilation(methods, dtypes).prepared

    def planned(self, dtypes: tuple[str, ...], padding: Padding = DENSE) -> Planned:
        """Return the stages that all methods share, run the first time that such columns come."""
        from hbconv.pipeline import Planned

        sparse = (padding.matrix or padding.written) and self.parsed.depends_on_form
        with self.compiling():
            if (dtypes, sparse) not in self._planned:
                planned = Planned(self.parsed, dtypes, self.target, sparse, self.tuning)
                # Run under the lock, so that no two threads optimize one graph.
                _ = planned.graph
                self._planned[dtypes, sparse] = planned
            return self._planned[dtypes, sparse]

    def compilation(
        self, methods: tuple[str, ...], dtypes: tuple[str, ...], padding: Padding = DENSE
    ) -> Compilation:
        """Return the stages of some methods, each of which runs when it is first asked for."""
        from hbconv.pipeline import Compilation

        return Compilation(self.planned(dtypes, padding), methods, padding)

    def unguarded(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Compilation:
        """Return the stages of some methods as a file of another runtime has them: no flags."""
        from hbconv.pipeline import Unguarded

        return Unguarded(self.planned(dtypes), methods)

    def fitted(self, methods: tuple[str, ...], dtypes: tuple[str, ...]) -> Artifact:
        """Return what computes the methods alone, for any number of rows: no row is flagged."""
        key = (methods, dtypes, DENSE)
        with self.compiling():
            stages = self.compilation(*key)
            # The program of calls has outputs that a module must not have.
            if stages.guard.flags_rows or stages.choosing:
                return self._unguarded(stages)
            if key not in self._fitted and not self._read(key):
                self._fitted[key] = self.variant(stages)
            return self._fitted[key].artifact

    def _unguarded(self, stages: Compilation) -> Artifact:
        """Compile a program once more, without its flags."""
        key = (stages.methods, stages.planned.dtypes)
        if key not in self._alone:
            self._alone[key] = self.unguarded(*key).emitted()
        return self._alone[key]

    def _compile(self, key: Key) -> Program:
        """Compile a program, or take the substitute's where a loaded model cannot be compiled."""
        try:
            return self._own(key)
        except MissingPackageError as error:
            # A model converted here needs its backend; a loaded one may not find it.
            if not self._stored:
                raise
            if self._substitute is None:
                target = find_substitute(self.target, error)
                self._substitute = Programs(self.parsed, target)
            return self._substitute.program(*key)

    def _own(self, key: Key) -> Program:
        """Read a stored program back, or compile it."""
        program = self._read(key)
        if program is not None:
            return program
        stages = self.compilation(*key)
        fitted = self._fitted.setdefault(key, self.variant(stages))
        whole = RowArtifact(fitted, self._other_variants(stages))
        self._tell(stages.slowdown)
        return _program(HostSide.of(stages, whole.chunks()), whole)

    def _read(self, key: Key) -> Program | None:
        """Read a stored program back.

        None if there is none, it is of another graph, or this machine cannot run it.
        """
        stored = self._stored.get(key)
        # A file may hold a program of another graph, by accident or by intent.
        if stored is None or stored.digest != digest_of(self.parsed, key[0]):
            return None
        backend = find_backend(self.target.backend)
        others: dict[Bucket, Variant] = {}
        for folder, buckets, files in [
            (FITTED, (), own_files(stored.files)),
            *other_files(stored.files),
        ]:
            artifact = backend.load(first_files(files), stored.host.types, self.target)
            if artifact is None:
                return None
            chunk = stored.host.chunks[folder]
            if TIED in stored.host.types.outputs:
                rest = rest_files(files)
                make = partial(self._finisher, key, rest, chunk)
                artifact = TiedRows(artifact, make, rest)
            variant = Variant(artifact, chunk)
            others |= dict.fromkeys(buckets, variant)
            self._fitted.setdefault(key, variant)
        return _program(stored.host, RowArtifact(self._fitted[key], others))

    def _finisher(self, key: Key, files: Mapping[str, bytes], chunk: int) -> Finisher:
        """Read back what finishes the tied rows of a stored program."""
        with self.compiling():
            stages = self.compilation(*key)
            backend = find_backend(self.target.backend)
            rest = backend.load(files, rest_program(stages).types, self.target)
            return Finisher.of(stages, Variant(rest, chunk) if rest else self._rest(stages))

    def _other_variants(self, stages: Compilation) -> dict[Bucket, Variant]:
        """Compile a variant for each other plan."""
        plans = {row_plan.bucket: row_plan.plan for row_plan in stages.planned.row_plans}
        distinct = {plan.strategies: plan for plan in plans.values()}
        # Buckets of one plan share its compiled code.
        variants = {name: self.variant(replace(stages, plan=p)) for name, p in distinct.items()}
        return {bucket: variants[plan.strategies] for bucket, plan in plans.items()}

    def variant(self, stages: Compilation) -> Variant:
        """Compile a program with the plan of its stages."""
        fitted = Variant(stages.emitted(), self._chunk(stages.prepared))
        if TIED not in stages.lowered.program.outputs:
            # Between two runs Python hears Ctrl-C.
            quick = rows_in_time(stages.lowered.program, self.target)
            return replace(fitted, chunk=min(fitted.chunk, quick))
        rest = self._rest(stages)
        finisher = Finisher.of(stages, rest)
        tied_rows = TiedRows(fitted.artifact, lambda: finisher, rest.artifact.files())
        return replace(fitted, artifact=tied_rows)

    def _rest(self, stages: Compilation) -> Variant:
        """Compile what computes the rest of tied rows."""
        backend = find_backend(self.target.backend)
        program = backend.prepare(rest_program(stages), self.target)
        return Variant(backend.emit(program, self.target), self._chunk(program))

    def _chunk(self, prepared: TensorProgram) -> int:
        """Return how many rows one run takes: a tiled backend holds only inputs and outputs."""
        if find_backend(self.target.backend).tiled:
            return max(1, self.target.memory // bytes_given(prepared))
        return rows_per_chunk(prepared, self.target)


def _program(host: HostSide, whole: RowArtifact) -> Program:
    """Return a program; where all rows run in one variant, nothing chooses between variants."""
    artifact = whole if whole.others else whole.fitted.artifact
    return Program(host, artifact, whole.chunk, Checker(host.schema, host.guard, host.padding))
