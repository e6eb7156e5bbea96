"""DuckDB: models as functions of SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hbconv.engines import as_column, as_read, scorer_of
from hbconv.errors import InputError
from hbconv.names import unknown

if TYPE_CHECKING:
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["create_function"]


def create_function(
    connection: Any,
    name: str,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
) -> None:
    """Make a function of SQL, with a parameter for each column that the model reads.

    They come in the order of fitting, or by their names: ``f(income := 9, age := 20)``. It takes
    Arrow columns of some thousand rows a call. NULL is a missing value for the model. One column of
    answers is a value, several are a STRUCT. Names of parameters are known to this connection, and
    the function to its cursors too.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
    name : str
        Of the function.
    model : Model, path or Scorer
    methods : str or sequence of str, optional
        As for ``hbconv.Scorer``.
    types : mapping of str to pyarrow.DataType, optional
        Types of parameters, by columns of the model; the others are as the model was fitted.
        Numbers and bools of other types are cast to them, where they hold the same.

    Raises
    ------
    OptionError
        ``types`` names a column that the model does not read.

    Examples
    --------
    >>> import duckdb, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> import hbconv
    >>> X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 2.0, 3.0, 1.0]})
    >>> source = LogisticRegression().fit(X, ["no", "no", "yes", "yes"])
    >>> connection = duckdb.connect()
    >>> create_function(connection, "churns", hbconv.convert(source, backend="reference"))
    >>> connection.sql("SELECT churns(a, b) FROM (VALUES (0.5, 3), (5, 1)) AS t(a, b)").fetchall()
    [('no',), ('yes',)]
    >>> connection.sql("SELECT churns(b := 1, a := true)").fetchall()
    [('no',)]
    """
    score = scorer_of(model, methods)
    parameters = _parameters(score, types or {})
    # DuckDB asks for the type before it has rows, so the model is called with none.
    answer = _answer_type(score.schema(parameters))
    _register(connection, name, _function(score, parameters), answer)
    _name_parameters(connection, name, parameters.names)


def _parameters(score: Scorer, types: Mapping[str, Any]) -> Any:
    """Return the schema of the parameters."""
    fields = {field.name: field for field in score.inputs()}
    for name in types:
        if name not in fields:
            raise unknown("column", name, fields)
    return pa.schema(
        [field.with_type(types.get(name, field.type)) for name, field in fields.items()]
    )


def _function(score: Scorer, parameters: Any) -> Callable[..., Any]:
    """Return a function of columns of any type: a signature of DuckDB's would refuse BOOLEAN."""

    def call(*columns: Any) -> Any:
        if len(columns) != len(parameters):
            raise InputError(
                f"The model reads {len(parameters)} columns: {', '.join(parameters.names)}."
            )
        arrays = [
            as_read(
                column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column, field
            )
            for column, field in zip(columns, parameters, strict=True)
        ]
        return as_column(score(pa.RecordBatch.from_arrays(arrays, names=parameters.names)))

    return call


def _register(connection: Any, name: str, function: Callable[..., Any], answer: Any) -> None:
    """Create a function, also where a removed one left the macro of its name."""
    import duckdb

    # By default DuckDB answers NULL for a row with one, and the model would not see it.
    how = {"type": "arrow", "null_handling": "special"}
    try:
        connection.create_function(name, function, None, answer, **how)
    except duckdb.CatalogException:
        connection.execute(f"DROP MACRO IF EXISTS temp.main.{_quote(name)}")
        connection.create_function(name, function, None, answer, **how)


def _name_parameters(connection: Any, name: str, columns: Sequence[str]) -> None:
    """Give the function a macro of its name: DuckDB's functions have parameters without names.

    Names that differ by their case alone are one to DuckDB, and stay without.
    """
    if len({column.lower() for column in columns}) < len(columns):
        return
    listed = ", ".join(map(_quote, columns))
    macro = f"CREATE OR REPLACE TEMP MACRO {_quote(name)}({listed})"
    connection.execute(f"{macro} AS system.main.{_quote(name)}({listed})")


def _quote(name: str) -> str:
    # SQL writes a quote within a quoted name twice.
    return '"' + name.replace('"', '""') + '"'


def _answer_type(schema: Any) -> Any:
    import duckdb

    types = list(duckdb.from_arrow(schema.empty_table()).types)
    if len(types) == 1:
        return types[0]
    return duckdb.struct_type(dict(zip(schema.names, types, strict=True)))
