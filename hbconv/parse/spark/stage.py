"""A stage under parsing: it reads named columns, and adds others.

What the numbers that a classifier predicts stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import Labels, Node, Output
from hbconv.errors import UnsupportedError
from hbconv.parse.spark.saved_model import SparkModel
from hbconv.parse.step import Step

__all__ = ["STAGES", "SparkColumns", "SparkStage", "predicted", "reads_of", "stage"]


@dataclass
class SparkColumns:
    """Collect the columns that stages made so far, and the answers of the last model.

    Parameters
    ----------
    columns : dict of Node
        Columns by name; a vector is a node of as many columns.
    labels : dict of tuple
        Texts that the numbers of a column stand for, in order.
    answers : dict of Output
        Methods of the last stage that is a model.
    last : str
        The column that the last stage made.
    """

    columns: dict[str, Node]
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    answers: dict[str, Output] = field(default_factory=dict)
    last: str = ""

    def add(self, name: str, node: Node) -> None:
        """Add the column that a stage makes."""
        self.columns[name] = node
        self.last = name


@dataclass(frozen=True)
class SparkStage:
    """One stage, where it stands, and the frame that it reads."""

    model: SparkModel
    step: Step
    frame: SparkColumns

    def get(self, parameter: str, default: Any = None) -> Any:
        """Return a parameter of the stage."""
        return self.model.get(parameter, default)

    def inputs(self) -> list[str]:
        """Return the names of the columns that it reads, one or several."""
        return reads_of(self.model)

    def outputs(self) -> list[str]:
        """Return the names of the columns that it makes, one or several."""
        several = self.get("outputCols")
        return list(several) if several else [self.get("outputCol")]

    def reading(self, name: str) -> Step:
        """Return the step with one column in place of all."""
        return replace(self.step, x=self.column(name))

    def column(self, name: str) -> Node:
        """Return a column by name."""
        if name not in self.frame.columns:
            hint = "A model makes this column; hbconv reads models that no stage reads from."
            raise self.refuse("inputCols", name, hint)
        return self.frame.columns[name]

    def refuse(self, parameter: str | None, value: object, hint: str) -> UnsupportedError:
        """Return the error that refuses a parameter; the caller raises it."""
        return UnsupportedError(self.model.kind, self.step.where, parameter, value, hint)

    def require(self, parameter: str, *allowed: object) -> Any:
        """Return a parameter if it is one of the allowed values, else refuse it."""
        value = self.get(parameter)
        if value not in allowed:
            raise self.refuse(parameter, value, f"hbconv handles {', '.join(map(repr, allowed))}.")
        return value


def reads_of(model: SparkModel) -> list[str]:
    """Return the names of the columns that a saved stage reads."""
    for parameter in ("inputCols", "inputCol", "featuresCol"):
        value = model.get(parameter)
        if value:
            return [value] if isinstance(value, str) else list(value)
    return []


STAGES: dict[str, Callable[[SparkStage], None]] = {}
"""What reads each class of stage, by its name in Spark."""


def stage(*names: str) -> Callable[[Callable[[SparkStage], None]], Callable[[SparkStage], None]]:
    """Register the decorated function as what reads the stages of these classes."""

    def register(function: Callable[[SparkStage], None]) -> Callable[[SparkStage], None]:
        STAGES.update(dict.fromkeys(names, function))
        return function

    return register


def predicted(codes: Node, n_classes: int) -> Output:
    """Return the numbers of classes as Spark has them, as floats."""
    return Output(codes, Labels(Array(np.arange(n_classes, dtype=np.float64))))
