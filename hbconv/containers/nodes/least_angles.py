"""LeastAngles: sparse codes by least angle regression, and the state of a row on such a path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.node import Node, container
from hbconv.containers.nodes.linear import (
    as_column,
    as_row,
    dot,
    is_set,
    least_positive,
    number,
    one_hot,
    square,
    total,
)
from hbconv.containers.schema import Type
from hbconv.containers.vocabulary import misfit_of_rounds

if TYPE_CHECKING:
    from hbconv.tensor.builder import Builder, Value

__all__ = ["LeastAngles"]

_TINY = float(np.finfo(np.float32).tiny)
"""What the source model adds to divisors."""
_SAME = float(np.finfo(np.float32).eps)
"""Levels no further apart are one level."""
_LEAST_PIVOT = 1e-7
"""An atom no further than this from the sums of those taken is left out."""
_LONGEST = 4.0
"""Squared length of an atom up to which float64 finds all atoms that depend on others."""


@container
class LeastAngles(Node):
    """Follow a path of least angle regression for each row, to the code at its end.

    B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least angle regression (2004). Each step
    takes the atom most correlated with the rest of the row. Then it moves the code in the
    direction of equal angles with all atoms taken, until one more atom is as correlated. In a path
    of the lasso, a move stops where a coefficient becomes zero, and its atom leaves.

    A row is done when the largest correlation of an atom not taken, divided by the width of x, is
    at most ``least``. It is also done after ``steps`` moves, or when all atoms are taken.

    Parameters
    ----------
    dictionary : Array, shape (n_dictionary, width)
        An atom a row.
    path : {"angles", "lasso", "positive lasso"}
        No coefficient of a positive lasso is below zero.
    least : float
    steps : int
    """

    x: Node
    dictionary: Array
    path: Literal["angles", "lasso", "positive lasso"]
    least: float
    steps: int

    decides: ClassVar[bool] = True
    starts_as_x: ClassVar[bool] = True

    @property
    def detail(self) -> str:
        return f"{len(self.dictionary)} atoms  {self.path}  at most {self.steps} moves"

    def infer(self) -> Type:
        return Type(len(self.dictionary), self.dictionary.dtype)

    def check(self) -> str | None:
        return misfit_of_rounds(self.steps, self.dictionary, self.x.type.width)

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Compute in float64, from products rounded as the source model rounds them."""
        (x,) = inputs
        atoms = self.dictionary.data
        # Rounded as the source has them; all that follows is in float64.
        products = b.matmul(*b.promote(x, b.constant(atoms.T)))
        gram = (atoms @ atoms.T).astype(x.dtype).astype(np.float64)
        slots = self._most_taken(gram, products.dtype)
        walk = _Walk(gram, self, slots, x.shape[0], 10.0 ** np.finfo(products.dtype).precision)
        target = b.cast(products, "float64")
        # Rounds that skip an atom or turn one around are
        # no moves, so they come on top of ``steps``.
        state = b.iterate(self.steps + 4 * len(atoms), walk.start(b, target), target, walk.step)
        return b.cast(b.take(state, np.arange(len(atoms))), self.type.dtype)

    def _most_taken(self, gram: npt.NDArray[np.float64], dtype: str) -> int:
        """Bound how many atoms are taken at once.

        More than the width depend on each other, which float64 shows if none is long.
        """
        most = min(len(gram), self.steps)
        # float32 products hide that atoms depend on each other, so then any number may be taken.
        shows = {dtype, self.dictionary.dtype} == {"float64"} and np.diag(gram).max() <= _LONGEST
        return max(min(most, self.dictionary.shape[1]) if shows else most, 1)


