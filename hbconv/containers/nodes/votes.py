"""Votes of several models: Votes, PairVotes, WeightedMedian."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.counts import misfit_of_pairs
from hbconv.containers.node import Node, container
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["PairVotes", "Votes", "WeightedMedian"]


@container
class Votes(Node):
    """Count votes: for each column of int32 codes make a block with a column for each candidate.

    An entry is ``for_it`` where the code is the candidate, else ``against``.

    Parameters
    ----------
    codes : Node
        A column for each voter.
    candidates : Array of int32
    for_it, against : Array, shape (n_voters,)
    """

    codes: Node
    candidates: Array
    for_it: Array
    against: Array

    @property
    def detail(self) -> str:
        return f"{len(self.for_it)} voters, {len(self.candidates)} candidates"

    def infer(self) -> Type:
        return Type(len(self.for_it) * len(self.candidates), self.for_it.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        voters = len(self.for_it)
        candidates = len(self.candidates)
        codes = b.take(inputs[0], np.repeat(np.arange(voters), candidates))
        for_it, against = (
            b.constant(np.repeat(weights.data, candidates))
            for weights in (self.for_it, self.against)
        )
        return b.where(
            b.op("eq", codes, b.constant(np.tile(self.candidates.data, voters), "int32")),
            for_it,
            against,
        )


@container
class PairVotes(Node):
    """Count for each class the pairs it wins, and add how clearly it wins them.

    The second term is between -1/3 and 1/3: ``s / (3 * (abs(s) + 1))``. The columns are the pairs
    (0, 1), (0, 2), ... (1, 2), ...

    Parameters
    ----------
    winners : Node
        0 where the first class of the pair wins, 1 where the second does. Any other number is a
        vote for neither.
    confidences : Node
        How clearly the second class wins, negative where the first does. s adds them up, pair after
        pair, in float64.
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

    def check(self) -> str | None:
        return misfit_of_pairs(self.n_classes, self.winners.type.width, self.confidences.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        own, second = self._pairs_of_classes()
        winners, confidences = (b.reshape(b.take(x, np.ravel(own)), *second.shape) for x in inputs)
        votes = b.cast(b.op("eq", winners, b.constant(second, winners.dtype)), "float64")
        signed = b.cast(confidences, "float64") * b.constant(np.where(second, 1.0, -1.0))
        total = b.reduce("ordered_sum", signed, axis=1)
        return b.reduce("reduce_sum", votes, axis=1) + total / (
            b.constant(3.0) * (b.op("abs", total) + b.constant(1.0))
        )

    def _pairs_of_classes(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the pairs of each class in order, and whether it is their second."""
        k = self.n_classes
        place = np.zeros((k, k), np.intp)
        place[np.triu_indices(k, 1)] = np.arange(k * (k - 1) // 2)
        apart = ~np.eye(k, dtype=bool)
        own = (place + place.T)[apart].reshape(k, k - 1)
        second = np.tri(k, dtype=bool)[apart].reshape(k, k - 1)
        order = np.argsort(own, axis=1)
        return np.take_along_axis(own, order, 1), np.take_along_axis(second, order, 1)


@container
class WeightedMedian(Node):
    """Find the weighted median of each row.

    This is the smallest entry where the weights up to it reach half of all weights. The weights are
    added in ascending order of the entries, and in the order of the columns for equal ones.
    """

    x: Node
    weights: Array

    @property
    def detail(self) -> str:
        return f"of {len(self.weights)}"

    def infer(self) -> Type:
        return Type(1, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        width = self.x.type.width
        order = b.op("topk", x, k=width)
        sums = b.op("cumsum", b.lookup(b.constant(self.weights), order), axis=0)
        half = b.constant(0.5, sums.dtype) * b.take(sums, [width - 1])
        place = b.reshape(b.reduce("argmax", b.cast(sums >= half, "int32")), 1)
        return b.gather(x, b.gather(order, place))
