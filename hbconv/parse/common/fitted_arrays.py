"""Fitted arrays as numpy arrays.

The dtype in which the source model computes with rows and fitted arrays together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Cast, Node

__all__ = ["dense", "promoted"]


def dense(weights: Any) -> npt.NDArray[Any]:
    """Return weights as an array, also those that ``sparsify()`` made a scipy matrix."""
    return np.asarray(weights.toarray() if hasattr(weights, "toarray") else weights)


def promoted(x: Node, *constants: Any) -> Node:
    """Cast x to numpy's common dtype with arrays: float64 unless all are float32."""
    narrow = all(np.asarray(constant).dtype == np.float32 for constant in constants)
    return Cast(x, "float" if narrow else "float64")
