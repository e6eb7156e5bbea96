"""Explained features: the names of the columns that contributions and interactions are of.

They are those that the trees' estimator reads, which the steps before it name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hbconv.containers import Output, Schema
from hbconv.parse.schema import read_step_names

__all__ = ["read_explained"]


def read_explained(
    estimator: object, outputs: Mapping[str, Output], schema: Schema
) -> tuple[str, ...]:
    """Return the names of the features that contributions are of.

    Empty where there are no contributions, or a step before the trees cannot name its columns.
    """
    contributions = outputs.get("contributions")
    if contributions is None:
        return ()
    names = _names_read(estimator, schema.names)
    if names is None or len(names) != contributions.n_explained:
        return ()
    return tuple(map(str, names))


def _names_read(estimator: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """Return the names of the columns that the trees within an estimator read.

    Parameters
    ----------
    estimator : object
        The trees themselves, or what holds them: a pipeline, a search, a selection.
    names : sequence of str, optional
        Of the columns that it reads itself; None where they have none.
    """
    if names is None:
        return None
    if hasattr(estimator, "best_estimator_"):
        return _names_read(estimator.best_estimator_, names)
    if hasattr(estimator, "named_steps"):
        before, last = estimator[:-1], estimator.steps[-1][1]
        return _names_read(last, read_step_names(before, names) if before.steps else names)
    if hasattr(estimator, "final_estimator_"):
        return _names_read(estimator.final_estimator_, read_step_names(estimator, names))
    if hasattr(estimator, "get_support"):
        return _names_read(estimator.estimator_, read_step_names(estimator, names))
    if type(estimator).__name__ == "FrozenEstimator":
        return _names_read(estimator.estimator, names)
    if hasattr(estimator, "estimator_"):
        return _names_read(estimator.estimator_, names)
    return names
