"""What the models of YDF share: sums over trees, their leaves, and the classes of a label."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    ArgMax,
    Compare,
    Labels,
    Node,
    Output,
    TreeEnsemble,
    TreeLeaves,
)
from hbconv.parse.step import Step
from hbconv.parse.ydf.trees import YdfTrees, grow

__all__ = ["class_answers", "is_slow", "number_of_classes", "require_task", "sum_trees"]


def require_task(step: Step, *allowed: str) -> str:
    """Return the task that a model was trained for, if it is one of the allowed."""
    task = str(step.estimator.task().name)
    if task not in allowed:
        raise step.refuse("task", task, f"hbconv handles {', '.join(allowed)}.")
    return task


def is_slow(model: Any) -> bool:
    """Tell whether no fast engine takes a model; it answers ``use_slow_engine=True`` alone.

    So it is where a missing value goes another way than the mean, or the most frequent category.
    """
    return not model.list_compatible_engines()


def number_of_classes(step: Step) -> int:
    """Return the number of classes of the label, which must be two or more."""
    count = len(step.estimator.label_classes())
    if count < 2:
        raise step.refuse("label_classes", count, "Train it on a label of two classes or more.")
    return count


def sum_trees(
    step: Step,
    trees: YdfTrees,
    values: npt.NDArray[Any],
    start: npt.NDArray[Any],
    target: npt.NDArray[np.int64] | None = None,
) -> tuple[Node, dict[str, Output]]:
    """Return the sums of the leaves' values in start's dtype, tree after tree, and ``apply``."""
    step.refuse_sparse("finds columns by name")
    x, forest = grow(step, trees, values.astype(start.dtype), start, target)
    leaves = {"apply": Output(TreeLeaves(x, forest))} if forest.n_trees else {}
    return TreeEnsemble(x, forest), leaves


def class_answers(step: Step, p: Node) -> dict[str, Output]:
    """Return probabilities, of two classes the second's alone, and the likeliest class."""
    classes = Labels(Array(np.array(step.estimator.label_classes())))
    if p.type.width > 1:
        return {"predict": Output(p), "predict_class": Output(ArgMax(p), classes)}
    second = Compare.of(p, "ge", 0.5, "int32")
    return {"predict": Output(p, VECTOR), "predict_class": Output(second, classes)}
