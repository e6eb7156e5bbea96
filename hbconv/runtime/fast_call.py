"""Fast calls: a plain matrix goes straight to the compiled program.

They pass by all that reads and joins rows of other kinds. ``FastCall`` is checked: it answers
``model.predict(X)`` where its row guard needs no second look. It computes in memory that it uses
again, or in fresh arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph, Output
from hbconv.containers.analysis.guard import Guard
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.lower import DENSE, FLAGGED, Feed
from hbconv.runtime.inputs.places import unnamed_rows, warn
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.magnitudes import DOT_ENTRIES, long_dot
from hbconv.runtime.outputs.answers import answer, decoder
from hbconv.runtime.outputs.dataframes import library_of
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs

__all__ = ["FastCall", "MatrixProgram", "find_fast_call", "in_fresh_arrays", "in_place"]

Matrix = npt.NDArray[Any]
Call = Callable[[Matrix], Any]


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


@dataclass(frozen=True, eq=False)
class Doubts:
    """Where the program flags rows, and whether it is asked.

    Parameters
    ----------
    square : float, optional
        Largest sum of squares of ordinary rows: none of their values is large or NaN. None where
        it does not matter.
    of_ordinary, of_others : ndarray of bool, optional
        The flags of ordinary rows and of others. None where ordinary rows need no second look, and
        where others need it in any case.
    """

    square: float | None = None
    of_ordinary: npt.NDArray[np.bool_] | None = None
    of_others: npt.NDArray[np.bool_] | None = None

    @staticmethod
    def of(guard: Guard, flags: npt.NDArray[np.bool_] | None) -> Doubts:
        """Choose by what the program answers."""
        square = guard.bound**2 if guard.bound else None
        if guard.looks_at_rows:
            return Doubts(square, of_ordinary=flags)
        if guard.inside:
            return Doubts(of_ordinary=flags)
        return Doubts(square, of_others=flags)


class FastCall:
    """A method for matrices of one dtype, checked.

    It answers only what needs no second look: rows that its guard does not doubt, a few, or any
    number where the program proves them. It leaves the others to ``call``.

    Each thread has memory of its own. A signal handler or a finalizer may call in the midst of
    another call: it uses the same memory and takes the next turn. The other call sees so, and
    begins again.

    Parameters
    ----------
    matrix : MatrixProgram
    graph : Graph
        As parsed.
    converts : bool
        The matrices have another dtype than the program reads.
    small : bool
        They hold ints, which must be floats exactly.
    """

    def __init__(
        self, matrix: MatrixProgram, graph: Graph, *, converts: bool = False, small: bool = False
    ) -> None:
        self._dtype = np.dtype(matrix.feed.dtype) if converts else None
        self._small = small
        self._unnamed = unnamed_rows(Reads.of(graph)) if graph.schema.named else ""
        guard = matrix.program.guard
        self._matrix = matrix
        self._sizes = matrix.program.artifact.sizes
        self._frames = graph.traits.frame_format if matrix.method == "transform" else None
        self._guard = guard
        self._many = None
        if not guard.looks_at_rows:
            self._many = in_fresh_arrays(matrix, flags=guard.flags_rows)
        self._decode = decoder(matrix.output)
        self._local = threading.local()

    def __call__(self, x: Matrix) -> Any:
        """Answer, or return None where ``call`` must."""
        if self._dtype is not None:
            x = x.astype(self._dtype)
            if self._small and not long_dot(x, x) < MOST_EXACT_INT**2:
                return None
        try:
            answering: Call | None = self._local.calls[x.shape]
        except (AttributeError, KeyError):
            answering = self._find_call(x.shape)
        if self._frames is not None and library_of(self._frames):
            return None
        found = None if answering is None else answering(x)
        if self._unnamed and found is not None:
            warn(self._unnamed)
        return found

    def _find_call(self, shape: tuple[int, ...]) -> Call | None:
        """Return what answers rows of this shape in this thread; None if only ``call`` does."""
        if len(shape) != 2 or shape[1] != self._matrix.width or not shape[0]:
            return None
        if shape[0] > self._sizes[-1]:
            return self._many if shape[0] <= self._matrix.program.chunk else None
        if not hasattr(self._local, "calls"):
            self._local.bounds = {}
            self._local.turns = [0]
            self._local.calls = {}
        made = self._in_place(shape[0])
        self._local.calls[shape] = made
        return made

    def _in_place(self, rows: int) -> Call:
        """Return a call in the memory that serves the smallest size these rows fit in."""
        size = next(size for size in self._sizes if rows <= size)
        bounds: dict[int, Bound | None] = self._local.bounds
        if size not in bounds:
            bounds[size] = self._matrix.program.artifact.bind(size)
        bound = bounds[size]
        assert bound is not None  # noqa: S101  (sizes are those that can be bound)
        flagged = bound.outputs[FLAGGED][:rows] if self._guard.flags_rows else None
        doubts = Doubts.of(self._guard, flagged)
        return in_place(self._matrix, bound, rows, self._decode, self._local.turns, doubts)


def find_fast_call(
    graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str
) -> FastCall | None:
    """Return the fast call of a method that answered a matrix of this dtype, if it has one."""
    conventions = graph.schema.conventions
    if reads.text or reads.entries:
        return None
    if conventions.tables_only or conventions.items or conventions.sequence:
        return None
    given = (dtype,) * len(graph.schema.columns)
    conversion = programs.choices.remembered((method,), given, DENSE)
    if conversion is None:  # as of ints that are read as floats
        return None
    program = programs.compiled.get(((method,), conversion.dtypes, DENSE))
    if program is None:
        return None
    matrix = MatrixProgram.of(program, graph, method)
    needs_host = program.guard.host or program.guard.warnings
    if matrix is None or needs_host or not program.artifact.sizes:
        return None
    return FastCall(
        matrix, graph, converts=conversion.dtypes != given, small=bool(conversion.small)
    )


def in_place(
    matrix: MatrixProgram,
    bound: Bound,
    rows: int,
    decode: Call,
    turns: list[int],
    doubts: Doubts = Doubts(),
) -> Call:
    """Return a call that computes in memory of its own, which it uses again.

    Parameters
    ----------
    decode : callable
        Makes the answer of the values in this memory.
    turns : list of one int
        How many turns were taken in this memory, by all calls that share it.
    doubts : Doubts
        The call returns None if a row needs a second look.
    """
    given = bound.inputs[matrix.feed.name][:rows]
    values = bound.outputs[matrix.method][:rows]
    run = bound.run
    record = bound.record(rows)
    columns = matrix.columns
    square = doubts.square
    of_ordinary = doubts.of_ordinary
    of_others = doubts.of_others
    is_long = rows * matrix.width > DOT_ENTRIES
    dot = long_dot if is_long else np.vdot

    def call(x: Matrix, kept: Bound = bound) -> Any:  # noqa: ARG001
        # A small sum of squares says that no value is large or NaN; vdot does not warn of others.
        flags = of_ordinary
        if square is not None and not dot(x, x) <= square:
            if of_others is None:
                return None
            flags = of_others
        while True:
            turns[0] = turn = turns[0] + 1
            given[...] = x if columns is None else x[:, columns]
            run(record)
            found = None if flags is not None and flags.any() else decode(values)
            if turns[0] == turn:
                return found

    return call


def in_fresh_arrays(matrix: MatrixProgram, *, flags: bool = False) -> Call:
    """Return a call that computes in fresh arrays; if the program flags a row, it returns None."""
    name = matrix.feed.name
    dtype = np.dtype(matrix.feed.dtype)
    columns = matrix.columns
    run = matrix.program.artifact.run

    def call(x: Matrix) -> Any:
        given = np.ascontiguousarray(x if columns is None else x[:, columns], dtype)
        values = run({name: given})
        if flags and values[FLAGGED].any():
            return None
        return answer(matrix.output, values[matrix.method])

    return call
