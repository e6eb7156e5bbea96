"""LassoDescent: sparse codes by coordinate descent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.counts import misfit_of_rounds
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.row_vectors import dot
from hbconv.containers.schema import Type

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LassoDescent"]

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
        given = b.concat([b.matmul(x, b.constant(atoms.T, x.dtype)), square])
        descent = _Descent(atoms @ atoms.T, self)
        state = b.iterate(self.steps, descent.start(b, given), given, descent.round)
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

    def start(self, b: Builder, given: Value) -> Value:
        """Return the state before the first round: zeros, unless the gap is small already."""
        dtype = given.dtype
        zeros, ones = (
            b.op("expand", given, b.constant(np.full(self.size, value), dtype))
            for value in (0.0, 1.0)
        )
        gap, active = self._judge(b, _State(zeros, zeros, ones), given)
        zero = b.constant(0.0, dtype)
        is_done = (gap >= zero) & (gap <= self._allowed(b, given))
        counted = b.op("expand", given, b.constant([0.0], dtype))
        return b.concat([zeros, zeros, active, counted, b.cast(is_done, dtype)])

    def round(self, b: Builder, before: Value, given: Value) -> Value:
        """Move each active coefficient once; a row that is done keeps its state."""
        size = self.size
        runs = np.split(np.arange(3 * size + 2), [size, 2 * size, 3 * size, 3 * size + 1])
        code, products, active, count, is_done = (b.take(before, run) for run in runs)
        zero, one = (b.constant(number, before.dtype) for number in (0.0, 1.0))
        state, move, largest = self._descend(b, _State(code, products, active), given)
        count = count + one
        is_still = b.op("eq", largest, zero) | (
            move / largest <= b.constant(self.lasso.tolerance, before.dtype)
        )
        is_judged = is_still | b.op("eq", count, b.constant(self.lasso.steps, before.dtype))
        gap, kept = self._judge(b, state, given)
        ends = is_judged & (gap <= self._allowed(b, given))
        left = self._without(b, state, kept)
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

    def _descend(self, b: Builder, state: _State, given: Value) -> tuple[_State, Value, Value]:
        """Return the state, the largest move and the largest coefficient of a round.

        Atoms are taken in blocks: the products with other atoms are only needed at its end.
        """
        products = state.products
        moves = []
        code = []
        for block in np.split(np.arange(self.size), range(_BLOCK, self.size, _BLOCK)):
            old = b.take(state.code, block)
            new = self._descend_block(b, replace(state, products=products), given, block)
            moves.append(new - old)
            code.append(new)
            products = products + b.matmul(moves[-1], b.constant(self.gram[block], given.dtype))
        state = _State(b.concat(code), products, state.active)
        return state, _largest(b, b.concat(moves)), _largest(b, state.code)

    def _descend_block(
        self, b: Builder, state: _State, given: Value, block: npt.NDArray[np.intp]
    ) -> Value:
        """Return the coefficients of a block after a round."""
        products = b.take(state.products, block)
        code = []
        for place, j in enumerate(block):
            old = b.take(state.code, [j])
            new = self._moved(b, old, b.take(products, [place]), b.take(given, [j]), j)
            code.append(b.where(b.take(state.active, [j]) > b.constant(0.0, old.dtype), new, old))
            row = b.constant(self.gram[j, block], old.dtype)
            products = products + (code[-1] - old) * row
        return b.concat(code)

    def _moved(self, b: Builder, old: Value, product: Value, target: Value, j: int) -> Value:
        """Move one coefficient to the minimum, which is zero near zero."""
        if self.gram[j, j] == 0:
            return old
        zero = b.constant(0.0, old.dtype)
        square = b.constant(self.gram[j, j], old.dtype)
        pull = target - product + old * square
        left = b.op("abs", pull) - b.constant(self.lasso.penalty, old.dtype)
        new = b.op("sign", pull) * b.op("maximum", left, zero) / square
        return b.where(pull < zero, zero, new) if self.lasso.positive else new

    def _judge(self, b: Builder, state: _State, given: Value) -> tuple[Value, Value]:
        """Return the duality gap, and which of the active atoms it lets stay.

        1. The slope of the loss, whose largest entry scales the dual point.
        2. The gap: primal minus dual.
        3. Atoms whose correlation with the dual point is far below one are absent.
        """
        dtype = given.dtype
        size = self.size
        half, one, two, penalty = (
            b.constant(number, dtype) for number in (0.5, 1.0, 2.0, self.lasso.penalty)
        )
        target = b.take(given, np.arange(size))
        square = b.take(given, [size])
        # 1
        slope = target - state.products
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
        radius = b.op("sqrt", two * b.op("abs", gap)) / penalty
        correlation = b.op("abs", slope / b.op("maximum", penalty, top))
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

    def _allowed(self, b: Builder, given: Value) -> Value:
        return b.constant(self.lasso.tolerance, given.dtype) * b.take(given, [self.size])

    def _differs(self, b: Builder, one: Value, other: Value) -> Value:
        return b.reshape(b.reduce("reduce_any", b.op("ne", one, other)), 1)


def _largest(b: Builder, x: Value) -> Value:
    return b.reshape(b.reduce("reduce_max", b.op("abs", x)), 1)
