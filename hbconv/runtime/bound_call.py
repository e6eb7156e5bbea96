"""Bound calls: those of ``Model.bind``, which look at no values.

A call for matrices computes in memory that it uses again, or in fresh arrays. A call for tables
reads them as all calls do, but for one row, which has a reader of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.base import Bound
from hbconv.containers import Graph
from hbconv.errors import InputError, OptionError
from hbconv.runtime.call import answered
from hbconv.runtime.inputs.arrays import numeric
from hbconv.runtime.inputs.matrices import read_matrix
from hbconv.runtime.inputs.read import is_table, read_table
from hbconv.runtime.inputs.reading import reads_rows
from hbconv.runtime.inputs.records import is_nothing
from hbconv.runtime.inputs.table import Reads, Table
from hbconv.runtime.matrix_call import MatrixProgram, in_fresh_arrays, in_place
from hbconv.runtime.outputs.answers import answer, whole
from hbconv.runtime.program import Program
from hbconv.runtime.programs import Programs
from hbconv.runtime.row_call import RowCall

__all__ = ["bind_call", "bind_tables"]

NO_SPARSE = "X is a sparse matrix, and this call was bound for arrays. Give X.toarray()."
Matrix = npt.NDArray[Any]
Call = Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class TableCall:
    """A method for tables in the dtypes of one program, unchecked.

    Parameters
    ----------
    graph : Graph
        As parsed.
    reads : Reads
    method : str
    program : Program
        Without its checks.
    dtypes : tuple of str
        Of the columns that the program reads.
    rows : int or None
        Rows of each table; None for any number.
    """

    graph: Graph
    reads: Reads
    method: str
    program: Program
    dtypes: tuple[str, ...]
    rows: int | None

    def __call__(self, x: Any) -> Any:
        """Answer as the method does."""
        program, table = self.find_program(read_table(x, self.reads))
        output = self.graph.outputs[self.method].for_rows(sparse=False)
        return whole(output, answered(output.in_parts, program, self.method, table))

    def find_program(self, table: Table) -> tuple[Program, Table]:
        """Return the program, and the table in its dtypes; raise InputError if it does not fit."""
        if self.rows not in (None, table.rows):
            raise InputError(f"X has {table.rows} rows; this call was bound for {self.rows}.")
        if hasattr(table.matrix, "tocsr"):
            raise InputError(NO_SPARSE)
        for column in sorted(self.reads.numbers) if table.rows else ():
            _require_holds(table.dtypes[column], self.dtypes[column], self.reads.where(column))
        return self.program, table.converted(self.dtypes)


def bind_call(
    programs: Programs, method: str, dtypes: tuple[str, ...], rows: int | None, tables: Call | None
) -> Call:
    """Return a call that looks at no values, for rows of one number, or of any.

    Parameters
    ----------
    programs : Programs
    method : str
    dtypes : tuple of str
    rows : int or None
    tables : callable or None
        Answers what is no array.

    Raises
    ------
    OptionError
        The program reads other things than columns of numbers and categories.
    """
    matrix = MatrixProgram.of(programs.program((method,), dtypes), programs.parsed, method)
    if matrix is None:
        return _required(tables)
    bound = None if rows is None else matrix.program.artifact.bind(rows)
    shape = (rows, matrix.width)
    if bound is None or rows is None:
        dtype = np.dtype(matrix.feed.dtype)
        return _fitted(in_fresh_arrays(matrix), shape, dtype, tables)
    values = bound.outputs[method]
    lasting = answer(matrix.output, values)
    if matrix.columns is None and type(lasting) is np.ndarray and np.shares_memory(lasting, values):
        return _with_lasting_answer(bound, matrix.feed.name, (rows, matrix.width), lasting, tables)
    decode = partial(answer, matrix.output)
    call = in_place(matrix, bound, rows, decode, [0])
    return _fitted(call, shape, np.dtype(matrix.feed.dtype), tables)


def _required(tables: Call | None) -> Call:
    if tables is None:
        raise OptionError(
            "A call can be bound for columns of numbers and categories; this model reads text by "
            "its words, or rows that are no table."
        )
    return tables


def bind_tables(
    programs: Programs, reads: Reads, method: str, dtypes: tuple[str, ...], rows: int | None
) -> Call | None:
    """Return a call for tables that looks at no values; None if the model reads none by columns.

    A model of numbers that was fitted without names takes matrices.
    """
    graph = programs.parsed
    conventions = graph.schema.conventions
    if reads.entries or conventions.items or conventions.sequence:
        return None
    if not graph.schema.named and not reads.text:
        return None
    program = programs.program((method,), dtypes).unchecked()
    tables = TableCall(graph, reads, method, program, dtypes, rows)
    if rows not in (None, 1):
        return tables
    return RowCall(graph, reads, method, tables, tables.find_program)


def _with_lasting_answer(
    bound: Bound, name: str, shape: tuple[int, int], lasting: Matrix, tables: Call | None
) -> Call:
    """Return a call for fitting matrices whose answer lies in the same array each time."""
    given = bound.inputs[name]
    run = bound.run
    record = bound.record(shape[0])
    dtype = given.dtype
    ndarray = np.ndarray
    turn = 0

    def call(x: Any, kept: Bound = bound) -> Any:  # noqa: ARG001
        nonlocal turn
        if type(x) is not ndarray or x.shape != shape or x.dtype is not dtype:
            if tables is not None and is_table(x):
                return tables(x)
            x = _fitting(x, shape, dtype)
        while True:
            turn = mine = turn + 1
            given[...] = x
            run(record)
            if turn == mine:
                return lasting

    return call


def _fitted(
    call: Call, shape: tuple[int | None, int], dtype: np.dtype[Any], tables: Call | None
) -> Call:
    """Return a call that makes matrices fit, or raises InputError."""
    rows, width = shape

    def fitted(x: Any) -> Any:
        plain = type(x) is np.ndarray and x.dtype is dtype and x.ndim == 2
        if not plain or x.shape[1] != width or rows not in (None, len(x)):
            if tables is not None and is_table(x):
                return tables(x)
            x = _fitting(x, shape, dtype)
        return call(x)

    return fitted


@reads_rows
def _fitting(x: Any, shape: tuple[int | None, int], dtype: np.dtype[Any]) -> Matrix:
    """Return x as a matrix of this shape whose numbers the dtype holds, or raise InputError.

    Otherwise numpy would repeat rows, or cut numbers off.
    """
    rows, width = shape
    matrix = np.empty((0, width), dtype) if is_nothing(x) else read_matrix(x)
    if not isinstance(matrix, np.ndarray):
        raise InputError(NO_SPARSE)
    if matrix.shape != (len(matrix) if rows is None else rows, width):
        raise InputError(
            f"X has the shape {matrix.shape}; this call was bound for "
            f"({'any' if rows is None else rows}, {width})."
        )
    numbers = numeric(matrix, "X")
    _require_holds(numbers.dtype.name, dtype.name, "X")
    return numbers


def _require_holds(given: str, bound: str, where: str) -> None:
    """Refuse a dtype whose numbers another one would cut off."""
    if not np.can_cast(given, bound, "same_kind"):
        raise InputError(
            f"{where} has dtype {given}; this call was bound for {bound}, which would cut numbers "
            f"off. Bind it with dtype={given!r}."
        )
