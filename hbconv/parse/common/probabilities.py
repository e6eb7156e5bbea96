"""What classifiers share once they have probabilities."""

from __future__ import annotations

import numpy as np

from hbconv.array import Array
from hbconv.containers import Affine, Concat, Map, Node, Output, Select

__all__ = ["beside_complement", "with_probabilities"]


def beside_complement(p: Node) -> Node:
    """Return two columns ``1 - p, p`` for each column of p: probabilities of two classes."""
    both = Concat((Affine.of(p, mul=-1.0, add=1.0), p))
    if p.type.width == 1:
        return both
    return Select(both, Array.of(np.arange(both.type.width).reshape(2, -1).T.ravel(), np.int32))


def with_probabilities(outputs: dict[str, Output], probabilities: Node) -> dict[str, Output]:
    """Add predict_proba and its logarithm."""
    return {
        **outputs,
        "predict_proba": Output(probabilities),
        "predict_log_proba": Output(Map(probabilities, "log")),
    }
