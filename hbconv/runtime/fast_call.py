"""Fast calls: a plain matrix goes straight to the compiled program.

They pass by all that reads and joins rows of other kinds. ``FastCall`` is checked: it answers
``model.predict(X)`` where its row guard needs no second look.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np

from hbconv.backends.base import Bound
from hbconv.containers import Graph
from hbconv.containers.schema import MOST_EXACT_INT
from hbconv.lower import DENSE, FLAGGED
from hbconv.runtime.inputs.places import unnamed_rows, warn
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.magnitudes import long_dot
from hbconv.runtime.matrix_call import (
    Call,
    Doubts,
    Matrix,
    MatrixProgram,
    in_fresh_arrays,
    in_place,
)
from hbconv.runtime.outputs.answers import decoder, row_decoder
from hbconv.runtime.outputs.dataframes import library_of, returns_rows
from hbconv.runtime.programs import Programs

__all__ = ["find_fast_call"]


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
        self._local = threading.local()

    def answer(self, x: Matrix) -> Any:
        """Answer, or return None where ``call`` must."""
        if self._dtype is not None:
            x = x.astype(self._dtype)
            if self._small and not long_dot(x, x) < MOST_EXACT_INT**2:
                return None
        try:
            answering: Call | None = self._local.calls[x.shape]
        except (AttributeError, KeyError):
            answering = self._find_call(x.shape)
        if self._frames is not None and library_of(self._frames, x):
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
        decode = (row_decoder if rows == 1 else decoder)(self._matrix.output)
        return in_place(self._matrix, bound, rows, decode, self._local.turns, doubts)


def find_fast_call(
    graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str
) -> Call | None:
    """Return the fast call of a method that answered a matrix of this dtype, if it has one.

    It is a bound method: Python calls one sooner than an object that can be called.
    """
    conventions = graph.schema.conventions
    if reads.text or reads.entries:
        return None
    if conventions.tables_only or conventions.items or conventions.sequence:
        return None
    width = len(graph.schema.columns)
    if method == "transform" and _returns_matrices(graph, dtype):
        return partial(_rows_themselves, width)
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
    fast = FastCall(
        matrix, graph, converts=conversion.dtypes != given, small=bool(conversion.small)
    )
    return fast.answer


def _returns_matrices(graph: Graph, dtype: str) -> bool:
    """Whether ``transform`` returns matrices themselves, after no look at any value."""
    is_plain = dtype.startswith(("float", "int", "bool")) and not graph.schema.named
    return is_plain and returns_rows(graph.traits.frame_format, np.empty(0))


def _rows_themselves(width: int, x: Matrix) -> Matrix | None:
    return x if x.ndim == 2 and x.shape[1] == width else None