@dataclass(frozen=True, eq=False)
class _Walk:
    gram: npt.NDArray[np.float64]
    angles: LeastAngles
    n_slots: int
    width: int
    scale: float

    @property
    def size(self) -> int:
        """Number of atoms."""
        return len(self.gram)

    def start(self, b: Builder, target: Value) -> Value:
        """Return the state in which nothing is taken."""
        zeros = np.zeros(2 * self.size)
        free = np.full(self.n_slots, float(self.size))
        # The state is one vector for ``iterate``; numbers of atoms and slots are held as floats.
        behind = [*zeros, *np.arange(self.size), *free, *np.zeros(self.n_slots**2 + 4)]
        parts = (b.op("expand", target, b.constant(x, target.dtype)) for x in (zeros, behind))
        before, rest = parts
        return b.concat([before, target, rest])

    def step(self, b: Builder, before: Value, target: Value) -> Value:
        """Take an atom and move, or end; a row that is done keeps its state.

        1. Find the atom most correlated with the rest, and whether the path ends there.
        2. Take it, unless the last move turned an atom around, or it depends on those taken.
        3. Move, unless the level rises, for then rounding has eaten the rest.
        4. Let the atom leave whose coefficient became zero.
        """
        state = self._state(b, before)
        zero = number(b, 0.0)
        # 1
        lead = self._lead(b, state)
        level = lead.height / number(b, float(self.width))
        code, ends = self._end(b, state, level)
        works = ~is_set(b, state.is_done)
        # 2
        growth, is_dependent = self._grow(b, state, lead)
        skips = works & ~ends & is_dependent
        # 3
        move = self._move(b, state, growth, lead)
        stops = works & ~skips & (ends | self._rises(b, state, level))
        goes = works & ~skips & ~stops
        # 4
        inverse = state.inverse + square(b, growth.v, b.where(goes, growth.factor, zero))
        after = growth
        rest = move.rest
        if self.is_lasso:
            after, rest, v, factor = self._leave(b, state, growth, move, target)
            inverse = inverse - square(b, v, b.where(goes, factor, zero))
        order = b.where(skips, growth.order, state.order)
        skipped = b.where(skips, self._skip(b, state, lead), state.rest)
        parts = [
            b.where(works & ends, code, b.where(goes, move.code, state.code)),
            b.where(goes, state.code, state.before),
            b.where(goes, rest, skipped),
            b.where(goes, after.taken, state.taken),
            b.where(goes, move.sign, state.sign),
            b.where(goes, after.order, order),
            b.where(goes, after.slots, state.slots),
            b.reshape(inverse, self.n_slots**2),
            b.where(goes, level, state.level),
            state.moves + b.cast(goes, before.dtype),
            b.where(goes, move.turned, state.turned),
            b.where(stops, number(b, 1.0), state.is_done),
        ]
        return b.concat(parts)

    @property
    def is_lasso(self) -> bool:
        """Whether atoms leave."""
        return self.angles.path != "angles"

    @property
    def is_positive(self) -> bool:
        """Whether coefficients stay above zero."""
        return self.angles.path == "positive lasso"

    def _state(self, b: Builder, values: Value) -> State:
        ends = np.cumsum([self.size] * 6 + [self.n_slots, self.n_slots**2, 1, 1, 1])
        parts = [b.take(values, run) for run in np.split(np.arange(values.shape[0]), ends)]
        parts[7] = b.reshape(parts[7], self.n_slots, self.n_slots)
        return State(*parts)

    def _at_slots(self, b: Builder, x: Value, slots: Value) -> Value:
        """Read a number of each atom at the slots; 0 at those that are free."""
        # Free slots hold the number behind the last atom, which reads this 0.
        padded = b.concat([x, b.op("expand", x, number(b, 0.0))])
        return b.gather(padded, b.cast(slots, "int32"))

    def _lead(self, b: Builder, state: State) -> Lead:
        """Find the first of the largest correlations; where no atom is left, the height is 0."""
        strength = state.rest if self.is_positive else b.op("abs", state.rest)
        is_taken = is_set(b, state.taken)
        # Minus infinity never wins, so atoms that are taken are passed over.
        open_ = b.where(is_taken, number(b, -np.inf), strength)
        height = b.reshape(b.reduce("reduce_max", open_), 1)
        is_best = ~is_taken & b.op("eq", open_, height)
        # Of equal correlations the source takes the first
        # in its own order, which swaps have changed.
        index = b.reduce("argmax", b.where(is_best, -state.order, number(b, -np.inf)))
        is_all = total(b, state.taken) >= number(b, float(self.size))
        return Lead(
            one_hot(b, index, self.size),
            b.reshape(b.cast(index, "float64"), 1),
            b.lookup(b.constant(self.gram), index),
            b.where(is_all, number(b, 0.0), height),
        )

    def _end(self, b: Builder, state: State, level: Value) -> tuple[Value, Value]:
        """Return the code at the least level, and whether the path ends here."""
        least = number(b, self.angles.least)
        is_low = level <= number(b, self.angles.least + _SAME)
        between = b.op("abs", level - least) > number(b, _SAME)
        share = (state.level - least) / (state.level - level)
        code = b.where(
            is_low & between & is_set(b, state.moves),
            state.before + share * (state.code - state.before),
            state.code,
        )
        is_over = (state.moves >= number(b, float(self.angles.steps))) | (
            total(b, state.taken) >= number(b, float(self.size))
        )
        return code, is_low | is_over

    def _grow(self, b: Builder, state: State, lead: Lead) -> tuple[Growth, Value]:
        """Take the lead, and tell whether it depends on the atoms taken.

        The pivot is its distance to their sums. As a square it is zero to the last bits where the
        atoms depend on each other, though the inverse is not exact.
        """
        is_new = ~is_set(b, state.turned)
        is_free = b.op("eq", state.slots, number(b, float(self.size)))
        slot = one_hot(b, b.reduce("argmax", b.cast(is_free, "int32")), self.n_slots)
        products = self._at_slots(b, lead.products, state.slots)
        shares = b.reduce("reduce_sum", state.inverse * as_row(b, products), axis=1)
        tokens = b.cast(state.slots, "int32")
        apart = lead.place - b.op("scatter", tokens, shares, width=self.size)
        rest = dot(b, b.matmul(apart, b.constant(self.gram)), apart)
        # Rounding may leave the square just below 0.
        pivot = b.op("sqrt", b.op("abs", rest))
        is_full = ~b.reshape(b.reduce("reduce_any", is_free), 1)
        is_dependent = is_new & (is_full | (pivot < number(b, _LEAST_PIVOT)))
        sign = number(b, 1.0) if self.is_positive else b.op("sign", state.rest)
        came = is_new & is_set(b, lead.place)
        growth = Growth(
            b.where(came, number(b, 1.0), state.taken),
            b.where(came, sign, state.sign),
            b.where(is_new, self._swap_order(b, state, lead), state.order),
            b.where(is_new & is_set(b, slot), lead.index, state.slots),
            b.where(is_set(b, slot), number(b, 1.0), b.where(is_free, number(b, 0.0), -shares)),
            b.where(is_new, number(b, 1.0) / (pivot * pivot), number(b, 0.0)),
        )
        return growth, is_dependent

    def _swap_order(self, b: Builder, state: State, lead: Lead) -> Value:
        """Swap the lead with the first atom that is not taken."""
        first = total(b, state.taken)
        others = b.where(
            b.op("eq", state.order, first), dot(b, state.order, lead.place), state.order
        )
        return b.where(is_set(b, lead.place), first, others)

    def _skip(self, b: Builder, state: State, lead: Lead) -> Value:
        """Return the rest where the lead is left out.

        The source model swaps the atoms, but not their correlations. So the lead gets that of the
        first atom not taken, and this one gets 0.
        """
        is_first = b.op("eq", state.order, total(b, state.taken))
        moved = dot(b, state.rest, b.cast(is_first, state.rest.dtype))
        zero = number(b, 0.0)
        return b.where(is_first, zero, b.where(is_set(b, lead.place), moved, state.rest))

    def _rises(self, b: Builder, state: State, level: Value) -> Value:
        # scikit-learn's ``lars_path`` stops early for this on paths of the lasso alone.
        is_checked = b.constant(np.array([self.is_lasso]))
        return is_checked & is_set(b, state.moves) & (state.level < level)

    def _move(self, b: Builder, state: State, growth: Growth, lead: Lead) -> Move:
        """Move until an atom is as correlated, or a coefficient becomes zero.

        1. The direction of equal angles, and its correlation with all atoms, rounded.
        2. How far it is until another atom joins.
        3. How far it is until a coefficient becomes zero.
        4. The move.
        """
        tiny = number(b, _TINY)
        zero = number(b, 0.0)
        is_taken = is_set(b, growth.taken)
        # 1
        signs = self._at_slots(b, growth.sign, growth.slots)
        shares = b.reduce("reduce_sum", state.inverse * as_row(b, signs), axis=1)
        solved = shares + growth.factor * dot(b, growth.v, signs) * growth.v
        tokens = b.cast(growth.slots, "int32")
        norm = number(b, 1.0) / b.op("sqrt", dot(b, solved, signs))
        direction = b.op("scatter", tokens, solved * norm, width=self.size)
        turn = self._round(b, b.matmul(direction, b.constant(self.gram)))
        # 2
        # The source adds the same tiny number, against divisions by 0 and for equal quotients.
        gaps = [(lead.height - state.rest) / (norm - turn + tiny)]
        if not self.is_positive:
            gaps.append((lead.height + state.rest) / (norm + turn + tiny))
        length = lead.height / norm
        for gap in gaps:
            length = b.op("minimum", length, least_positive(b, gap, ~is_taken))
        # 3
        until = -state.code / (direction + tiny)
        # An atom whose coefficient is 0 already gives a step of 0, which counts as none.
        first = least_positive(b, until, is_taken)
        turns = first < length
        turning = turns & is_taken & b.op("eq", until, first)
        if self.is_lasso:
            length = b.where(turns, first, length)
        # 4
        return Move(
            b.where(is_taken, state.code + length * direction, zero),
            b.where(is_taken, state.rest, state.rest - length * turn),
            b.where(turning, -growth.sign, growth.sign),
            turning,
            b.cast(turns, direction.dtype),
        )

    def _round(self, b: Builder, x: Value) -> Value:
        """Round to the decimals of the source model, which keep its next atom stable."""
        scale = number(b, self.scale)
        return b.op("rint", x * scale) / scale

    def _leave(
        self, b: Builder, state: State, growth: Growth, move: Move, target: Value
    ) -> tuple[Growth, Value, Value, Value]:
        """Let an atom leave: return who is taken, the rest, and what the inverse loses.

        That is ``factor * v * v'``. The rest of the atom that leaves is computed afresh.
        """
        zero = number(b, 0.0)
        turned = is_set(b, move.turned)
        index = b.reduce("argmax", b.cast(move.turning, "int32"))
        place = b.cast(turned, growth.v.dtype) * one_hot(b, index, self.size)
        slot = self._at_slots(b, place, growth.slots)
        column = b.reduce("reduce_sum", state.inverse * as_column(b, slot), axis=0)
        v = column + growth.factor * dot(b, growth.v, slot) * growth.v
        products = b.lookup(b.constant(self.gram), index)
        # Updates of the atoms taken are left out on the
        # way, so this one has no correlation to go on from.
        rest = dot(b, target, place) - dot(b, products, move.code)
        is_gone = is_set(b, place)
        taken = b.where(is_gone, zero, growth.taken)
        last = total(b, growth.taken) - number(b, 1.0)
        is_behind = (growth.order > dot(b, growth.order, place)) & (growth.order <= last)
        closed = b.where(is_behind, growth.order - number(b, 1.0), growth.order)
        left = replace(
            growth,
            taken=taken,
            order=b.where(turned, b.where(is_gone, last, closed), growth.order),
            slots=b.where(is_set(b, slot), number(b, float(self.size)), growth.slots),
        )
        return (
            left,
            b.where(is_gone, rest, move.rest),
            v,
            b.where(turned, number(b, 1.0) / dot(b, v, slot), zero),
        )


@dataclass(frozen=True)
class State:
    """State of a row.

    For each atom: its coefficient, that before the last move, its correlation with the rest of the
    row, whether it is taken, the sign of its direction, and its place in the source model's order,
    in which those taken come first. Then the slots, each with the number
    of an atom taken, or the number of all atoms where it is free. Then the inverse of the products
    of the atoms in the slots, and four numbers.
    """

    code: Value
    before: Value
    rest: Value
    taken: Value
    sign: Value
    order: Value
    slots: Value
    inverse: Value
    level: Value
    moves: Value
    turned: Value
    is_done: Value


@dataclass(frozen=True)
class Lead:
    """The atom most correlated with the rest: flags, number, products, and its correlation."""

    place: Value
    index: Value
    products: Value
    height: Value


@dataclass(frozen=True)
class Growth:
    """The atoms taken once the lead is among them.

    The inverse grows by ``factor * v * v'``; the factor is 0 where the lead does not come in.
    """

    taken: Value
    sign: Value
    order: Value
    slots: Value
    v: Value
    factor: Value


@dataclass(frozen=True)
class Move:
    """What a move makes of the state, and which atoms it turns around."""

    code: Value
    rest: Value
    sign: Value
    turning: Value
    turned: Value
