"""Bound calls: one method for matrices of one dtype, of which no more than the shape and the dtype is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Output
from hbconv.errors import InputError, OptionError
from hbconv.lower import Feed
from hbconv.runtime.inputs.arrays import numeric
from hbconv.runtime.inputs.matrices import read_matrix
from hbconv.runtime.inputs.reading import reads_rows
from hbconv.runtime.outputs.answers import answer
from hbconv.runtime.programs import Program, Programs

__all__ = ["bound_call", "columns_read"]

Matrix = npt.NDArray[Any]
BoundCall = Callable[[Matrix], Any]


def bound_call(
    programs: Programs, method: str, dtypes: tuple[str, ...], rows: int | None
) -> BoundCall:
    """Return a call for matrices of so many rows, or any, over columns of one dtype.

    Raises
    ------
    OptionError
        The program reads more than one matrix of numbers.
    """
    program, output = programs.program((method,), dtypes), programs.parsed.outputs[method]
    width = len(dtypes)
    columns = columns_read(program, width)
    bound = None if rows is None else program.artifact.bind(rows)
    if bound is None:
        return _fresh(program, output, method, columns, (rows, width))
    return _in_place(bound, output, method, columns, (len(bound.given), width))


def columns_read(program: Program, width: int) -> list[int] | None:
    """Return the columns of a matrix that are the program's only input; None for all."""
    feed = program.lowered.feeds[0]
    if len(program.lowered.feeds) > 1 or not isinstance(feed, Feed) or program.lowered.sparse:
        raise OptionError(
            "A call can be bound for a matrix of numbers of one dtype alone; this model reads text, or columns of several dtypes."
        )
    return None if feed.columns == tuple(range(width)) else list(feed.columns)


def _fresh(
    program: Program,
    output: Output,
    method: str,
    columns: list[int] | None,
    shape: tuple[int | None, int],
) -> BoundCall:
    feed = program.lowered.feeds[0]
    dtype, (rows, width) = np.dtype(feed.dtype), shape

    def call(x: Matrix) -> Any:
        if (
            type(x) is not np.ndarray
            or x.dtype is not dtype
            or x.ndim != 2
            or x.shape[1] != width
            or rows not in (None, len(x))
        ):
            x = _fitting(x, shape, dtype)
        given = np.ascontiguousarray(x if columns is None else x[:, columns], dtype)
        return answer(output, program.artifact.run({feed.name: given})[method])

    return call


def _in_place(
    bound: Bound, output: Output, method: str, columns: list[int] | None, shape: tuple[int, int]
) -> BoundCall:
    given, run, rows, address, values = (
        bound.given,
        bound.run,
        len(bound.given),
        bound.address,
        bound.outputs[method],
    )
    lasting, dtype, turn, ndarray = answer(output, values), given.dtype, 0, np.ndarray

    def call(x: Matrix, kept: Bound = bound) -> Any:  # noqa: ARG001
        nonlocal turn
        x = _fitting(x, shape, dtype)
        while True:
            turn = mine = turn + 1
            given[...] = x if columns is None else x[:, columns]
            run(rows, address)
            found = answer(output, values)
            if turn == mine:
                return found

    def plain_call(x: Matrix, kept: Bound = bound) -> Any:  # noqa: ARG001
        nonlocal turn
        if type(x) is not ndarray or x.shape != shape or x.dtype is not dtype:
            x = _fitting(x, shape, dtype)
        while True:
            turn = mine = turn + 1
            given[...] = x
            run(rows, address)
            if turn == mine:
                return lasting

    return (
        plain_call
        if columns is None and isinstance(lasting, np.ndarray) and np.shares_memory(lasting, values)
        else call
    )


@reads_rows
def _fitting(x: Any, shape: tuple[int | None, int], dtype: np.dtype[Any]) -> Matrix:
    """Return x as a matrix of this shape whose numbers the dtype holds, or raise InputError: numpy would broadcast it, or cut numbers off."""
    rows, width = shape
    matrix = read_matrix(x)
    if not isinstance(matrix, np.ndarray):
        raise InputError(
            "X is a sparse matrix, and this call was bound for arrays. Give X.toarray()."
        )
    if matrix.shape != (len(matrix) if rows is None else rows, width):
        raise InputError(
            f"X has the shape {matrix.shape}; this call was bound for ({'any' if rows is None else rows}, {width})."
        )
    numbers = numeric(matrix, "X")
    if not np.can_cast(numbers.dtype, dtype, "same_kind"):
        raise InputError(
            f"X has dtype {matrix.dtype}; this call was bound for {dtype}, which would cut numbers off. Bind it with dtype={numbers.dtype.name!r}."
        )
    return numbers
