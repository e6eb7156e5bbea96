"""Codes and mixtures that are solved for in rounds, row by row.

LassoDescent, MatchingPursuit, NonNegativeWeights, TopicMixture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.linear import as_row, dot
from hbconv.containers.schema import Type, as_float
from hbconv.containers.vocabulary import misfit_of_rounds, misfit_of_table

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LassoDescent", "MatchingPursuit", "NonNegativeWeights", "TopicMixture"]

# No measurement of this size is recorded.
_BLOCK = 16
"""Atoms whose coefficients move before their products with all others are brought up to date."""


@container
class LassoDescent(Node):
    """Find the code of each row that minimizes a lasso, in the dtype of the dictionary and x.

    The lasso is ``||x - code @ dictionary||**2 / 2 + penalty * ||code||_1``. Coordinate descent
    starts from zero, and each round moves the active coefficients in order. Where a round moves
    them by at most ``tolerance`` of the largest, the duality gap is computed. A row is done when
    its gap is at most ``tolerance * ||x||**2``, or after ``steps`` rounds.

    Atoms that the gap proves to be absent are no longer active: O. Fercoq, A. Gramfort and
    J. Salmon, Mind the duality gap: safer rules for the lasso (2015).

    Parameters
    ----------
    dictionary : Array, shape (n_dictionary, width)
        An atom a row.
    penalty : float
    positive : bool
        No coefficient is below zero.
    tolerance : float
    steps : int
    """

    x: Node
    dictionary: Array
    penalty: float
    positive: bool
    tolerance: float
    steps: int

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{len(self.dictionary)} atoms  at most {self.steps} rounds"

    def infer(self) -> Type:
        return Type(len(self.dictionary), self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.dictionary, self.x.type.width, self.tolerance)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        (x,) = inputs
        atoms = self.dictionary.data
        size = len(atoms)
        square = b.reshape(b.reduce("reduce_sum", x * x), 1)
        target = b.concat([b.matmul(x, b.constant(atoms.T, x.dtype)), square])
        descent = _Descent(atoms @ atoms.T, self)
        state = b.iterate(self.steps, descent.start(b, target), target, descent.round)
        return b.take(state, np.arange(size))


@dataclass(frozen=True, eq=False)
class _State:
    """State of a row: its code, the code's products with all atoms, and which atoms are active."""

    code: Value
    products: Value
    active: Value


