"""Datatypes of the Open Inference Protocol, and the numpy dtypes they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbconv.errors import InputError, shown

__all__ = ["BYTES", "DTYPES", "datatype_of", "dtype_of"]

BYTES = "BYTES"
DTYPES = {
    "BOOL": np.dtype("bool"),
    "UINT8": np.dtype("uint8"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("int8"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    BYTES: np.dtype(object),
}
"""Each datatype, as its values lie in a binary request; those of BYTES become text."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_of(name: str, datatype: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor's datatype.

    Raises
    ------
    InputError
        It is no datatype that the server reads.
    """
    found = DTYPES.get(datatype) if isinstance(datatype, str) else None
    if found is None:
        raise InputError(
            f"Input {shown(name)} has datatype {shown(datatype)}. Known: {', '.join(DTYPES)}."
        )
    return found


def datatype_of(dtype: np.dtype[Any]) -> str:
    """Return the datatype of a dtype; text and objects are BYTES.

    Examples
    --------
    >>> datatype_of(np.dtype("float64")), datatype_of(np.dtype("U3"))
    ('FP64', 'BYTES')
    """
    return _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("<"), BYTES)
