"""PairVotes: scores of classes, from a decision between each two of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hbconv.containers.node import Node, container
from hbconv.containers.types import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["PairVotes"]


@container
class PairVotes(Node):
    """For each class the pairs it wins, and between -1/3 and 1/3 more by how clearly: ``s / (3 * (abs(s) + 1))``.

    The columns are the pairs (0, 1), (0, 2), ... (1, 2), ...

    Parameters
    ----------
    winners : Node
        0 where the first class of the pair wins, 1 where the second does; any other number is a vote for neither.
    confidences : Node
        How clearly the second class wins, negative where the first does. s adds them up, pair after pair, in float64.
    n_classes : int
    """

    winners: Node
    confidences: Node
    n_classes: int

    @property
    def detail(self) -> str:
        return f"{self.n_classes} classes"

    def infer(self) -> Type:
        return Type(self.n_classes, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        pairs = list(combinations(range(self.n_classes), 2))
        own = [[k for k, pair in enumerate(pairs) if label in pair] for label in range(self.n_classes)]
        second = np.array([[pairs[k][1] == label for k in ks] for label, ks in enumerate(own)])
        winners, confidences = (b.reshape(b.take(x, np.ravel(own)), *second.shape) for x in inputs)
        votes = b.cast(b.op("eq", winners, b.constant(second, winners.dtype)), "float64")
        signed = b.cast(confidences, "float64") * b.constant(np.where(second, 1.0, -1.0))
        total = b.reduce("ordered_sum", signed, axis=1)
        return b.reduce("reduce_sum", votes, axis=1) + total / (b.constant(3.0) * (b.op("abs", total) + b.constant(1.0)))
