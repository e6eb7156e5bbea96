"""What ensembles of any estimators share: members that are trees are read together, others one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Node, Output
from hbconv.containers.recode import Recode
from hbconv.containers.wiring import Select
from hbconv.parse.registry import find_parser
from hbconv.parse.step import Step

__all__ = ["are_trees", "class_codes", "columns_of_array"]


def are_trees(step: Step, members: Iterable[object]) -> bool:
    """Whether all members are single trees of scikit-learn."""
    return all(find_parser(member, step.where).name.startswith("sklearn.tree.") for member in members)


def columns_of_array(x: Node, columns: npt.ArrayLike) -> Node:
    """Columns of what the source first makes one array, of the common dtype."""
    return Select(x, Array.of(columns, np.int32))


def class_codes(step: Step, predict: Output, classes: npt.NDArray[Any]) -> Node:
    """Positions among the classes of what a member predicts, -1 where it is none of them."""
    if not isinstance(predict.classes, Array):
        raise step.refuse("estimator", step.estimator.estimator_, "Its members must predict class labels.")
    known = {label: position for position, label in enumerate(classes.tolist())}
    table = [-1, *(known.get(label, -1) for label in predict.classes.data.tolist())]
    return predict.node if table == list(range(-1, len(table) - 1)) else Recode(predict.node, (Array.of(table, np.int32),))
