"""The primitives, a file for each kind; importing this package fills the table."""

from hbconv.tensor.primitive import ELEMENTWISE, PRIMITIVES, OpKind, Primitive
from hbconv.tensor.primitives import (
    elementwise,
    iterate,
    movement,
    products,
    reads,
    reductions,
    searches,
    trees,
)

__all__ = [
    "ELEMENTWISE",
    "PRIMITIVES",
    "OpKind",
    "Primitive",
    "elementwise",
    "iterate",
    "movement",
    "products",
    "reads",
    "reductions",
    "searches",
    "trees",
]
