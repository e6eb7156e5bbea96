"""Row reader: a record, a frame of one row or a text goes straight to the inputs of a program.

The first row of a kind is read as all tables are. Writers are then made for its kind, in which the
places of columns, dtypes and conversions are settled. A row that they do not take, or that the
program flags, is read as a table too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from hbconv.containers import Output
from hbconv.lower import Feed
from hbconv.runtime.call.cell_writers import (
    SCALARS,
    CellWriter,
    Write,
    make_look,
    make_writers,
    writes,
)
from hbconv.runtime.call.cells import Kind, RowCells, read_cells, read_text, with_entries
from hbconv.runtime.call.memory import Call, Memory, Scan, remember
from hbconv.runtime.inputs.places import find_places, finds_silently
from hbconv.runtime.inputs.records import opened
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.outputs.answers import row_decoder
from hbconv.runtime.program import Program

__all__ = ["CellPlan", "CellReader"]


@dataclass(frozen=True, eq=False)
class CellPlan:
    """How rows of one kind reach their program, and the looks that they need first."""

    program: Program
    method: str
    output: Output
    writers: Mapping[str, CellWriter]
    looks: tuple[Write, ...]

    def bind(self, memory: Memory, kind: Kind) -> Call:
        """Return a call in the memory that this thread has for the program."""
        buffers = memory.bind(self.program.artifact, 1)
        inputs = buffers.bound.inputs
        writes = [*self.looks, *(w.into(inputs[name]) for name, w in self.writers.items())]

        values = buffers.bound.outputs[self.method]
        scan = Scan.of_row(buffers.flags(self.program.guard, 1))
        call = buffers.call(1, values, writes, row_decoder(self.output), scan)
        remember(memory.calls, kind, call)
        return call


class CellReader:
    """Reads one row, and plans how others of its kind are read.

    Parameters
    ----------
    reads : Reads
    method : str
    output : Output

    Attributes
    ----------
    open : callable
        Returns what JSON text holds, for a model that does not read texts as rows.
    """

    def __init__(self, reads: Reads, method: str, output: Output) -> None:
        takes_items = reads.schema.conventions.items
        self.open = _leave if takes_items else opened
        self._read = read_text if takes_items else read_cells
        self._reads = reads
        self._method = method
        self._output = output

    def read(self, x: Any, kinds: Container[Any]) -> RowCells | None:
        """Return the cells of one row, of texts their entries too; None of everything else.

        Kinds without entries are remembered only if they must be read as tables.
        """
        cells = self._read(x)
        if cells is None or not self._reads.entries:
            return cells
        return None if cells.kind in kinds else with_entries(cells, self._reads)

    def plan(
        self, cells: RowCells, find_program: Callable[[], tuple[Program, Table]]
    ) -> CellPlan | None:
        """Plan for rows of a kind by one of them; None where they must be read as tables.

        Parameters
        ----------
        cells : RowCells
        find_program : callable
            Returns the program that answers the row, and the row in its dtypes.
        """
        types = cells.kind[-1]
        may_be_columns = not cells.ordered and not SCALARS.issuperset(types[: len(cells.names)])
        if may_be_columns or not finds_silently(cells, self._reads):
            return None
        program, table = find_program()
        if not _settles(program):
            return None
        places = find_places(cells, self._reads)
        fed = table.inputs(program.host.feeds)
        writers = make_writers(program.host.feeds, places, types, fed, self._reads)
        written = all(writes(w, cells.values, fed[name]) for name, w in writers.items())
        looks = _looks(program, places, types)
        if not writers or not written or looks is None:
            return None
        return CellPlan(program, self._method, self._output, writers, looks)


def _leave(x: Any) -> Any:
    return x


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
