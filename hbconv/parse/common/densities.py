"""What density models share: squared lengths, and classes from log joint densities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import ArgMax, GroupSums, Labels, LogSoftmax, Map, Node, Output
from hbconv.parse.step import concat

__all__ = ["classify", "squared_lengths"]


def classify(joint: Node, classes: npt.ArrayLike) -> dict[str, Output]:
    """Return the most likely class, and the normalized probabilities of all classes."""
    logs = LogSoftmax(joint)
    return {
        "predict": Output(ArgMax(joint), Labels(Array(np.asarray(classes)))),
        "predict_proba": Output(Map(logs, "exp")),
        "predict_log_proba": Output(logs),
    }


def squared_lengths(parts: Sequence[Node]) -> Node:
    """Return the sum of squares of each block of columns; all blocks have one width."""
    return GroupSums(Map(concat(parts), "square"), len(parts))
