"""The table of primitives: name, type rule, meaning in numpy, and traits of each.

A value is ``(n_rows, *shape)``; the number of rows is never known. A constant has no rows and
broadcasts: its rank is at most that of the other operand's static shape. Axes count static
dimensions: axis 0 is the first dimension after the rows.

Operands never mix dtypes: conversions are explicit ``cast``s. NaN behaves as in numpy: ``lt`` and
``le`` are False, ``minimum`` and ``reduce_max`` propagate it. ``int32`` is the dtype of indices and
codes. Arithmetic on it never overflows; ``gather`` and ``lookup`` read at positions in range.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from hbconv.tensor.types import NumpyArray, TypeRule

__all__ = ["ELEMENTWISE", "PRIMITIVES", "OpKind", "Primitive", "define"]


class OpKind(Enum):
    """What a primitive does with entries: the trait that passes, backends and costs go by."""

    ARITHMETIC = "arithmetic"
    """Elementwise, by a few instructions: arithmetic, comparison, selection, conversion."""
    TRANSCENDENTAL = "transcendental"
    """Elementwise, by a function of a mathematics library."""
    VIEW = "view"
    """The last operand's entries where they are: only the shape changes."""
    COPY = "copy"
    """Entries copied from positions that are known when the program is written."""
    READ = "read"
    """Entries read, written or counted at positions that the data determine."""
    PRODUCT = "product"
    """Terms of a row and a constant matrix, multiplied and added up."""
    REDUCTION = "reduction"
    """Entries along one axis combined or sorted."""
    TREES = "trees"
    """A whole forest, by a strategy."""
    CONTRIBUTIONS = "contributions"
    """What each feature adds to the sums of a whole forest."""
    LOOP = "loop"
    """A program repeated."""


ELEMENTWISE = frozenset({OpKind.ARITHMETIC, OpKind.TRANSCENDENTAL})
"""Kinds whose result has at each place a function of the operands' entries at that place."""


@dataclass(frozen=True)
class Primitive:
    """One operator of the tensor vocabulary.

    Parameters
    ----------
    name : str
    infer : callable
        ``infer(*types, **attributes)`` returns the result's type or raises VerificationError.
    evaluate : callable
        ``evaluate(*arrays, **attributes)`` is its meaning, in numpy.
    kind : OpKind
    may_alias : bool
        Whether the result may share the memory of the last operand.
    """

    name: str
    infer: TypeRule
    evaluate: Callable[..., NumpyArray]
    kind: OpKind
    may_alias: bool = False


PRIMITIVES: dict[str, Primitive] = {}
"""All primitives by name; ``hbconv.tensor.primitives`` and ``hbconv.trees`` fill it."""


def define(
    name: str,
    infer: TypeRule,
    evaluate: Callable[..., NumpyArray],
    kind: OpKind,
    *,
    may_alias: bool = False,
) -> None:
    """Add a primitive to the table."""
    PRIMITIVES[name] = Primitive(name, infer, evaluate, kind, may_alias)
