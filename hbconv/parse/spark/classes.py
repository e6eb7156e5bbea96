"""What the numbers that a classifier predicts stand for."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Labels, Node, Output

__all__ = ["predicted"]


def predicted(codes: Node, n_classes: int) -> Output:
    """Return the numbers of classes as Spark has them, as floats."""
    return Output(codes, Labels(Array(np.arange(n_classes, dtype=np.float64))))
