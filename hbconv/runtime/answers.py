"""From a program's values to the answers of the estimator: shapes, dtypes, labels, sparsity."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Output

__all__ = ["answer", "join"]


def answer(output: Output, values: npt.NDArray[Any]) -> Any:
    """Return values as the source's method does.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Output, Schema
    >>> from hbconv.containers.columns import Columns
    >>> output = Output(Columns.of(Schema.matrix(1)), classes=Array(["no", "yes"]), vector=True)
    >>> answer(output, np.array([[1], [0]], np.int32)).tolist()
    ['yes', 'no']
    """
    values = values[:, 0] if output.vector else values
    if output.classes is not None:
        values = output.classes.data[values]
    if output.dtype is not None:
        values = values.astype(output.dtype, copy=False)
    return _sparse(values) if output.sparse and importlib.util.find_spec("scipy") is not None else values


def join(parts: Sequence[Any]) -> Any:
    """Return the answers of consecutive rows as one."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def _sparse(values: npt.NDArray[Any]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(values)
