"""Matrix reader: a plain matrix goes to the only input of a program, past all that reads tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph, Output
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.lower import DENSE, FLAGGED, Feed
from hbconv.runtime.call.memory import Call, Memory, Scan
from hbconv.runtime.inputs.places import unnamed_rows, warn
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.magnitudes import long_dot
from hbconv.runtime.outputs.answers import answer, decoder, row_decoder
from hbconv.runtime.outputs.dataframes import returns_rows
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["MatrixPlan", "MatrixProgram", "RowsThemselves", "in_fresh_arrays", "plan_matrices"]

Matrix = npt.NDArray[Any]
MatrixKind = tuple[np.dtype[Any], tuple[int, ...]]
"""Dtype and shape."""


@dataclass(frozen=True)
class MatrixProgram:
    """A program whose only input is a matrix of numbers.

    Parameters
    ----------
    program : Program
    feed : Feed
        Its input.
    method : str
    output : Output
    width : int
        Columns of the matrices that are given.
    """

    program: Program
    feed: Feed
    method: str
    output: Output
    width: int

    @staticmethod
    def of(program: Program, graph: Graph, method: str) -> MatrixProgram | None:
        """Return None for a program that reads text, sparse rows, or several matrices."""
        host = program.host
        feed = host.feeds[0]
        if len(host.feeds) > 1 or not isinstance(feed, Feed) or host.sparse_widths:
            return None
        width = len(graph.schema.columns)
        return MatrixProgram(program, feed, method, graph.outputs[method], width)

    @property
    def columns(self) -> list[int] | None:
        """Columns that are read; None for all, which need no copy."""
        if self.feed.columns == tuple(range(self.width)):
            return None
        return list(self.feed.columns)

    def fill(self, bound: Bound, rows: int) -> Matrix | Sequence[Callable[[Matrix], None]]:
        """Return the input in a memory, or what writes the columns that are read to it."""
        given = bound.inputs[self.feed.name][:rows]
        columns = self.columns
        if columns is None:
            return given
        return (lambda x: np.copyto(given, x[:, columns], "unsafe"),)


@dataclass(frozen=True, eq=False)
class MatrixPlan:
    """How matrices of one dtype reach their program.

    It answers only what needs no second look: few rows that its guard does not doubt, or any number
    where the program proves them.

    Parameters
    ----------
    matrix : MatrixProgram
    converts : bool
        The matrices have another dtype than the program reads.
    small : bool
        They hold ints, which must be floats exactly.
    warning : str
        What the source warns of at each call, as of rows without names; else "".
    """

    matrix: MatrixProgram
    converts: bool
    small: bool
    warning: str

    def bind(self, memory: Memory, kind: MatrixKind) -> Call | None:
        """Return what answers matrices of a shape in this thread; None if this plan does not."""
        _, shape = kind
        if len(shape) != 2 or shape[1] != self.matrix.width or not shape[0]:
            return None
        program = self.matrix.program
        if shape[0] <= program.artifact.sizes[-1]:
            memory.calls[kind] = call = self._finished(self._in_place(memory, shape[0]))
            return call
        if program.guard.looks_at_rows or shape[0] > program.chunk:
            return None
        return self._finished(in_fresh_arrays(self.matrix, flags=program.guard.flags_rows))

    def _in_place(self, memory: Memory, rows: int) -> Call:
        """Return a call in the memory that serves the smallest size these rows fit in."""
        program = self.matrix.program
        size = next(size for size in program.artifact.sizes if rows <= size)
        buffers = memory.bind(program.artifact, size)
        flags = buffers.flags(program.guard, rows)
        scan = Scan.of_matrix(program.guard, flags, rows * self.matrix.width)
        fill = self.matrix.fill(buffers.bound, rows)
        values = buffers.bound.outputs[self.matrix.method][:rows]
        decode = (row_decoder if rows == 1 else decoder)(self.matrix.output)
        return buffers.call(rows, values, fill, decode, scan)

    def _finished(self, call: Call) -> Call:
        """Convert matrices before a call, and warn after it."""
        if self.converts:
            call = _converting(call, np.dtype(self.matrix.feed.dtype), self.small)
        return _warning(call, self.warning) if self.warning else call


@dataclass(frozen=True)
class RowsThemselves:
    """The plan of a ``transform`` that returns matrices themselves, after no look at any value."""

    width: int

    def bind(self, memory: Memory, kind: MatrixKind) -> Call | None:  # noqa: ARG002
        """Return what answers matrices of a shape."""
        _, shape = kind
        return _itself if len(shape) == 2 and shape[1] == self.width else None


def plan_matrices(
    graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str
) -> MatrixPlan | RowsThemselves | None:
    """Return how matrices of a dtype are answered, of which one was; None: as tables are."""
    if reads.text or reads.entries or not graph.schema.conventions.takes_matrices:
        return None
    width = len(graph.schema.columns)
    if method == "transform" and _returns_matrices(graph, dtype):
        return RowsThemselves(width)
    given = (dtype,) * width
    conversion = programs.choices.remembered((method,), given, DENSE)
    if conversion is None:  # as of ints that are read as floats
        return None
    program = programs.compiled.get(((method,), conversion.dtypes, DENSE))
    if program is None:
        return None
    matrix = MatrixProgram.of(program, graph, method)
    if matrix is None or program.guard.needs_host or not program.artifact.sizes:
        return None
    warning = unnamed_rows(Reads.of(graph)) if graph.schema.named else ""
    return MatrixPlan(matrix, conversion.dtypes != given, bool(conversion.small), warning)


def in_fresh_arrays(matrix: MatrixProgram, *, flags: bool = False) -> Call:
    """Return a call that computes in fresh arrays; if the program flags a row, it returns None."""
    name = matrix.feed.name
    dtype = np.dtype(matrix.feed.dtype)
    columns = matrix.columns
    run = matrix.program.artifact.run

    def call(x: Matrix) -> Any:
        given = np.asarray(x if columns is None else x[:, columns], dtype)
        values = run({name: given})
        if flags and values[FLAGGED].any():
            return None
        return answer(matrix.output, values[matrix.method])

    return call


def _converting(call: Call, dtype: np.dtype[Any], small: bool) -> Call:
    def converting(x: Matrix) -> Any:
        x = x.astype(dtype)
        if small and not long_dot(x, x) < MOST_EXACT_INT**2:
            return None
        return call(x)

    return converting


def _warning(call: Call, message: str) -> Call:
    def warning(x: Matrix) -> Any:
        answer = call(x)
        if answer is not None:
            warn(message)
        return answer

    return warning


def _returns_matrices(graph: Graph, dtype: str) -> bool:
    is_plain = dtype.startswith(("float", "int", "bool")) and not graph.schema.named
    return is_plain and returns_rows(graph.traits.frame_format, np.empty(0))


def _itself(x: Matrix) -> Matrix:
    return x