@dataclass(frozen=True, eq=False)
class _Descent:
    gram: npt.NDArray[Any]
    lasso: LassoDescent

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.gram)

    @cached_property
    def lengths(self) -> npt.NDArray[Any]:
        """Length of each atom."""
        return np.sqrt(np.diag(self.gram))

    def start(self, b: Builder, moments: Value) -> Value:
        """Return the state before the first round: zeros, unless the gap is small already."""
        dtype = moments.dtype
        zeros, ones = (
            b.op("expand", moments, b.constant(np.full(self.size, value), dtype))
            for value in (0.0, 1.0)
        )
        gap, active = self._judge(b, _State(zeros, zeros, ones), moments)
        zero = b.constant(0.0, dtype)
        # A gap below 0 comes of rounding, and is no reason to stop before the first round.
        is_done = (gap >= zero) & (gap <= self._allowed_gap(b, moments))
        counted = b.op("expand", moments, b.constant([0.0], dtype))
        return b.concat([zeros, zeros, active, counted, b.cast(is_done, dtype)])

    def round(self, b: Builder, before: Value, moments: Value) -> Value:
        """Move each active coefficient once; a row that is done keeps its state."""
        size = self.size
        runs = np.split(np.arange(3 * size + 2), [size, 2 * size, 3 * size, 3 * size + 1])
        code, products, active, count, is_done = (b.take(before, run) for run in runs)
        zero, one = (b.constant(number, before.dtype) for number in (0.0, 1.0))
        state, move, largest = self._descend(b, _State(code, products, active), moments)
        count = count + one
        # Without a coefficient there is no ratio: 0 by 0 would be NaN.
        is_still = b.op("eq", largest, zero) | (
            move / largest <= b.constant(self.lasso.tolerance, before.dtype)
        )
        is_judged = is_still | b.op("eq", count, b.constant(self.lasso.steps, before.dtype))
        gap, kept = self._judge(b, state, moments)
        ends = is_judged & (gap <= self._allowed_gap(b, moments))
        left = self._without(b, state, kept)
        # A round that changes nothing would repeat for ever, whatever the gap is.
        is_fixed = b.op("eq", move, zero) & ~self._differs(b, kept, active)
        is_screened = is_judged & ~ends
        after = [
            b.where(is_screened, new, old)
            for new, old in (
                (left.code, state.code),
                (left.products, state.products),
                (left.active, state.active),
            )
        ]
        ended = b.cast(ends | (is_screened & is_fixed), before.dtype)
        return b.where(is_done > zero, before, b.concat([*after, count, ended]))

    def _descend(self, b: Builder, state: _State, moments: Value) -> tuple[_State, Value, Value]:
        """Return the state, the largest move and the largest coefficient of a round.

        Atoms are taken in blocks: the products with other atoms are only needed at its end.
        """
        products = state.products
        moves = []
        code = []
        for block in np.split(np.arange(self.size), range(_BLOCK, self.size, _BLOCK)):
            old = b.take(state.code, block)
            new = self._descend_block(b, replace(state, products=products), moments, block)
            moves.append(new - old)
            code.append(new)
            products = products + b.matmul(moves[-1], b.constant(self.gram[block], moments.dtype))
        state = _State(b.concat(code), products, state.active)
        return state, _largest(b, b.concat(moves)), _largest(b, state.code)

    def _descend_block(
        self, b: Builder, state: _State, moments: Value, block: npt.NDArray[np.intp]
    ) -> Value:
        """Return the coefficients of a block after a round."""
        products = b.take(state.products, block)
        code = []
        for place, j in enumerate(block):
            old = b.take(state.code, [j])
            new = self._move(b, old, b.take(products, [place]), b.take(moments, [j]), j)
            code.append(b.where(b.take(state.active, [j]) > b.constant(0.0, old.dtype), new, old))
            row = b.constant(self.gram[j, block], old.dtype)
            products = products + (code[-1] - old) * row
        return b.concat(code)

    def _move(self, b: Builder, old: Value, product: Value, target: Value, j: int) -> Value:
        """Move one coefficient to the minimum, which is zero near zero."""
        # An atom of zeros has no minimum; its coefficient stays 0, as in the source.
        if self.gram[j, j] == 0:
            return old
        zero = b.constant(0.0, old.dtype)
        square = b.constant(self.gram[j, j], old.dtype)
        pull = target - product + old * square
        left = b.op("abs", pull) - b.constant(self.lasso.penalty, old.dtype)
        new = b.op("sign", pull) * b.op("maximum", left, zero) / square
        return b.where(pull < zero, zero, new) if self.lasso.positive else new

    def _judge(self, b: Builder, state: _State, moments: Value) -> tuple[Value, Value]:
        """Return the duality gap, and which of the active atoms it lets stay.

        1. The slope of the loss, whose largest entry scales the dual point.
        2. The gap: primal minus dual.
        3. Atoms whose correlation with the dual point is far below one are absent.
        """
        dtype = moments.dtype
        size = self.size
        half, one, two, penalty = (
            b.constant(number, dtype) for number in (0.5, 1.0, 2.0, self.lasso.penalty)
        )
        target = b.take(moments, np.arange(size))
        square = b.take(moments, [size])
        # 1
        slope = target - state.products
        # Least squares has no dual point; its gap is the squared slope.
        if not self.lasso.penalty:
            return dot(b, slope, slope), state.active
        steep = slope if self.lasso.positive else b.op("abs", slope)
        top = b.reshape(b.reduce("reduce_max", steep), 1)
        # 2
        fit = dot(b, state.code, target)
        rest = square + dot(b, state.code, state.products) - two * fit
        total = b.reshape(b.reduce("reduce_sum", b.op("abs", state.code)), 1)
        primal = half * rest + penalty * total
        scale = b.where(top > penalty, penalty / top, one)
        dual = scale * (square - fit) - half * (scale * scale) * rest
        gap = primal - dual
        # 3
        # Rounding may leave the gap just below 0.
        radius = b.op("sqrt", two * b.op("abs", gap)) / penalty
        correlation = b.op("abs", slope / b.op("maximum", penalty, top))
        # Atoms of zeros never stay; a length of 1 keeps their division harmless.
        lengths = np.where(self.lengths > 0, self.lengths, 1.0)
        distance = (one - correlation) / b.constant(lengths, dtype)
        stays = (distance <= radius) & b.constant(self.lengths > 0)
        return gap, b.where(stays, state.active, b.constant(0.0, dtype))

    def _without(self, b: Builder, state: _State, active: Value) -> _State:
        """Take the atoms that are no longer active out of the code."""
        zero = b.constant(0.0, active.dtype)
        code = b.where(active > zero, state.code, zero)
        gone = state.code - code
        products = state.products - b.matmul(gone, b.constant(self.gram, active.dtype))
        return _State(code, products, active)

    def _allowed_gap(self, b: Builder, moments: Value) -> Value:
        return b.constant(self.lasso.tolerance, moments.dtype) * b.take(moments, [self.size])

    def _differs(self, b: Builder, x: Value, y: Value) -> Value:
        return b.reshape(b.reduce("reduce_any", b.op("ne", x, y)), 1)


