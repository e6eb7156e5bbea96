"""Memory: programs bound to memory that calls use again, and the one loop in which they take turns.

Each thread has memory of its own. A signal handler or a finalizer may call in the midst of another
call: it uses the same memory and takes the next turn. The other call sees so, and begins again.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Artifact, Bound
from hbconv.containers.guard import Guard
from hbconv.lower import FLAGGED
from hbconv.runtime.magnitudes import DOT_ENTRIES, long_dot

__all__ = ["UNUSUAL", "Buffers", "Call", "Fit", "Memory", "Scan", "remember"]

MOST_KINDS = 256
"""Kinds of rows that are remembered: clients choose them."""
UNUSUAL = (KeyError, OverflowError, TypeError, ValueError, struct.error)
"""What is raised where cells do not fit the inputs that their kind was planned for."""

Call = Callable[[Any], Any]
IsFlagged = Callable[[], Any] | None
"""Asks whether the program flagged a row; None where it need not be asked."""


@dataclass(frozen=True, eq=False)
class Scan:
    """How a call finds out that its rows need no second look.

    Parameters
    ----------
    of_ordinary : callable, optional
        Asks for flags on ordinary rows; None where these need no second look.
    of_others : callable, optional
        Asks for flags on other rows; None where these need a second look in any case.
    square : float, optional
        Largest sum of squares of ordinary rows: none of their values is large or NaN. None where
        all rows count as ordinary.
    dot : callable
        Sums the squares of a matrix.
    """

    of_ordinary: IsFlagged = None
    of_others: IsFlagged = None
    square: float | None = None
    dot: Callable[[Any, Any], float] = np.vdot  # which does not warn of large values

    @staticmethod
    def of_row(flags: npt.NDArray[np.bool_] | None) -> Scan:
        """Ask for the flag of one row, which takes less time than a sum of squares does."""
        return Scan(None if flags is None else flags.item)

    @staticmethod
    def of_matrix(guard: Guard, flags: npt.NDArray[np.bool_] | None, entries: int) -> Scan:
        """Choose by what the program answers, for matrices of so many entries."""
        is_flagged = None if flags is None else flags.any
        square = guard.bound**2 if guard.bound else None
        dot = long_dot if entries > DOT_ENTRIES else np.vdot
        if guard.looks_at_rows:
            return Scan(is_flagged, None, square, dot)
        if guard.inside:
            return Scan(is_flagged)
        return Scan(None, is_flagged, square, dot)


class Fit(NamedTuple):
    """Matrices that a call takes as they are, and what answers all else."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    otherwise: Call


@dataclass(frozen=True, eq=False)
class Buffers:
    """A bound program, and the number of turns taken in its memory."""

    bound: Bound
    turns: list[int]

    @staticmethod
    def of(artifact: Artifact, rows: int) -> Buffers | None:
        """Bind a program to memory for so many rows; None where that saves no time."""
        bound = artifact.bind(rows)
        return None if bound is None else Buffers(bound, [0])

    def flags(self, guard: Guard, rows: int) -> npt.NDArray[np.bool_] | None:
        """Return where the program flags rows, if it does."""
        return self.bound.outputs[FLAGGED][:rows] if guard.flags_rows else None

    def call(
        self,
        rows: int,
        values: npt.NDArray[Any],
        fill: npt.NDArray[Any] | Sequence[Callable[[Any], Any]],
        decode: Call | None,
        scan: Scan,
        fit: Fit | None = None,
    ) -> Call:
        """Return a call in this memory.

        It returns None where the rows need a second look: a program flags them, they are not
        ordinary, or they do not fit.

        Parameters
        ----------
        rows : int
        values : ndarray
            What the program computes, in this memory.
        fill : ndarray or sequence of callable
            The only input, which takes matrices as they are; or what write cells to the inputs,
            and raise one of ``UNUSUAL`` for others.
        decode : callable, optional
            Makes the answer of the values. None: they are the answer, which the next call changes.
        scan : Scan
        fit : Fit, optional
            None where the caller gives nothing else.
        """
        turns = self.turns
        run = self.bound.run
        record = self.bound.record(rows)
        of_ordinary = scan.of_ordinary
        of_others = scan.of_others
        square = scan.square
        dot = scan.dot
        ndarray = np.ndarray
        only = fill if isinstance(fill, ndarray) else None
        writes: Any = fill
        shape, dtype, otherwise = fit or (None, None, None)

        def call(x: Any, kept: Bound = self.bound) -> Any:  # noqa: ARG001
            # One row of a linear model takes 0.6 us in all, and each frame of Python 0.05 us.
            if otherwise is not None and (
                type(x) is not ndarray or x.shape != shape or x.dtype is not dtype
            ):
                return otherwise(x)
            is_flagged = of_ordinary
            if square is not None and not dot(x, x) <= square:
                if of_others is None:
                    return None
                is_flagged = of_others
            while True:
                turns[0] = turn = turns[0] + 1
                if only is not None:
                    only[...] = x
                else:
                    try:
                        for write in writes:
                            write(x)
                    except UNUSUAL:
                        return None
                run(record)
                if is_flagged is not None and is_flagged():
                    answer = None
                else:
                    answer = values if decode is None else decode(values)
                if turns[0] == turn:
                    return answer

        return call


class Memory(threading.local):
    """What each thread has for itself: calls by the kind of their rows, and bound programs."""

    def __init__(self) -> None:
        self.calls: dict[Hashable, Call] = {}
        self.buffers: dict[tuple[Artifact, int], Buffers] = {}

    def bind(self, artifact: Artifact, rows: int) -> Buffers:
        """Return the memory of a program for so many rows, one of its sizes."""
        key = (artifact, rows)
        if key not in self.buffers:
            buffers = Buffers.of(artifact, rows)
            assert buffers is not None  # noqa: S101  (sizes are those that can be bound)
            self.buffers[key] = buffers
        return self.buffers[key]


def remember(known: dict[Any, Any], kind: Hashable, value: Any) -> None:
    """Keep a value for rows of a kind, among few."""
    if len(known) >= MOST_KINDS:
        known.clear()
    known[kind] = value
