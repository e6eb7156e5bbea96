"""pandas: answers with the index of the rows, by ``frame.hbconv.predict(model)``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from hbconv.engines import scorer_of
from hbconv.engines.scorer import rows_for
from hbconv.errors import OptionError

if TYPE_CHECKING:
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["PandasRows", "answer_frame", "score_frame"]


def score_frame(frame: pd.DataFrame, score: Scorer) -> pd.DataFrame:
    """Score the rows of a frame, with their index: kept columns, then outputs.

    The model reads the frame as it is, as its source would.

    Raises
    ------
    InputError
        Columns are missing, or the model refuses a row.
    """
    return answer_frame(frame, score, _rows(score, _select_needed(score, frame)))


def answer_frame(frame: pd.DataFrame, score: Scorer, rows: Any) -> pd.DataFrame:
    """Answer the rows of a frame, which come in a form that the model takes.

    Raises
    ------
    OptionError
        The scorer has a column of reasons.
    """
    if score.reasons is not None:
        raise OptionError(
            f"reasons={score.reasons!r}: columns of pandas and Dask change their types where an "
            "answer is missing. Score Arrow tables by the Scorer itself."
        )
    names = score.names
    answers = score.answers(rows, len(frame))
    columns = pa.table(dict(zip(names, answers, strict=True))).to_pandas().set_axis(frame.index)
    return pd.concat([frame[list(score.keep)], columns], axis=1) if score.keep else columns


def _select_needed(score: Scorer, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that the model was fitted on; the frame itself where they are all.

    Those that it does not read may be absent.
    """
    needed = score.needed(list(frame))
    fitted = score.model.schema.names if score.model.schema.named else needed
    present = [name for name in fitted if name in frame]
    # What the model ignores is filled with NaN: names and order are then those of fitting.
    if set(needed) <= set(present) and len(present) < len(fitted):
        return frame.reindex(columns=list(fitted))
    return frame if present == list(frame) else frame[present]


def _rows(score: Scorer, frame: pd.DataFrame) -> Any:
    """Return the rows as the model takes them: the frame, or its only column."""
    if not score.model.schema.conventions.takes_column:
        return frame
    return rows_for(score.model, pa.Table.from_pandas(frame, preserve_index=False))


@pd.api.extensions.register_dataframe_accessor("hbconv")
class PandasRows:
    """Methods of a frame; importing this file adds them to every frame.

    Each takes a model, the .hbc file of one, or a Scorer.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> import hbconv
    >>> X = pd.DataFrame({"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0]})
    >>> source = LinearRegression().fit(X, [1.0, 2.0, 3.0])
    >>> model = hbconv.convert(source, backend="reference")
    >>> X.set_index(pd.Index([7, 8, 9])).hbconv.predict(model).round(6)
    7    1.0
    8    2.0
    9    3.0
    Name: predict, dtype: float64
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame

    def predict(self, model: Model | Scorer | str | os.PathLike[str]) -> pd.Series | pd.DataFrame:
        """Answer ``predict``: a Series, or a frame of several targets."""
        return self.score(model, "predict").squeeze(axis=1)

    def predict_proba(self, model: Model | Scorer | str | os.PathLike[str]) -> pd.DataFrame:
        """Answer ``predict_proba``, with a column for each class."""
        return self.score(model, "predict_proba")

    def score(
        self,
        model: Model | Scorer | str | os.PathLike[str],
        methods: str | Sequence[str] | None = None,
        keep: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Answer any methods: columns that are kept, then those of the answers."""
        return score_frame(self.frame, scorer_of(model, methods, keep))
