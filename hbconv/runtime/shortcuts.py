"""Shortcuts: a plain matrix goes straight to the compiled program, past all that reads and joins rows of other kinds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph
from hbconv.lower import DENSE, FLAGGED, Feed
from hbconv.runtime.bound import columns_read
from hbconv.runtime.inputs.table import Reads
from hbconv.runtime.outputs.answers import answer, copier
from hbconv.runtime.outputs.dataframes import library_of
from hbconv.runtime.programs import Program, Programs

__all__ = ["Shortcut", "find_shortcut"]


class _Places(NamedTuple):
    """Where so many rows are written, what computes them, and where their answers and doubts are read."""

    rows: int
    given: npt.NDArray[Any]
    run: Callable[[int, int], Any]
    address: int
    values: npt.NDArray[Any]
    doubtful: npt.NDArray[Any] | None
    turns: list[int]
    """How many turns were taken at places of this thread."""


class Shortcut:
    """A method for matrices of one dtype.

    It answers only what needs no second look: rows of numbers that no check could refuse, a few, or any where the program proves it. All else it
    leaves to a call.

    Each thread has places of its own. A call that a signal handler or a finalizer makes in the midst of another one uses the
    same places, and takes the next turn: the other sees so, and begins anew.

    Parameters
    ----------
    graph : Graph
        As parsed.
    program : Program
        The method for columns of this dtype.
    method : str
    """

    def __init__(self, graph: Graph, program: Program, method: str) -> None:
        self.artifact, self.sizes = program.artifact, program.artifact.sizes
        self.method, self.output, self.copy = (
            method,
            graph.outputs[method],
            copier(graph.outputs[method]),
        )
        self.container = graph.traits.container if method == "transform" else None
        self.width = len(graph.schema.columns)
        self.columns = columns_read(program, self.width)
        self.feed, self.most = (
            program.lowered.feeds[0],
            program.chunk if program.guard.proven and self.columns is None else 0,
        )
        self.square = program.guard.bound**2 if program.guard.bound else None
        self.guarded = bool(program.guard.inside)
        self._local = threading.local()

    def __call__(self, x: npt.NDArray[Any]) -> Any:
        """Answer, or return None where a call must."""
        try:
            places: _Places | None = self._local.places[x.shape]
        except (AttributeError, KeyError):
            places = self._find_places(x.shape)
        if self.container is not None and library_of(self.container):
            return None
        if places is None:
            return self._answer_many(x)
        # A sum of squares that is small says that no value is large or NaN; vdot does not warn of one that is not.
        if self.square is not None and not np.vdot(x, x) <= self.square:
            return None
        rows, given, run, address, values, doubtful, turns = places
        while True:
            turns[0] = turn = turns[0] + 1
            given[...] = x if self.columns is None else x[:, self.columns]
            run(rows, address)
            found = None if doubtful is not None and doubtful.any() else self.copy(values)
            if turns[0] == turn:
                return found

    def _answer_many(self, x: npt.NDArray[Any]) -> Any:
        """Answer rows that lie as the program reads them, and that it proves to be in order."""
        if (
            x.ndim != 2
            or x.shape[1] != self.width
            or not 0 < len(x) <= self.most
            or not (x.flags.c_contiguous and x.dtype.isnative)
        ):
            return None
        values = self.artifact.run({self.feed.name: x})
        return None if values[FLAGGED].any() else answer(self.output, values[self.method])

    def _find_places(self, shape: tuple[int, ...]) -> _Places | None:
        """Return the places for rows of this shape, those of the thread at hand; None for rows that a call must answer."""
        if len(shape) != 2 or shape[1] != self.width or not 0 < shape[0] <= self.sizes[-1]:
            return None
        if not hasattr(self._local, "places"):
            self._local.bounds, self._local.turns, self._local.places = {}, [0], {}
        rows, size = shape[0], next(size for size in self.sizes if shape[0] <= size)
        bounds: dict[int, Any] = self._local.bounds
        if size not in bounds:
            bounds[size] = self.artifact.bind(size)
        bound: Bound = bounds[size]
        given, doubtful = (
            bound.given[:rows],
            bound.outputs[FLAGGED][:rows] if self.guarded else None,
        )
        places = _Places(
            rows,
            given,
            bound.run,
            bound.address,
            bound.outputs[self.method][:rows],
            doubtful,
            self._local.turns,
        )
        self._local.places[shape] = places
        return places


def find_shortcut(
    graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str
) -> Shortcut | None:
    """Return the shortcut of a method that a matrix of this dtype has been given to, where there is one."""
    conventions, dtypes = graph.schema.conventions, (dtype,) * len(graph.schema.columns)
    if (
        graph.schema.named
        or reads.text
        or reads.entries
        or conventions.tables_only
        or conventions.items
        or conventions.sequence
    ):
        return None
    if ((method,), dtypes, DENSE) not in programs.compiled:  # such as ints that are read as floats
        return None
    program = programs.program((method,), dtypes)
    plain = (
        len(program.lowered.feeds) == 1
        and isinstance(program.lowered.feeds[0], Feed)
        and not program.lowered.sparse
    )
    guard = program.guard
    if not plain or guard.host or guard.warnings or not program.artifact.sizes:
        return None
    return Shortcut(graph, program, method)
