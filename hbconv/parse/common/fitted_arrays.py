"""Fitted arrays as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["dense"]


def dense(weights: Any) -> npt.NDArray[Any]:
    """Return weights as an array, also those that ``sparsify()`` made a scipy matrix."""
    return np.asarray(weights.toarray() if hasattr(weights, "toarray") else weights)
