"""Memory: programs bound to memory that calls use again, and the loop in which they take turns.

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
from hbconv.runtime.checks import DOT_ENTRIES, long_dot

__all__ = [
    "UNUSUAL",
    "Buffers",
    "Call",
    "Memory",
    "Scan",
    "make_lasting_call",
    "remember",
    "writes_bits_of",
]

MOST_KINDS = 256
"""Kinds of rows that are remembered: clients choose them."""
UNUSUAL = (KeyError, OverflowError, TypeError, ValueError, struct.error)
"""What is raised where cells do not fit the inputs that their kind was planned for."""

Call = Callable[[Any], Any]
IsFlagged = Callable[[], Any] | None
"""Asks whether the program flagged a row; None where it need not be asked."""


class Scan(NamedTuple):
    """How a call finds out that its rows need no second look; by default none does.

    Ordinary rows have a sum of squares up to ``square``: no value is large or NaN. Where it is
    None, all rows count as ordinary. Where ``of_others`` is None, others need a second look.
    """

    of_ordinary: IsFlagged = None
    of_others: IsFlagged = None
    square: float | None = None
    dot: Callable[[Any, Any], float] = np.vdot  # which does not warn of large values

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


@dataclass(frozen=True, eq=False)
class Buffers:
    """A bound program, and the number of turns taken in its memory."""

    bound: Bound
    turns: list[int]

    def flags(self, guard: Guard, rows: int) -> npt.NDArray[np.bool_] | None:
        """Return where the program flags rows, if it does."""
        return self.bound.outputs[FLAGGED][:rows] if guard.flags_rows else None

    def call(
        self,
        rows: int,
        values: npt.NDArray[Any],
        fill: npt.NDArray[Any] | Sequence[Call],
        decode: Call,
        scan: Scan,
    ) -> Call:
        """Return a call in this memory, which returns None where rows need a second look.

        Parameters
        ----------
        rows : int
        values : ndarray
            What the program computes, in this memory.
        fill : ndarray or sequence of callable
            The only input, which takes matrices as they are; or what write cells to the inputs,
            and raise one of ``UNUSUAL`` for others.
        decode : callable
            Makes the answer of the values.
        scan : Scan
        """
        turns = self.turns
        run = self.bound.run
        record = self.bound.record(rows)
        of_ordinary, of_others, square, dot = scan
        matrix = fill if isinstance(fill, np.ndarray) else None
        writes: Any = fill

        # The record holds bare addresses, so that ``kept`` keeps the memory alive.
        def call(x: Any, kept: Bound = self.bound) -> Any:  # noqa: ARG001
            # One row of a linear model takes 0.6 us in all, and each frame of Python 0.05 us.
            is_flagged = of_ordinary
            if square is not None and not dot(x, x) <= square:  # "not <=" holds for NaN too
                if of_others is None:
                    return None
                is_flagged = of_others
            while True:
                turns[0] = turn = turns[0] + 1
                if matrix is not None:
                    matrix[...] = x
                else:
                    try:
                        for write in writes:
                            write(x)
                    except UNUSUAL:
                        return None
                run(record)
                answer = None if is_flagged is not None and is_flagged() else decode(values)
                if turns[0] == turn:
                    return answer

        return call


def make_lasting_call(
    bound: Bound, rows: npt.NDArray[Any], answer: npt.NDArray[Any], otherwise: Call
) -> Call:
    """Return a call that copies matrices to an input, and returns the same array each time.

    ``otherwise`` answers what is no matrix of the shape and dtype of the input.
    """
    run = bound.run
    record = bound.record(len(rows))
    shape = rows.shape
    dtype = np.dtype(rows.dtype.name)  # the object that numpy gives to new arrays
    ndarray = np.ndarray
    turn = 0

    # ``Buffers.call`` with its branches takes 600 instructions more, a tenth of a row's time.
    def call(x: Any, kept: Bound = bound) -> Any:  # noqa: ARG001
        nonlocal turn
        if type(x) is not ndarray or x.shape != shape or x.dtype is not dtype:
            return otherwise(x)
        while True:
            turn = own_turn = turn + 1
            rows[...] = x
            run(record)
            if turn == own_turn:
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
            bound = artifact.bind(rows)
            assert bound is not None  # noqa: S101  (sizes are those that can be bound)
            self.buffers[key] = Buffers(bound, [0])
        return self.buffers[key]


def remember(memo: dict[Any, Any], kind: Hashable, value: Any) -> None:
    """Keep a value for rows of a kind, among few."""
    if len(memo) >= MOST_KINDS:
        memo.clear()
    memo[kind] = value


def writes_bits_of(
    writer: Callable[[Any], Callable[[Any], None]], values: Any, fed: npt.NDArray[Any]
) -> bool:
    """Whether a writer writes the very bits of an input that was read the ordinary way."""
    written = np.zeros(fed.shape, fed.dtype)
    writer(written)(values)
    # Bytes tell -0.0 from 0.0, and NaN equals itself.
    return written.tobytes() == fed.tobytes()
