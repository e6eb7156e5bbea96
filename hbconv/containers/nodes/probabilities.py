"""Probabilities, their logarithms and logits, and the votes of several models."""

from __future__ import annotations

from itertools import combinations
from math import pi
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.column_wise import ColumnWise
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_groups, misfit_of_pairs

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = [
    "ExpectedSigmoid",
    "FiniteLog",
    "LogAdd",
    "LogSoftmax",
    "LogSumExp",
    "Logits",
    "PairVotes",
    "PairwiseCoupling",
    "Proportions",
    "SymmetricLogit",
    "Votes",
    "WeightedMedian",
]


@container
class LogSumExp(Node):
    """``log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return Type(1, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return b.reshape(b.reduce("logsumexp", inputs[0]), 1)


@container
class LogSoftmax(Node):
    """``x - log(sum(exp(x)))`` over the columns."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        return inputs[0] - b.reshape(b.reduce("logsumexp", inputs[0]), 1)


@container
class LogAdd(Node):
    """Compute ``log(exp(a) + exp(b) + ...)`` over equal blocks of columns.

    They are added one after another, as ``numpy.logaddexp`` does.
    """

    x: Node
    groups: int

    @property
    def detail(self) -> str:
        return f"{self.groups} groups"

    def infer(self) -> Type:
        return Type(self.x.type.width // self.groups, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_groups(self.groups, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        # One loop: as a thousand small operators, the mean
        # of a hundred members took two minutes to compile.
        return b.reduce("ordered_logsumexp", b.reshape(inputs[0], self.groups, self.type.width))


ABOVE_ZERO = 1e-12
"""Added to probabilities, whose logarithm would not be finite at 0."""

NEAR_ONE = 1.001e-5
"""How far from 1 the sum of probabilities may be."""


@container
class Logits(Node):
    """Compute ``log(x + 1e-12)`` of rows of probabilities, and keep any other row.

    Probabilities are between 0 and 1 and have a sum near 1.
    """

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        zero, one, near = (b.constant(value, x.dtype) for value in (0.0, 1.0, NEAR_ONE))
        # Written by the opposite, so that a row with NaN is no row of probabilities.
        outside = b.reduce("reduce_any", ~((x >= zero) & (x <= one)))
        far = ~(b.op("abs", b.reduce("reduce_sum", x) - one) <= near)
        return b.where(
            b.reshape(outside | far, 1), x, b.op("log", x + b.constant(ABOVE_ZERO, x.dtype))
        )


@container
class FiniteLog(ColumnWise):
    """``log(x)``; of zero the logarithm of the least normal number of x's dtype."""

    x: Node

    inexact: ClassVar[bool] = True

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        # scikit-learn adds the smallest normal number to probabilities of 0.
        least = b.constant(np.finfo(x.dtype).smallest_normal, x.dtype)
        return b.op("log", b.where(b.op("eq", x, b.constant(0.0, x.dtype)), least, x))


@container
class SymmetricLogit(Node):
    """``log(p / geometric mean of the row)``, whose softmax is p."""

    x: Node

    def infer(self) -> Type:
        return self.x.type

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (p,) = inputs
        # The geometric mean by logarithms: a product of many probabilities would underflow.
        total = b.reshape(b.reduce("reduce_sum", b.op("log", p)), 1)
        mean = b.op("exp", total / b.constant(float(self.type.width), p.dtype))
        return b.op("log", p / mean)


SLOPES = np.array([0.41, 0.4, 0.37, 0.44, 0.39])
SHARES = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
"""The five error functions whose sum is nearly the logistic function, fitted by scikit-learn."""


@container
class ExpectedSigmoid(Node):
    """Compute the mean of ``sigmoid(z)`` for normal z as a sum of five error functions.

    Williams and Barber (1998), appendix A.

    Parameters
    ----------
    mean, variance : Node
        One column each. Where the variance is not positive, the answer is NaN.
    """

    mean: Node
    variance: Node

    def infer(self) -> Type:
        return Type(1, "float64")

    def lower(self, b: Builder, *inputs: Value) -> Value:
        mean, variance = (b.cast(x, "float64") for x in inputs)
        two = b.constant(2.0)
        alpha = b.constant(1.0) / (two * variance)
        ratio = b.op("sqrt", alpha / (alpha + b.constant(SLOPES**2)))
        norm = b.op("sqrt", b.constant(pi) / alpha) / (
            two * b.op("sqrt", variance * b.constant(2 * pi))
        )
        integrals = norm * b.op("erf", b.constant(SLOPES) * mean * ratio)
        return b.reshape(b.reduce("reduce_sum", b.constant(SHARES) * integrals), 1) + b.constant(
            0.5 * SHARES.sum()
        )


@container
class Proportions(Node):
    """Compute ``x / sum(x)`` over the columns.

    A row that sums to zero becomes uniform, or ``of_nothing`` in every column.
    """

    x: Node
    of_nothing: float | None = None

    @property
    def detail(self) -> str:
        return "" if self.of_nothing is None else f"{self.of_nothing} of nothing"

    def infer(self) -> Type:
        return Type(self.x.type.width, self.x.type.dtype)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        width = x.shape[0]
        total = b.reshape(b.reduce("reduce_sum", x), 1)
        empty = b.op("eq", total, b.constant([0.0], x.dtype))
        share = 1.0 / width if self.of_nothing is None else self.of_nothing
        return b.where(
            empty,
            b.constant(np.full(width, share), x.dtype),
            # Divided by 1 there, so that no NaN comes of 0 by 0 before it is replaced.
            x / b.where(empty, b.constant([1.0], x.dtype), total),
        )


SWEEPS = 100
"""Largest number of sweeps over the classes, if there are not more classes.

The stopping rule is loose: few rows need more than three.
"""

TOLERANCE = 0.005
"""A row is done when no error exceeds this over the number of classes."""


@container
class PairwiseCoupling(Node):
    """Couple the probabilities of pairs of classes into probabilities of classes.

    This is the second method of Wu, Lin and Weng (2004), as libsvm iterates it: p minimizes
    ``p @ Q @ p``, one class after another. Here ``Q[t, t]`` is the sum of the squares of all
    ``r[j, t]``, and ``Q[t, j] = -r[j, t] * r[t, j]``. A row that is done keeps its probabilities.

    Parameters
    ----------
    x : Node
        ``r[i, j]``, the probability of class i where the label is i or j, of the pairs (0, 1),
        (0, 2), ... (1, 2), ...
    n_classes : int
    """

    x: Node
    n_classes: int

    @property
    def detail(self) -> str:
        return f"{self.n_classes} classes"

    def infer(self) -> Type:
        return Type(self.n_classes, self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_pairs(self.n_classes, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        k = self.n_classes
        q = _quadratic_form(b, x, k)
        start = b.op("expand", x, b.constant(np.full(k, 1 / k), x.dtype))
        # libsvm: ``max_iter = max(100, k)``.
        return b.iterate(max(SWEEPS, k), start, b.reshape(q, k * k), _sweep_unless_done)


def _sweep_unless_done(b: Builder, p: Value, form: Value) -> Value:
    (k,) = p.shape
    q = b.reshape(form, k, k)
    gradient, value, done = _errors(b, q, p)
    return b.where(done, p, _sweep(b, p, gradient, value, q))


def _quadratic_form(b: Builder, x: Value, k: int) -> Value:
    """Return Q."""
    # Behind the pairs stand their complements, the probabilities of their second classes.
    place = np.zeros((k, k), dtype=np.int32)
    for pair, (i, j) in enumerate(combinations(range(k), 2)):
        place[i, j] = pair
        place[j, i] = pair + x.shape[0]
    both = b.concat([x, b.constant(1.0, x.dtype) - x])
    wins = b.reshape(b.take(both, place.ravel()), k, k)
    losses = b.reshape(b.take(both, place.T.ravel()), k, k)
    apart = b.constant(1 - np.eye(k), x.dtype)
    diagonal = b.reduce("reduce_sum", losses * losses * apart, axis=1)
    return b.where(b.constant(np.eye(k, dtype=bool)), b.reshape(diagonal, k, 1), -(losses * wins))


def _errors(b: Builder, q: Value, p: Value) -> tuple[Value, Value, Value]:
    """Return ``Q @ p``, ``p @ Q @ p``, and whether they agree."""
    (k,) = p.shape
    gradient = b.reduce("reduce_sum", q * b.reshape(p, 1, k), axis=1)
    value = b.reshape(b.reduce("reduce_sum", p * gradient), 1)
    largest = b.reshape(b.reduce("reduce_max", b.op("abs", gradient - value)), 1)
    # libsvm: ``eps = 0.005 / k``.
    return gradient, value, largest < b.constant(TOLERANCE / k, p.dtype)


def _sweep(b: Builder, p: Value, gradient: Value, value: Value, q: Value) -> Value:
    """Move one class after another to where its error vanishes.

    The probabilities are divided by their sum only at the end.
    """
    (k,) = p.shape
    moves = b.concat(
        [b.op("expand", p, b.constant(np.c_[np.eye(k), np.ones(k)], p.dtype)), q], axis=1
    )
    # The sum of p rides along as one more entry, so one step updates all that depends on p.
    state = b.concat([p, b.op("expand", p, b.constant([1.0], p.dtype)), gradient])
    for t in range(k):
        row = b.reshape(b.take(moves, [t]), 2 * k + 1)
        ratio = value / b.take(state, [k])
        error = b.take(state, [k + 1 + t])
        step = (ratio - error) / b.take(row, [k + 1 + t])
        value = value + step * (ratio + error)
        state = state + step * row
    return b.take(state, range(k)) / b.take(state, [k])


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
        pairs, second = self._pairs_of_classes()
        winners, confidences = (
            b.reshape(b.take(x, np.ravel(pairs)), *second.shape) for x in inputs
        )
        votes = b.cast(b.op("eq", winners, b.constant(second, winners.dtype)), "float64")
        signed = b.cast(confidences, "float64") * b.constant(np.where(second, 1.0, -1.0))
        # Pair after pair, since a last bit may decide between classes of equal votes.
        total = b.reduce("ordered_sum", signed, axis=1)
        # As scikit-learn's ``_ovr_decision_function``:
        # below 1/3, confidences only break ties of votes.
        return b.reduce("reduce_sum", votes, axis=1) + total / (
            b.constant(3.0) * (b.op("abs", total) + b.constant(1.0))
        )

    def _pairs_of_classes(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return the pairs of each class in order, and whether it is their second."""
        k = self.n_classes
        place = np.zeros((k, k), np.intp)
        place[np.triu_indices(k, 1)] = np.arange(k * (k - 1) // 2)
        apart = ~np.eye(k, dtype=bool)
        pairs = (place + place.T)[apart].reshape(k, k - 1)
        second = np.tri(k, dtype=bool)[apart].reshape(k, k - 1)
        order = np.argsort(pairs, axis=1)
        return np.take_along_axis(pairs, order, 1), np.take_along_axis(second, order, 1)


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
        # argmax takes the first of equal ones, which is where the sums reach half.
        place = b.reshape(b.reduce("argmax", b.cast(sums >= half, "int32")), 1)
        return b.gather(x, b.gather(order, place))
