"""Bound calls: one method for matrices of one dtype, without a look at what is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Output
from hbconv.errors import OptionError
from hbconv.lower import Feed
from hbconv.runtime.answers import answer
from hbconv.runtime.programs import Program, Programs

__all__ = ["bound_call", "columns_read"]

BoundCall = Callable[[npt.NDArray[Any]], Any]


def bound_call(programs: Programs, method: str, dtypes: tuple[str, ...], rows: int | None) -> BoundCall:
    """Return a call for matrices of so many rows, or any, over columns of one dtype.

    Raises
    ------
    OptionError
        The program reads more than one matrix of numbers.
    """
    program, output = programs.program((method,), dtypes), programs.parsed.outputs[method]
    columns = columns_read(program, len(dtypes))
    bound = None if rows is None else program.artifact.bind(rows)
    return _fresh(program, output, method, columns) if bound is None else _in_place(bound, output, method, columns)


def columns_read(program: Program, width: int) -> list[int] | None:
    """Return the columns of a matrix that are the program's only input; None for all."""
    feed = program.lowered.feeds[0]
    if len(program.lowered.feeds) > 1 or not isinstance(feed, Feed) or program.lowered.sparse:
        raise OptionError("A call can be bound for a matrix of numbers of one dtype alone; this model reads text, or columns of several dtypes.")
    return None if feed.columns == tuple(range(width)) else list(feed.columns)


def _fresh(program: Program, output: Output, method: str, columns: list[int] | None) -> BoundCall:
    feed = program.lowered.feeds[0]

    def call(x: npt.NDArray[Any]) -> Any:
        given = np.ascontiguousarray(x if columns is None else x[:, columns], feed.dtype)
        return answer(output, program.artifact.run({feed.name: given})[method])

    return call


def _in_place(bound: Bound, output: Output, method: str, columns: list[int] | None) -> BoundCall:
    given, run, rows, address, values = bound.given, bound.run, len(bound.given), bound.address, bound.outputs[method]
    lasting = answer(output, values)

    def call(x: npt.NDArray[Any], kept: Bound = bound) -> Any:  # noqa: ARG001
        given[...] = x if columns is None else x[:, columns]
        run(rows, address)
        return answer(output, values)

    def plain_call(x: npt.NDArray[Any], kept: Bound = bound) -> Any:  # noqa: ARG001
        given[...] = x
        run(rows, address)
        return lasting

    return plain_call if columns is None and isinstance(lasting, np.ndarray) and np.shares_memory(lasting, values) else call
