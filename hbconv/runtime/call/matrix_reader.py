"""Matrix reader: a plain matrix goes to the only input of a program, past all that reads tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph, Output
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.lower import DENSE, FLAGGED, Feed
from hbconv.runtime.call.memory import Call, Memory, Scan
from hbconv.runtime.checks import long_dot
from hbconv.runtime.inputs.places import unnamed_rows, warn
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.outputs.answers import answer, decoder, row_decoder, whole
from hbconv.runtime.outputs.dataframes import returns_rows
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["MatrixReader", "RowsThemselves", "plan_matrices"]

Matrix = npt.NDArray[Any]
MatrixKind = tuple[np.dtype[Any], tuple[int, ...]]
"""Dtype and shape."""


@dataclass(frozen=True, eq=False)
class MatrixReader:
    """How matrices of one dtype reach a program whose only input is a matrix of numbers.

    It answers only what needs no second look: few rows that its guard does not doubt, or any number
    where the program proves them.

    Parameters
    ----------
    program : Program
    feed : Feed
        Its input.
    method : str
    output : Output
    width : int
        Columns of the matrices.
    converts : bool
        They have another dtype than the program reads.
    small : bool
        They hold ints, which must be floats exactly.
    warning : str
        What the source warns of at each call, as of rows without names; else "".
    """

    program: Program
    feed: Feed
    method: str
    output: Output
    width: int
    converts: bool = False
    small: bool = False
    warning: str = ""

    @staticmethod
    def of(program: Program, graph: Graph, method: str) -> MatrixReader | None:
        """Return None for a program that reads text, sparse rows, or several matrices."""
        host = program.host
        feed = host.feeds[0]
        if len(host.feeds) > 1 or not isinstance(feed, Feed) or host.sparse_widths:
            return None
        width = len(graph.schema.columns)
        return MatrixReader(program, feed, method, graph.outputs[method], width)

    @property
    def columns(self) -> list[int] | None:
        """Columns that are read; None for all, which need no copy."""
        if self.feed.columns == tuple(range(self.width)):
            return None
        return list(self.feed.columns)

    def fill(self, bound: Bound, rows: int) -> Matrix | Sequence[Call]:
        """Return the input in a memory, or what writes the columns that are read to it."""
        matrix = bound.inputs[self.feed.name][:rows]
        columns = self.columns
        if columns is None:
            return matrix
        # Unsafe, as an assignment is: ``_fit`` and conversions have judged the dtypes.
        return (lambda x: np.copyto(matrix, x[:, columns], "unsafe"),)

    def bind(self, memory: Memory, kind: MatrixKind) -> Call | None:
        """Return what answers matrices of a shape in this thread; None if this reader does not."""
        _, shape = kind
        if len(shape) != 2 or shape[1] != self.width or not shape[0]:
            return None
        if shape[0] <= self.program.artifact.sizes[-1]:
            memory.calls[kind] = call = self._finish(self._in_place(memory, shape[0]))
            return call
        guard = self.program.guard
        if guard.looks_at_rows or shape[0] > self.program.chunk:
            return None
        return self._finish(self.in_fresh_arrays(flags=guard.flags_rows))

    def _in_place(self, memory: Memory, rows: int) -> Call:
        """Return a call in the memory that serves the smallest size these rows fit in."""
        program = self.program
        # Numbers of rows up to one size share its memory, so that few memories are bound.
        size = next(size for size in program.artifact.sizes if rows <= size)
        buffers = memory.bind(program.artifact, size)
        scan = Scan.of_matrix(program.guard, buffers.flags(program.guard, rows), rows * self.width)
        decode = (row_decoder if rows == 1 else decoder)(self.output)
        values = buffers.bound.outputs[self.method][:rows]
        return buffers.call(rows, values, self.fill(buffers.bound, rows), decode, scan)

    def in_fresh_arrays(self, *, flags: bool = False) -> Call:
        """Return a call that computes in fresh arrays; None if a row is flagged."""
        dtype = np.dtype(self.feed.dtype)
        columns = self.columns
        run = self.program.artifact.run

        def call(x: Matrix) -> Any:
            values = run(
                {self.feed.name: np.asarray(x if columns is None else x[:, columns], dtype)}
            )
            if flags and values[FLAGGED].any():
                return None
            return whole(self.output, answer(self.output, values[self.method]), x)

        return call

    def _finish(self, call: Call) -> Call:
        """Convert matrices before a call, and warn after it."""
        if not (self.converts or self.warning):
            return call
        dtype = np.dtype(self.feed.dtype)

        def finished(x: Matrix) -> Any:
            if self.converts:
                x = x.astype(dtype)
                # No int beyond 2**53, which floats may round, has a square below 2**106.
                if self.small and not long_dot(x, x) < MOST_EXACT_INT**2:
                    return None
            outputs = call(x)
            if outputs is not None and self.warning:
                warn(self.warning)
            return outputs

        return finished


@dataclass(frozen=True)
class RowsThemselves:
    """The plan of a ``transform`` that returns matrices themselves, after no look at any value."""

    width: int

    def bind(self, memory: Memory, kind: MatrixKind) -> Call | None:  # noqa: ARG002
        """Return what answers matrices of a shape."""
        _, shape = kind
        return (lambda x: x) if len(shape) == 2 and shape[1] == self.width else None


def plan_matrices(
    graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str
) -> MatrixReader | RowsThemselves | None:
    """Return how matrices of a dtype are answered, of which one was; None: as tables are."""
    if reads.text or reads.entries or not graph.schema.conventions.takes_matrices:
        return None
    width = len(graph.schema.columns)
    if method == "transform" and _returns_matrices(graph, dtype):
        return RowsThemselves(width)
    dtypes = (dtype,) * width
    conversion = programs.choices.remembered((method,), dtypes, DENSE)
    if conversion is None:  # as of ints that are read as floats
        return None
    program = programs.compiled.get(((method,), conversion.dtypes, DENSE))
    reader = None if program is None else MatrixReader.of(program, graph, method)
    if reader is None or not reader.program.can_be_bound:
        return None
    warning = unnamed_rows(Reads.of(graph)) if graph.schema.named else ""
    converts = conversion.dtypes != dtypes
    return replace(reader, converts=converts, small=bool(conversion.small), warning=warning)


def _returns_matrices(graph: Graph, dtype: str) -> bool:
    is_plain = dtype.startswith(("float", "int", "bool")) and not graph.schema.named
    return is_plain and returns_rows(graph.traits.frame_format, np.empty(0))
