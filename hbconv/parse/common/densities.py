"""What density models share: squared lengths, and classes from log joint densities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    ArgMax,
    GroupSums,
    Labels,
    LogSoftmax,
    Map,
    Node,
    Output,
    Pool,
    Select,
)
from hbconv.parse.step import concat

__all__ = ["below_largest", "classify", "squared_lengths"]


def classify(joint: Node, classes: npt.ArrayLike) -> dict[str, Output]:
    """Return the most likely class, and the normalized probabilities of all classes."""
    logs = LogSoftmax(joint)
    return {
        "predict": Output(ArgMax(joint), Labels(Array(np.asarray(classes)))),
        "predict_proba": Output(Map(logs, "exp")),
        "predict_log_proba": Output(logs),
    }


def below_largest(joint: Node) -> Node:
    """Take off the largest of the joint densities, which are otherwise normalized to the same.

    Where all are huge, the logarithm of their number is lost beside them: two equal ones would have
    a probability of 1 each.
    """
    columns = tuple(range(joint.type.width))
    largest = Select(Pool(joint, (columns,), "max"), Array.of([0] * len(columns), np.int32))
    return Add((joint, Map(largest, "neg")))


def squared_lengths(parts: Sequence[Node]) -> Node:
    """Return the sum of squares of each block of columns; all blocks have one width."""
    return GroupSums(Map(concat(parts), "square"), len(parts))