def _largest(b: Builder, x: Value) -> Value:
    return b.reshape(b.reduce("reduce_max", b.op("abs", x)), 1)


@container
class MatchingPursuit(Node):
    """Find the coefficients of each row's best sum of at most ``n_atoms`` atoms, in x's dtype.

    This is orthogonal matching pursuit. Each step takes the atom nearest to the rest of the row,
    and projects the row on all atoms taken. A row is done when nothing is left.
    It is also done when its next atom is taken already, or depends on those taken up to the
    epsilon of x's dtype.

    The atoms taken are kept orthonormal (Gram-Schmidt) rather than as a Cholesky factor. Both give
    the same numbers except for rounding.

    Parameters
    ----------
    dictionary : Array, shape (n_dictionary, width)
        An atom a row.
    n_atoms : int
    """

    x: Node
    dictionary: Array
    n_atoms: int

    decides: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{self.n_atoms} of {len(self.dictionary)} atoms"

    def infer(self) -> Type:
        return Type(len(self.dictionary), as_float(self.x.type.dtype))

    def check(self) -> str | None:
        misfit = misfit_of_table(self.dictionary, self.x.type.width)
        if misfit or 0 < self.n_atoms <= len(self.dictionary):
            return misfit
        return f"takes {self.n_atoms} of {len(self.dictionary)} atoms"

    def lower(self, b: Builder, *inputs: Value) -> Value:
        x = b.cast(inputs[0], self.type.dtype)
        atoms = self.dictionary.data
        correlation = b.cast(b.matmul(*b.promote(x, b.constant(atoms.T))), "float64")
        # Rounded to x's dtype, as the source's Gram matrix is, then exact in float64.
        gram = (atoms @ atoms.T).astype(x.dtype).astype(np.float64)
        pursuit = _Pursuit(gram, self.n_atoms, float(np.finfo(x.dtype).eps))
        start = b.op("expand", x, b.constant(np.zeros(pursuit.width), "float64"))
        state = b.iterate(self.n_atoms, start, correlation, pursuit.step)
        return b.cast(b.take(state, np.arange(len(atoms))), x.dtype)


@dataclass(frozen=True)
class _PursuitState:
    """State of a row: coefficients and flags of the atoms, how many are taken, and directions.

    The directions are orthonormal and span the atoms taken. For each, the state keeps its products
    with all atoms, and its coefficients in them.
    """

    code: Value
    taken: Value
    count: Value
    products: Value
    mixtures: Value


@dataclass(frozen=True, eq=False)
class _Pursuit:
    gram: npt.NDArray[np.float64]
    n_atoms: int
    least: float

    @property
    def width(self) -> int:
        """Entries of a state."""
        return (2 + 2 * self.n_atoms) * len(self.gram) + 1

    def step(self, b: Builder, before: Value, correlation: Value) -> Value:
        """Take one more atom, unless the row is done."""
        state = self._state(b, before)
        left = correlation - b.matmul(state.code, b.constant(self.gram))
        best = b.reduce("argmax", b.op("abs", left))
        chosen = b.cast(
            b.op("eq", b.reshape(best, 1), b.constant(np.arange(len(self.gram)), "int32")),
            left.dtype,
        )
        row = b.lookup(b.constant(self.gram), best)
        strength = dot(b, left, chosen)
        shares = b.reduce("reduce_sum", state.products * as_row(b, chosen), axis=1)
        square = dot(b, row, chosen) - dot(b, shares, shares)
        least, zero, one = (b.constant(number, left.dtype) for number in (self.least, 0.0, 1.0))
        is_done = (
            # As in scikit-learn's ``_gram_omp``, whose last steps depend on rounding.
            (strength * strength < least)
            | (dot(b, state.taken, chosen) > zero)
            | ((state.count > zero) & (square <= least))
        )
        length = b.op("sqrt", square)
        product, mixture = (
            (new - _mix(b, shares, old)) / length
            for new, old in ((row, state.products), (chosen, state.mixtures))
        )
        code = state.code + strength / length * mixture
        directions = (
            self._add_direction(b, state, old, new)
            for old, new in ((state.products, product), (state.mixtures, mixture))
        )
        return b.where(
            is_done, before, b.concat([code, state.taken + chosen, state.count + one, *directions])
        )

    def _add_direction(
        self, b: Builder, state: _PursuitState, directions: Value, new: Value
    ) -> Value:
        """Put a direction in the first free place."""
        place = b.cast(
            b.op("eq", state.count, b.constant(np.arange(self.n_atoms), new.dtype)), new.dtype
        )
        return b.reshape(
            directions + b.reshape(place, self.n_atoms, 1) * as_row(b, new),
            self.n_atoms * len(self.gram),
        )

    def _state(self, b: Builder, state: Value) -> _PursuitState:
        size = len(self.gram)
        area = self.n_atoms * len(self.gram)
        runs = np.split(np.arange(self.width), np.cumsum([size, size, 1, area]))
        code, taken, count, *directions = (b.take(state, run) for run in runs)
        return _PursuitState(
            code, taken, count, *(b.reshape(part, self.n_atoms, size) for part in directions)
        )


