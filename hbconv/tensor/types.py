"""Types of values in a tensor program, and what the primitives' type rules share."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import VerificationError

__all__ = [
    "FLOATS",
    "INTS",
    "NumpyArray",
    "TensorType",
    "TypeRule",
    "broadcast",
    "require",
    "same_dtype",
]

NumpyArray = npt.NDArray[Any]
FLOATS = ("float32", "float64")
INTS = ("int32", "int64")


@dataclass(frozen=True)
class TensorType:
    """Dtype and static shape of a value.

    Parameters
    ----------
    dtype : str
    shape : tuple of int
        Static dimensions, without the rows.
    rows : bool
        Whether a leading row dimension precedes the shape. A constant has none.
    """

    dtype: str
    shape: tuple[int, ...]
    rows: bool = True

    @property
    def row_bytes(self) -> int:
        """Bytes of one row; a constant has none."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape) if self.rows else 0

    def __str__(self) -> str:
        dims = (["n"] if self.rows else []) + [str(d) for d in self.shape]
        return f"{self.dtype}[{', '.join(dims)}]"


TypeRule = Callable[..., TensorType]
"""Type rule of a primitive: ``infer(*types, **attributes)`` returns the result's type or raises."""


def require(condition: bool, message: str) -> None:
    """Raise VerificationError unless the condition holds."""
    if not condition:
        raise VerificationError(message)


def same_dtype(*types: TensorType) -> None:
    """Require one dtype for all operands."""
    require(len({t.dtype for t in types}) == 1, f"dtypes differ: {[str(t) for t in types]}")


def broadcast(*types: TensorType) -> TensorType:
    """Return the type of an elementwise result; its dtype is that of the first operand."""
    ranks = [len(t.shape) for t in types if t.rows]
    require(bool(ranks), "at least one operand must have rows")
    rank = max(ranks)
    fits = all(len(t.shape) == rank if t.rows else len(t.shape) <= rank for t in types)
    require(fits, f"ranks differ: {[str(t) for t in types]}")
    try:
        return TensorType(types[0].dtype, np.broadcast_shapes(*(t.shape for t in types)))
    except ValueError as error:
        raise VerificationError(f"shapes do not broadcast: {[str(t) for t in types]}") from error
