"""Score on engines: a file for each, which lends it ``hbconv.Scorer``.

Import the file of the engine that you have: ``hbconv.engines.polars``, for example.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hbconv.scorer import Scorer

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["as_column", "scorer_of"]


def scorer_of(
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
) -> Scorer:
    """Return a scorer as it is, and one of a model or of the file of one."""
    return model if isinstance(model, Scorer) else Scorer(model, methods, keep)


def as_column(answers: Any) -> Any:
    """Return a RecordBatch as one Arrow array: its only column, or structs of several."""
    return answers.column(0) if answers.num_columns == 1 else answers.to_struct_array()
