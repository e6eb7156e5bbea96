"""DuckDB: models as functions of SQL."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hbconv.engines import as_column, scorer_of
from hbconv.names import unknown

if TYPE_CHECKING:
    from hbconv.model import Model
    from hbconv.scorer import Scorer

__all__ = ["create_function"]


def create_function(
    connection: Any,
    name: str,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
) -> None:
    """Make a function of SQL, with a parameter for each column of the model, in their order.

    It takes Arrow columns of some thousand rows a call. NULL is a missing value for the model.
    One column of answers is a value, several are a STRUCT.

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
        DuckDB casts what a query passes to them.

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
    """
    score = scorer_of(model, methods)
    given = _given(score, types or {})
    connection.create_function(
        name,
        _function(score, given),
        _duckdb_types(given),
        _answer_type(score.schema(given)),
        type="arrow",
        null_handling="special",
    )


def _given(score: Scorer, types: Mapping[str, Any]) -> Any:
    """Return the schema of the parameters."""
    fields = {field.name: field for field in score.inputs()}
    for name in types:
        if name not in fields:
            raise unknown("column", name, fields)
    return pa.schema([one.with_type(types.get(name, one.type)) for name, one in fields.items()])


def _function(score: Scorer, given: Any) -> Callable[..., Any]:
    """Return the function; DuckDB counts the parameters of its signature."""

    def call(*columns: Any) -> Any:
        arrays = [
            one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one for one in columns
        ]
        return as_column(score(pa.RecordBatch.from_arrays(arrays, names=given.names)))

    kind = inspect.Parameter.POSITIONAL_ONLY
    counted = [inspect.Parameter(f"c{i}", kind) for i in range(len(given))]
    call.__signature__ = inspect.Signature(counted)  # type: ignore[attr-defined]
    return call


def _duckdb_types(schema: Any) -> list[Any]:
    import duckdb

    return list(duckdb.from_arrow(schema.empty_table()).types)


def _answer_type(schema: Any) -> Any:
    import duckdb

    types = _duckdb_types(schema)
    if len(types) == 1:
        return types[0]
    return duckdb.struct_type(dict(zip(schema.names, types, strict=True)))
