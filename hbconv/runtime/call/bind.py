"""Bound calls: methods without checks, which look at no values.

Matrices have a call of their own, in memory that it uses again or in fresh arrays. Tables come to
the same readers as those of other methods.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError, OptionError
from hbconv.runtime.call.column_reader import SOME, ColumnReader
from hbconv.runtime.call.matrix_reader import MatrixReader
from hbconv.runtime.call.memory import Buffers, Call, Scan, make_lasting_call
from hbconv.runtime.call.page import CallContext, Method, answer_parts
from hbconv.runtime.call.row_reader import CellReader
from hbconv.runtime.inputs.arrays import numeric, read_matrix, reads_rows
from hbconv.runtime.inputs.read import is_table, read_table
from hbconv.runtime.inputs.records import is_nothing
from hbconv.runtime.inputs.table import Table
from hbconv.runtime.outputs.answers import answer, decoder, whole
from hbconv.runtime.program import Program

__all__ = ["bind_method"]

NO_SPARSE = "X is a sparse matrix, and this call was bound for arrays. Give X.toarray()."


def bind_method(
    model: CallContext, arrays: CallContext, method: str, rows: int | None, dtype: str | None
) -> Call:
    """Return a call of a method that looks at no values, for rows of one number, or of any.

    Parameters
    ----------
    model : CallContext
    arrays : CallContext
        The model that reads arrays: the same, or that of codes of categories.
    method : str
    rows : int or None
    dtype : str or None
        That all numbers are converted to; None for those of the model.

    Raises
    ------
    OptionError
        The program reads other things than columns of numbers and categories.
    """
    tables = _bind_tables(model, method, _dtypes(model, dtype), rows)
    programs = arrays.programs
    program = programs.program((method,), _dtypes(arrays, dtype))
    reader = MatrixReader.of(program, programs.parsed, method)
    if reader is not None:
        return _bind_matrices(reader, rows, tables)
    if tables is not None:
        return tables
    raise OptionError(
        "A call can be bound for columns of numbers and categories; this model reads text by its "
        "words, or rows that are no table."
    )


def _dtypes(model: CallContext, dtype: str | None) -> tuple[str, ...]:
    if dtype is None:
        return model.dtypes
    columns = range(len(model.reads.schema.columns))
    return tuple(dtype if i in model.reads.numbers else "string" for i in columns)


def _bind_tables(
    model: CallContext, method: str, dtypes: tuple[str, ...], rows: int | None
) -> Call | None:
    """Return a call for tables; None if the model reads none by columns.

    A model of numbers that was fitted without names takes matrices.
    """
    schema = model.reads.schema
    if model.reads.entries or schema.conventions.takes_column:
        return None
    if not schema.named and not model.reads.text:
        return None
    return UncheckedMethod(model, method, dtypes, rows).answer


def _bind_matrices(reader: MatrixReader, rows: int | None, tables: Call | None) -> Call:
    """Return a call for matrices, and for tables by another call."""
    dtype = np.dtype(reader.feed.dtype)
    width = reader.width

    def otherwise(x: Any) -> Any:
        if tables is not None and is_table(x):
            return tables(x)
        return call(_fit(x, rows, width, dtype))

    def fitting(x: Any) -> Any:
        fits = type(x) is np.ndarray and x.dtype is dtype and x.ndim == 2 and x.shape[1] == width
        return compute(x) if fits and rows in (None, len(x)) else otherwise(x)

    call: Call = fitting
    bound = None if rows is None else reader.program.artifact.bind(rows)
    if bound is None or rows is None:
        compute = reader.in_fresh_arrays()
        return call
    values = bound.outputs[reader.method]
    fill = reader.fill(bound, rows)
    lasting = whole(reader.output, answer(reader.output, values))
    lasts = type(lasting) is np.ndarray and np.shares_memory(lasting, values)
    if lasts and isinstance(fill, np.ndarray):
        call = make_lasting_call(bound, fill, lasting, otherwise)
        return call
    decode = (lambda _: lasting) if lasts else decoder(reader.output)
    compute = Buffers(bound, [0]).call(rows, values, fill, decode, Scan())
    return call


@reads_rows
def _fit(x: Any, rows: int | None, width: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return x in this shape and dtype, which holds its numbers, or raise InputError.

    Otherwise numpy would repeat rows, or cut numbers off.
    """
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
    # An unpickled array has an equal dtype that is another object; a view has this one.
    return numbers.astype(dtype, copy=False).view(dtype)


def _require_holds(dtype: str, bound: str, where: str) -> None:
    """Refuse a dtype whose numbers another one would cut off."""
    if not np.can_cast(dtype, bound, "same_kind"):
        raise InputError(
            f"{where} has dtype {dtype}; this call was bound for {bound}, which would cut numbers "
            f"off. Bind it with dtype={dtype!r}."
        )


class UncheckedMethod(Method):
    """A method for tables in the dtypes of one program, unchecked.

    Parameters
    ----------
    model : CallContext
    name : str
    dtypes : tuple of str
        Of the columns that the program reads.
    rows : int or None
        Rows of each table; None for any number.
    """

    def __init__(
        self, model: CallContext, name: str, dtypes: tuple[str, ...], rows: int | None
    ) -> None:
        self._program = model.programs.program((name,), dtypes).unchecked()
        self._dtypes = dtypes
        self._rows = rows
        super().__init__(model, name)

    def ordinary(self, x: Any, library: str = "") -> Any:  # noqa: ARG002
        """Answer a table as an array."""
        program, table = self.find_program(read_table(x, self._reads))
        output = self._output.for_rows(sparse=False)
        (outputs,) = answer_parts([(None, program, table)], {self._name: output})
        return whole(output, outputs)

    def find_program(self, table: Table) -> tuple[Program, Table]:
        """Return the program, and the table in its dtypes; raise InputError if it does not fit."""
        if self._rows not in (None, table.rows):
            raise InputError(f"X has {table.rows} rows; this call was bound for {self._rows}.")
        if hasattr(table.matrix, "tocsr"):
            raise InputError(NO_SPARSE)
        # No rows may have any dtypes, as an empty list has.
        for column in sorted(self._reads.numbers) if table.rows else ():
            _require_holds(table.dtypes[column], self._dtypes[column], self._reads.where(column))
        return self._program, table.converted(self._dtypes)

    def _plan_matrices(self, dtype: np.dtype[Any]) -> None:  # noqa: ARG002
        """Matrices have a call of their own; those that come here hold texts."""
        return

    def _find_row_reader(self) -> CellReader | None:
        return super()._find_row_reader() if self._rows in (None, 1) else None

    def _find_column_reader(self) -> ColumnReader | None:
        rows = SOME if self._rows is None else range(self._rows, self._rows + 1)
        return ColumnReader(self._reads, self._name, self._output, rows)
