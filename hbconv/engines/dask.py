"""Dask: a task for each partition of a frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hbconv.engines import scorer_of
from hbconv.engines.pandas import answer_frame

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["score_frames"]


def score_frames(
    frame: dd.DataFrame,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> dd.DataFrame:
    """Answer a frame's rows lazily: columns that are kept, then those of the answers.

    Index and partitions stay. A worker loads the model once. Dask computes the partitions of a
    lost worker again on another.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    model : Model, path or Scorer
        A path must be one that all workers can read.
    methods : str or sequence of str, optional
        As for ``hbconv.Scorer``.
    keep : sequence of str

    Examples
    --------
    >>> import dask.dataframe as dd, pandas as pd
    >>> from sklearn.linear_model import LinearRegression
    >>> import hbconv
    >>> X = pd.DataFrame({"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0]})
    >>> source = LinearRegression().fit(X, [1.0, 2.0, 3.0])
    >>> model = hbconv.convert(source, backend="reference")
    >>> rows = dd.from_pandas(X, npartitions=2)
    >>> score_frames(rows, model).compute(scheduler="sync").predict.round(6).tolist()
    [1.0, 2.0, 3.0]
    """
    score = scorer_of(model, methods, keep)
    empty: Any = _score_partition(frame._meta, score)  # noqa: SLF001 - Dask has no public name
    return frame.map_partitions(_score_partition, score, meta=empty)


def _score_partition(frame: pd.DataFrame, score: Scorer) -> pd.DataFrame:
    """Answer a partition as an Arrow table: Dask makes NA of all that is missing among texts."""
    read = pa.Table.from_pandas(frame, preserve_index=False)
    return answer_frame(frame, score, score.rows(read))