def _mix(b: Builder, shares: Value, directions: Value) -> Value:
    """Sum of the directions, each times its share."""
    return b.reduce("reduce_sum", b.reshape(shares, shares.shape[0], 1) * directions)


@container
class NonNegativeWeights(Node):
    """Find weights ``w >= 0`` of the components in each row, in x's dtype.

    Coordinate descent starts from zero. Each round takes the components in order, and moves the
    weight of each to the minimum of
    ``||x - w @ components||**2 / 2 + l1 * sum(w) + l2 * sum(w**2) / 2``.

    The violation of a round is the sum of the slopes that it met, without those that push a weight
    of zero below zero. A row is done when its violation is at most ``tolerance`` times that of its
    first round, or after ``steps`` rounds.

    Parameters
    ----------
    components : Array, shape (n_components, width)
    l1, l2 : float
    tolerance : float
    steps : int
    """

    x: Node
    components: Array
    l1: float
    l2: float
    tolerance: float
    steps: int

    @property
    def detail(self) -> str:
        return f"{len(self.components)} components  at most {self.steps} rounds"

    @property
    def alone(self) -> bool:
        """The source model adds up the violations of all rows, and stops them together."""
        return self.tolerance > 0

    def infer(self) -> Type:
        return Type(len(self.components), self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.components, self.x.type.width, self.tolerance)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Repeat a round on the state of each row.

        The state is the weights, the violation of the first round, which is -1 before it, and
        whether the row is done.
        """
        (x,) = inputs
        components = self.components.data
        size = len(components)
        start = b.op("expand", x, b.constant([*np.zeros(size), -1.0, 0.0], x.dtype))
        target = b.matmul(x, b.constant(components.T, x.dtype)) - b.constant(self.l1, x.dtype)
        state = b.iterate(self.steps, start, target, self._round)
        return b.take(state, np.arange(size))

    def _round(self, b: Builder, state: Value, target: Value) -> Value:
        size = len(self.components)
        weights, first, is_done = (
            b.take(state, run) for run in np.split(np.arange(size + 2), [size, size + 1])
        )
        weights, violation = self._descend(b, weights, target)
        first = b.where(first < b.constant(0.0, first.dtype), violation, first)
        after = b.concat([weights, first, b.cast(self._stops(b, violation, first), state.dtype)])
        return b.where(is_done > b.constant(0.0, state.dtype), state, after)

    def _descend(self, b: Builder, weights: Value, target: Value) -> tuple[Value, Value]:
        """Move each weight once; return the weights and the violation."""
        components = self.components.data
        # The second penalty only adds to the squared lengths.
        gram = components @ components.T + self.l2 * np.eye(len(components), dtype=components.dtype)
        zero = b.constant(0.0, weights.dtype)
        violation = b.constant([0.0], weights.dtype)
        for t in range(len(gram)):
            weight = b.take(weights, [t])
            slope = b.matmul(weights, b.constant(gram[:, [t]], weights.dtype)) - b.take(target, [t])
            # A weight of 0 cannot fall, so a positive slope there is no violation.
            kept = b.where(b.op("eq", weight, zero), b.op("minimum", slope, zero), slope)
            violation = violation + b.op("abs", kept)
            # A component of zeros has no minimum, so its weight stays.
            if gram[t, t] != 0:
                moved = weight - slope / b.constant(gram[t, t], weights.dtype)
                is_moved = b.constant(np.arange(len(gram)) == t)
                weights = b.where(is_moved, b.op("maximum", moved, zero), weights)
        return weights, violation

    def _stops(self, b: Builder, violation: Value, first: Value) -> Value:
        """Return whether a violation is small relative to the first; the quotient is of float64."""
        # The source divides Python's floats there, whatever the dtype of the matrix.
        share = b.cast(violation, "float64") / b.cast(first, "float64")
        is_small = share <= b.constant(self.tolerance, share.dtype)
        return is_small | b.op("eq", first, b.constant(0.0, first.dtype))


_EULER = 0.577215664901532860606512090082402431


@container
class TopicMixture(Node):
    """Infer the shares of the topics in each row of counts, in x's dtype.

    This is the variational inference of latent Dirichlet allocation: algorithm 1 of M. Hoffman,
    D. Blei and F. Bach, Online learning for latent Dirichlet allocation (2010). A row is done when
    its topics change by less than ``tolerance`` on average, or after ``steps`` steps.

    Parameters
    ----------
    topics : Array, shape (n_topics, width)
        ``exp(E[log(beta)])``: the weight of each word in each topic.
    prior : float
        Parameter of the Dirichlet distribution of topics over documents.
    tolerance : float
    steps : int
    """

    x: Node
    topics: Array
    prior: float
    tolerance: float
    steps: int

    @property
    def detail(self) -> str:
        return f"{len(self.topics)} topics  at most {self.steps} steps"

    def infer(self) -> Type:
        return Type(len(self.topics), self.x.type.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.topics, self.x.type.width, self.tolerance)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Repeat a step on the state of each row, starting from even weights.

        The state is each topic's weight, its ``exp(E[log(theta)])``, and whether the row is done.
        """
        (x,) = inputs
        even, working = (
            b.op("expand", x, b.constant(values, x.dtype))
            for values in (np.ones(len(self.topics)), np.zeros(1))
        )
        state = b.concat([even, _exp_digamma(b, even), working])
        state = b.iterate(self.steps, state, x, self._step) if self.steps else state
        weights = b.take(state, np.arange(len(self.topics)))
        return weights / b.reshape(b.reduce("reduce_sum", weights), 1)

    def _step(self, b: Builder, state: Value, counts: Value) -> Value:
        """Share each word among the topics; a row that is done keeps its state.

        The weight of a topic is the number of words that it gets.
        """
        size = len(self.topics)
        before, theta, is_done = (
            b.take(state, run) for run in np.split(np.arange(2 * size + 1), [size, 2 * size])
        )
        # scikit-learn adds the dtype's epsilon, so that no word has the likelihood 0.
        likelihood = b.matmul(theta, b.constant(self.topics, state.dtype)) + b.constant(
            float(np.finfo(state.dtype).eps), state.dtype
        )
        shares = b.matmul(
            counts / likelihood, b.constant(np.ascontiguousarray(self.topics.data.T), state.dtype)
        )
        weights = theta * shares + b.constant(self.prior, state.dtype)
        # The source's ``mean_change`` adds doubles, topic after topic.
        change = b.reduce("ordered_sum", b.cast(b.op("abs", before - weights), "float64"))
        converged = change / b.constant(float(size), change.dtype) < b.constant(
            self.tolerance, change.dtype
        )
        after = b.concat(
            [weights, _exp_digamma(b, weights), b.cast(b.reshape(converged, 1), state.dtype)]
        )
        return b.where(is_done > b.constant(0.0, state.dtype), state, after)


