"""What a step along a path of least angle regression knows of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hbconv.tensor.builder import Value

__all__ = ["Growth", "Lead", "Move", "State"]


@dataclass(frozen=True)
class State:
    """State of a row.

    For each atom: its coefficient, that before the last move, its correlation with the rest of the
    row, whether it is taken, the sign of its direction, and its place in the source model's order,
    in which those taken stand first. Then the slots, each with the number
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
