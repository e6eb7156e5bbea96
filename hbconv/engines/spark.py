"""Spark: answers by ``mapInArrow``, and models as functions of SQL."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hbconv.engines import as_column, as_read, scorer_of, travelling

if TYPE_CHECKING:
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["create_function", "score_batches", "score_rows"]


def score_rows(
    frame: Any,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
    reasons: str | None = None,
) -> Any:
    """Answer a frame's rows lazily: columns that are kept, then those of the answers.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    model : Model, path or Scorer
        A path must be one that all workers can read.
    methods : str or sequence of str, optional
        As for ``hbconv.Scorer``.
    keep : sequence of str
    reasons : str, optional
        As for ``hbconv.Scorer``: a column that tells why a row is refused.

    Returns
    -------
    pyspark.sql.DataFrame

    Raises
    ------
    OptionError
        The model lacks a method. A refused row ends the job when it runs, without ``reasons``.
    """
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    score = scorer_of(model, methods, keep, reasons)
    answers = from_arrow_schema(score.schema(to_arrow_schema(frame.schema)))
    return frame.mapInArrow(travelling(partial(score_batches, score)), answers)


def score_batches(score: Scorer, batches: Iterable[Any]) -> Iterator[Any]:
    """Answer Arrow batches one after another: what a task of Spark runs on its partition."""
    for batch in batches:
        yield score(batch)


def create_function(
    spark: Any,
    name: str,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
) -> Any:
    """Make a function of SQL, with a parameter for each column that the model reads, in order.

    NULL is a missing value for the model. Numbers and bools are cast to the types of fitting, where
    these hold them. One column of answers is a value, several are a STRUCT. It needs Spark 4.1,
    which has functions of Arrow arrays.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
    name : str
        Of the function.
    model : Model, path or Scorer
    methods : str or sequence of str, optional
        As for ``hbconv.Scorer``.

    Returns
    -------
    function
        The same, for columns: ``leaves("age", "income")``.
    """
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_schema

    score = scorer_of(model, methods)
    answers = from_arrow_schema(score.schema())
    kind = answers[0].dataType if len(answers) == 1 else answers
    return spark.udf.register(name, arrow_udf(_function(score), kind))


def _function(score: Scorer) -> Callable[..., Any]:
    import pyarrow as pa

    call = travelling(partial(_answer, score))
    # Spark reads the kind of a function from its annotations, which are texts in this file.
    call.__annotations__ = {"given": pa.Array, "return": pa.Array}
    return call


def _answer(score: Scorer, *columns: Any) -> Any:
    """Answer the columns that the model reads."""
    import pyarrow as pa

    parameters = score.inputs()
    if len(columns) != len(parameters):
        raise TypeError(
            f"The model reads {len(parameters)} columns: {', '.join(parameters.names)}."
        )
    arrays = [as_read(column, field) for column, field in zip(columns, parameters, strict=True)]
    return as_column(score(pa.RecordBatch.from_arrays(arrays, names=parameters.names)))
