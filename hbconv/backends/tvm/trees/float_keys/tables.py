"""Keys of thresholds: unsigned integers in the order of the floats that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["KEY_DTYPES", "keys_of"]

KEY_DTYPES = {"float32": "int32", "float64": "int64"}
"""Dtype in which the key of a float is stored."""


def keys_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return integers in the order of floats: both zeros alike, NaN least.

    The bits of a positive float ascend with it, those of a negative one descend. So a positive
    one's sign bit is set, and of a negative one all bits are flipped.
    """
    unsigned = f"u{values.dtype.itemsize}"
    n_bits = 8 * values.dtype.itemsize
    raw = np.where(values == 0, np.zeros((), values.dtype), values).view(unsigned).astype(np.uint64)
    sign = np.uint64(1 << (n_bits - 1))
    all_bits = np.uint64((1 << n_bits) - 1)
    keys = np.where(raw & sign, raw ^ all_bits, raw | sign)
    # No value is below a threshold of NaN, and no key is below 0.
    return np.where(np.isnan(values), np.uint64(0), keys)
