"""Polars: expressions that answer rows, by ``pl.struct(columns).hbconv.predict(model)``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from hbconv.engines import as_column, scorer_of

if TYPE_CHECKING:
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["PolarsExpressions"]


@pl.api.register_expr_namespace("hbconv")
class PolarsExpressions:
    """Methods of a struct of columns; importing this file adds them to every expression.

    Each takes a model, the .hbc file of one, or a Scorer. A null is a missing value. Lazy queries
    know the type of the answers before they run: the model is asked about no rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> import hbconv
    >>> X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [4.0, 2.0, 3.0, 1.0]})
    >>> source = LogisticRegression().fit(X, ["no", "no", "yes", "yes"])
    >>> model = hbconv.convert(source, backend="reference")
    >>> rows = pl.DataFrame({"id": [1, 2], "a": [0.5, 5.0], "b": [3.0, 1.0]})
    >>> rows.select("id", pl.struct("a", "b").hbconv.predict(model)).rows()
    [(1, 'no'), (2, 'yes')]
    """

    def __init__(self, expression: pl.Expr) -> None:
        self.expression = expression

    def predict(self, model: Model | Scorer | str | os.PathLike[str]) -> pl.Expr:
        """Answer ``predict``, in a column of that name; several targets are a struct."""
        return self.score(model, "predict").alias("predict")

    def predict_proba(self, model: Model | Scorer | str | os.PathLike[str]) -> pl.Expr:
        """Answer ``predict_proba``: a struct with a field for each class."""
        return self.score(model, "predict_proba").alias("predict_proba")

    def score(
        self,
        model: Model | Scorer | str | os.PathLike[str],
        methods: str | Sequence[str] | None = None,
    ) -> pl.Expr:
        """Answer any methods, in a column that is called ``score``.

        Several columns of answers are a struct, which ``.struct.unnest()`` spreads.

        Raises
        ------
        InputError
            When the query runs: the model refuses a row, or a column is missing.
        """
        answer = partial(_answer, scorer_of(model, methods))
        return self.expression.pipe_with_dtype(partial(_elementwise, answer)).alias("score")


def _elementwise(answer: Any, expression: pl.Expr, dtype: Any) -> pl.Expr:
    """Return the expression of an answer, whose type is that of the answer to no rows."""
    # Lazy queries need the type before they run.
    kind = answer(pl.Series(dtype=dtype)).dtype
    # Each row is scored by itself, so polars may split the rows as it likes.
    return expression.map_batches(answer, return_dtype=kind, is_elementwise=True)


def _answer(score: Scorer, rows: pl.Series) -> pl.Series:
    table = rows.struct.unnest().to_arrow() if rows.dtype == pl.Struct else _one_column(rows)
    return pl.Series(as_column(_batch(score(table))))


def _one_column(rows: pl.Series) -> Any:
    return pa.table({rows.name: rows.to_arrow()})


def _batch(table: Any) -> Any:
    """Return a table as one record batch, also where it has no rows."""
    # to_batches() of a table without rows gives no batch, and so no type.
    arrays = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, names=table.schema.names)
