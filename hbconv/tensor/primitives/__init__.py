"""The primitives, a file for each kind; importing this package fills the table.

Those of a whole forest are in ``hbconv.trees.primitives``.
"""

from hbconv.tensor.primitive import ELEMENTWISE, PRIMITIVES, OpKind, Primitive
from hbconv.tensor.primitives import (
    elementwise,
    movement,
    products,
    searches,
)

__all__ = [
    "ELEMENTWISE",
    "PRIMITIVES",
    "OpKind",
    "Primitive",
    "elementwise",
    "movement",
    "products",
    "searches",
]