def _exp_digamma(b: Builder, weights: Value) -> Value:
    """``exp(psi(weight) - psi(sum of the weights))``."""
    total = b.reshape(b.reduce("ordered_sum", weights), 1)
    psi = _digamma(b, b.concat([weights, total]))
    size = weights.shape[0]
    return b.op("exp", b.take(psi, np.arange(size)) - b.take(psi, [size]))


def _digamma(b: Builder, x: Value) -> Value:
    """Write the derivative of log gamma at positive x, to about nine digits.

    J. Bernardo, Algorithm AS 103 (1976).
    """

    def number(value: float) -> Value:
        return b.constant(value, x.dtype)

    result = b.op("expand", x, b.constant(np.zeros(x.shape), x.dtype))
    shifted = x
    # Six steps raise any positive x to 6 or more, where the series has nine digits.
    for _ in range(6):
        is_small = shifted < number(6.0)
        result = b.where(is_small, result - number(1.0) / shifted, result)
        shifted = b.where(is_small, shifted + number(1.0), shifted)
    inverse = number(1.0) / shifted
    square = inverse * inverse
    series = square * (number(1 / 12) - square * (number(1 / 120) - square * number(1 / 252)))
    result = result + (b.op("log", shifted) - number(0.5) * inverse) - series
    # As in the source: near 0 the first two terms of the Laurent series are enough.
    return b.where(x <= number(1e-6), number(-_EULER) - number(1.0) / x, result)
