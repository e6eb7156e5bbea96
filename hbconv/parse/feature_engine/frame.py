"""What transformers of feature-engine share: columns found by name, and a frame returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hbconv.containers import Node, Output, Schema
from hbconv.parse.common.frames import transform_frame
from hbconv.parse.common.text_columns import columns_of
from hbconv.parse.registry import Parser, parses
from hbconv.parse.step import Step, select

__all__ = ["as_frame", "changed", "columns", "numeric", "parses_frame"]


def parses_frame(*names: str) -> Callable[[Parser], Parser]:
    """Register the parser of transformers that read a frame and return one."""
    return parses(*names, features=_features, frames=lambda _: "pandas")


def _features(transformer: Any) -> Schema:
    """Return the columns of a frame, found by name; of an array, whose columns it numbers."""
    names = [str(name) for name in transformer.feature_names_in_]
    numbered = [f"x{position}" for position in range(len(names))]
    return Schema.matrix(len(names)) if names == numbered else Schema.table(names)


def columns(step: Step) -> dict[Any, Node]:
    """Return the node of each column, by name."""
    step.refuse_sparse("reads columns by name")
    names = step.estimator.feature_names_in_
    return {name: select(step.x, [position]) for position, name in enumerate(names)}


def numeric(step: Step, variables: Iterable[Any]) -> dict[Any, Node]:
    """Return columns of numbers, whose NaN and infinite values the source refuses."""
    names = list(step.estimator.feature_names_in_)
    chosen = {name: columns_of(step.x, [names.index(name)]) for name in variables}
    for node in chosen.values():
        step.require_finite(node)
    return chosen


def changed(step: Step, new: dict[Any, Node]) -> dict[str, Output]:
    """Return the frame with some columns replaced, and new ones behind the others."""
    return as_frame(columns(step) | new)


def as_frame(nodes: dict[Any, Node]) -> dict[str, Output]:
    """Return columns side by side, each of its own dtype."""
    return transform_frame(list(nodes.values()))
