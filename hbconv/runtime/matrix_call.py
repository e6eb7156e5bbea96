"""Matrix calls: a program whose only input is a matrix, in memory used again or in fresh arrays.

They look at no more than what the program flags. ``FastCall`` and ``Model.bind`` choose among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph, Output
from hbconv.containers.analysis.guard import Guard
from hbconv.lower import FLAGGED, Feed
from hbconv.runtime.magnitudes import DOT_ENTRIES, long_dot
from hbconv.runtime.outputs.answers import answer
from hbconv.runtime.program import Program

__all__ = ["Call", "Doubts", "Matrix", "MatrixProgram", "in_fresh_arrays", "in_place"]

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
        given = np.asarray(x if columns is None else x[:, columns], dtype)
        values = run({name: given})
        if flags and values[FLAGGED].any():
            return None
        return answer(matrix.output, values[matrix.method])

    return call
