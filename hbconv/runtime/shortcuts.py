"""Shortcuts: a few rows of a plain matrix go straight to the compiled program, past all that reads and joins rows of other kinds."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph
from hbconv.lower import DENSE, DOUBTFUL, Feed
from hbconv.runtime.answers import copier
from hbconv.runtime.bound import columns_read
from hbconv.runtime.checks import Checker
from hbconv.runtime.frames import library_of
from hbconv.runtime.programs import Program, Programs
from hbconv.runtime.rows import Reads

__all__ = ["Shortcut", "find_shortcut"]


class Shortcut:
    """A method for matrices of one dtype.

    It answers only what needs no second look: a few rows of numbers that no check could refuse. All else it leaves to a call.

    Parameters
    ----------
    graph : Graph
        As parsed.
    program : Program
        The method for columns of this dtype.
    check : Checker
    method : str
    """

    def __init__(self, graph: Graph, program: Program, check: Checker, method: str) -> None:
        self.artifact, self.sizes = program.artifact, program.artifact.sizes
        self.method, self.copy = method, copier(graph.outputs[method])
        self.container = graph.traits.container if method == "transform" else None
        self.width = len(graph.schema.columns)
        self.columns = columns_read(program, self.width)
        self.square = check.bound**2 if check.floats else None
        self.guarded = DOUBTFUL in program.lowered.program.outputs
        self._local = threading.local()

    def __call__(self, x: npt.NDArray[Any]) -> Any:
        """Answer, or return None where a call must."""
        if x.ndim != 2 or x.shape[1] != self.width or not 0 < len(x) <= self.sizes[-1]:
            return None
        # A sum of squares that is small says that no value is large or NaN; vdot does not warn of one that is not.
        if self.square is not None and not np.vdot(x, x) <= self.square:
            return None
        if self.container is not None and library_of(self.container):
            return None
        rows = len(x)
        bound = self._bound(next(size for size in self.sizes if rows <= size))
        bound.given[:rows] = x if self.columns is None else x[:, self.columns]
        bound.run(rows, bound.address)
        if self.guarded and bound.outputs[DOUBTFUL][:rows].any():
            return None
        return self.copy(bound.outputs[self.method][:rows])

    def _bound(self, size: int) -> Bound:
        """Return the program with places for so many rows, those of the thread at hand."""
        if not hasattr(self._local, "bounds"):
            self._local.bounds = {}
        bounds: dict[int, Any] = self._local.bounds
        if size not in bounds:
            bounds[size] = self.artifact.bind(size)
        bound: Bound = bounds[size]
        return bound


def find_shortcut(graph: Graph, programs: Programs, reads: Reads, method: str, dtype: str) -> Shortcut | None:
    """Return the shortcut of a method that a matrix of this dtype has been given to, where there is one."""
    conventions, dtypes = graph.schema.conventions, (dtype,) * len(graph.schema.columns)
    if graph.schema.named or reads.text or reads.entries or conventions.tables_only or conventions.items or conventions.sequence:
        return None
    if ((method,), dtypes, DENSE) not in programs.compiled:  # such as ints that are read as floats
        return None
    program, check = programs.program((method,), dtypes), programs.checker(dtypes)
    judged = DOUBTFUL in program.lowered.program.outputs or not check.rest.messages
    plain = len(program.lowered.feeds) == 1 and isinstance(program.lowered.feeds[0], Feed) and not program.lowered.sparse
    if not (judged and plain) or check.warnings.messages or not program.artifact.sizes:
        return None
    return Shortcut(graph, program, check, method)
