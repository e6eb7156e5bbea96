"""Row calls: a record or a frame of one row goes straight to the compiled program.

The first row of a kind is read as all tables are. Writers are then made for its kind, in which the
places of columns, dtypes and conversions are settled. A row that they do not take, or that the
program flags, is read the ordinary way too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hbconv.backends.base import Artifact, Bound
from hbconv.containers import Graph
from hbconv.lower import FLAGGED, Feed
from hbconv.runtime.inputs.cell_looks import make_look
from hbconv.runtime.inputs.cell_writers import (
    SCALARS,
    UNUSUAL,
    CellWriter,
    Write,
    make_writers,
    writes,
)
from hbconv.runtime.inputs.cells import Kind, RowCells, read_cells
from hbconv.runtime.inputs.places import find_places, finds_silently
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.records import opened
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.inputs.text_cells import read_text, with_entries
from hbconv.runtime.outputs.answers import row_decoder
from hbconv.runtime.outputs.dataframes import library_of
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["FindProgram", "RowCall", "find_row_call"]

MOST_KINDS = 256
"""Kinds of rows that are remembered: clients choose them."""

Call = Callable[[Any], Any]
ReadRow = Callable[[Any], RowCells | None]
FindProgram = Callable[[Table], tuple[Program, Table]]
"""Returns the program that answers a table, and the table in its dtypes."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """How rows of one kind reach their program, and the looks that they need first."""

    program: Program
    writers: Mapping[str, CellWriter]
    looks: tuple[Write, ...]


class _Memory(threading.local):
    """What each thread has for itself: calls by kind of row, and bound programs.

    The number beside a bound program counts turns: how often its memory was written to.
    """

    def __init__(self) -> None:
        self.calls: dict[Kind, Call] = {}
        self.bounds: dict[Artifact, tuple[Bound, list[int]]] = {}


class RowCall:
    """A method for records and frames of one row. It leaves all else to ``ordinary``.

    Parameters
    ----------
    graph : Graph
        As parsed.
    reads : Reads
    method : str
    ordinary : callable
        Answers rows of every form.
    find_program : callable
    """

    def __init__(
        self,
        graph: Graph,
        reads: Reads,
        method: str,
        ordinary: Call,
        find_program: FindProgram,
    ) -> None:
        self._takes_items = reads.schema.conventions.items
        self._row: ReadRow = read_text if self._takes_items else read_cells
        self._reads = reads
        self._method = method
        self._ordinary = ordinary
        self._find_program = find_program
        self._frames = graph.traits.frame_format if method == "transform" else None
        self._decode = row_decoder(graph.outputs[method])
        self._plans: dict[Kind, _Plan | None] = {}
        self._memory = _Memory()

    def __call__(self, x: Any) -> Any:
        """Answer rows of any form."""
        if not self._takes_items:
            x = opened(x)
        cells = self._cells(x)
        if cells is None or (self._frames is not None and library_of(self._frames, x)):
            return self._ordinary(x)
        kind = cells.kind
        call = self._memory.calls.get(kind)
        found = None if call is None else call(cells.values)
        if found is not None:
            return found
        found = self._ordinary(x)
        if call is None:
            self._learn(kind, cells, x)
        return found

    def _cells(self, x: Any) -> RowCells | None:
        """Return the cells of one row, of texts their entries too; None of everything else."""
        cells = self._row(x)
        if cells is None or not self._reads.entries:
            return cells
        # Kinds without entries are remembered only if they must be read the ordinary way.
        return None if cells.kind in self._plans else with_entries(cells, self._reads)

    def _learn(self, kind: Kind, cells: RowCells, x: Any) -> None:
        """Remember how rows of a kind are read, of which the ordinary way answered one."""
        if kind not in self._plans:
            try:
                plan = self._plan(kind, cells, x)
            except UNUSUAL:  # Another row of this kind may do.
                return
            _remember(self._plans, kind if plan else cells.without_entries.kind, plan)
        plan = self._plans.get(kind)
        if plan is not None:
            _remember(self._memory.calls, kind, self._in_place(plan))

    def _plan(self, kind: Kind, cells: RowCells, x: Any) -> _Plan | None:
        """Return None for a kind that must be read the ordinary way."""
        types = kind[-1]
        may_be_columns = not cells.ordered and not SCALARS.issuperset(types[: len(cells.names)])
        if may_be_columns or not finds_silently(cells, self._reads):
            return None
        program, table = self._find_program(read_table(x, self._reads))
        if not _settles(program):
            return None
        places = find_places(cells, self._reads)
        fed = table.inputs(program.host.feeds)
        writers = make_writers(program.host.feeds, places, types, fed, self._reads)
        written = all(writes(w, cells.values, fed[name]) for name, w in writers.items())
        looks = _looks(program, places, types)
        if not writers or not written or looks is None:
            return None
        return _Plan(program, writers, looks)

    def _in_place(self, plan: _Plan) -> Call:
        """Return a call in the memory that this thread has for a program.

        A signal handler or a finalizer may call in the midst of another call: it uses the same
        memory and takes the next turn. The other call sees so, and begins again.
        """
        bound, turns = self._bound(plan.program)
        rows = bound.inputs
        writes = [*plan.looks, *(made.into(rows[name]) for name, made in plan.writers.items())]
        run = bound.run
        record = bound.record(1)
        decode = self._decode
        values = bound.outputs[self._method]
        is_flagged = bound.outputs[FLAGGED].item if plan.program.guard.flags_rows else None

        def call(cells: tuple[Any, ...], kept: Bound = bound) -> Any:  # noqa: ARG001
            while True:
                turns[0] = turn = turns[0] + 1
                try:
                    for write in writes:
                        write(cells)
                except UNUSUAL:
                    return None
                run(record)
                found = None if is_flagged is not None and is_flagged() else decode(values)
                if turns[0] == turn:
                    return found

        return call

    def _bound(self, program: Program) -> tuple[Bound, list[int]]:
        bounds = self._memory.bounds
        if program.artifact not in bounds:
            bound = program.artifact.bind(1)
            assert bound is not None  # noqa: S101  (it has sizes)
            bounds[program.artifact] = bound, [0]
        return bounds[program.artifact]


def find_row_call(
    graph: Graph, programs: Programs, reads: Reads, method: str, ordinary: Call
) -> Call:
    """Return a method for rows of all forms that is fast for one row of a table.

    A model fitted on a table without names has no such call: it warns of the names of each table.
    """
    if not graph.schema.named and not graph.schema.conventions.items:
        return ordinary

    def find_program(table: Table) -> tuple[Program, Table]:
        ((_, converted),) = programs.converted((method,), table).groups(sparse=False)
        return programs.program((method,), converted.dtypes, converted.padding), converted

    return RowCall(graph, reads, method, ordinary, find_program)


def _settles(program: Program) -> bool:
    """Whether the program alone decides which rows the source refuses, and can be bound."""
    needs_host = program.guard.needs_host or program.host.sparse_widths
    return not needs_host and bool(program.artifact.sizes)


def _looks(
    program: Program, places: Mapping[int, int], types: tuple[type, ...]
) -> tuple[Write, ...] | None:
    """Return the looks at the cells by which a guard settles its checks; None if it cannot so."""
    guard = program.guard
    if not guard.looks_at_rows:
        return ()
    feeds = [feed for feed in program.check.feeds if isinstance(feed, Feed)]
    if len(feeds) < len(program.check.feeds):
        return None
    look = make_look(feeds, places, types, guard.bound, guard.without_nan)
    return None if look is None else (look,)


def _remember(known: dict[Kind, Any], kind: Kind, value: Any) -> None:
    if len(known) >= MOST_KINDS:
        known.clear()
    known[kind] = value
