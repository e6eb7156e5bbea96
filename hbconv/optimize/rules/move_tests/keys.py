"""Keys: whole numbers in the order of the values of a dtype, to bisect between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Keys", "keys_of", "values_of"]

Keys = npt.NDArray[np.int64]


def keys_of(values: npt.ArrayLike, dtype: str) -> Keys:
    """Return the place of each value among those of its dtype, from 0 for 0.0 and -1 for -0.0.

    An int is its own key. NaN has a key above that of infinity.

    Examples
    --------
    >>> keys_of([-0.0, 0.0, 5e-324], "float64")
    array([-1,  0,  1])
    """
    given = np.asarray(values, dtype)
    if given.dtype.kind != "f":
        return given.astype(np.int64)
    bits = given.view(f"i{given.dtype.itemsize}").astype(np.int64)
    magnitude = bits & np.iinfo(f"i{given.dtype.itemsize}").max
    return np.where(bits < 0, -1 - magnitude, magnitude)


def values_of(keys: Keys, dtype: str) -> npt.NDArray[Any]:
    """Return the values of some keys.

    Examples
    --------
    >>> values_of(keys_of([-1.5, np.inf, np.nan], "float32"), "float32")
    array([-1.5,  inf,  nan], dtype=float32)
    """
    kind = np.dtype(dtype)
    if kind.kind != "f":
        return keys.astype(kind)
    whole = f"i{kind.itemsize}"
    negative = (-1 - keys) + np.int64(np.iinfo(whole).min)
    return np.where(keys < 0, negative, keys).astype(whole).view(kind)
