"""What pipelines of any library share: which columns they read, and which steps pass rows on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv.containers import Schema
from hbconv.parse.registry import declared_columns, find_parser
from hbconv.parse.schema import read_schema

__all__ = ["columns_of_first", "find_source", "is_passed"]


def columns_of_first(pipeline: Any) -> Sequence[str] | int | Schema | None:
    """Return the input columns of the first step, where the pipeline does not show them.

    Its parser may declare them, or a step before it is ``"passthrough"``.
    """
    name, first = next(
        ((name, step) for name, step in pipeline.steps if not is_passed(step)), ("", None)
    )
    if first is None:
        return None
    is_hidden = hasattr(first, "n_features_in_") and not hasattr(pipeline, "n_features_in_")
    return read_schema(first) if is_hidden else declared_columns(first, name)


def find_source(estimator: Any) -> str:
    """Return the public name of the class whose arguments the methods of an estimator take.

    A pipeline hands them to its last step, and a frozen estimator to the one inside.
    """
    name = find_parser(estimator).name
    inner = None
    if name.endswith(".Pipeline"):
        inner = estimator.steps[-1][1]
    elif name.endswith(".FrozenEstimator"):
        inner = estimator.estimator
    return name if is_passed(inner) else find_source(inner)


def is_passed(estimator: object) -> bool:
    """Tell whether a step passes rows on as they are."""
    return estimator is None or (isinstance(estimator, str) and estimator == "passthrough")
