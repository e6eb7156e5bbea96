"""Answers as torch tensors, on the device of the rows. Torch is imported where tensors come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array

__all__ = [
    "as_tensors",
    "cast",
    "concatenate",
    "from_array",
    "look_up",
    "on_host",
    "stack",
    "typed",
]

NO_TENSOR = "OUSmM"
"""Kinds of dtypes that torch lacks: text and objects, durations and dates."""


def as_tensors(answer: Any, x: Any) -> Any:
    """Return the arrays of an answer as torch tensors on the device of the tensor x.

    Labels that are text or dates, and sparse matrices, stay as they are.
    """
    if isinstance(answer, np.ndarray):
        return answer if answer.dtype.kind in NO_TENSOR else from_array(answer, x.device)
    if hasattr(answer, "detach"):
        return answer.contiguous().to(x.device)
    if isinstance(answer, list | tuple | Iterator):
        tensors = [as_tensors(block, x) for block in answer]
        return iter(tensors) if isinstance(answer, Iterator) else type(answer)(tensors)
    return answer


def from_array(array: npt.NDArray[Any], device: Any) -> Any:
    """Return a numpy array as a tensor on a device."""
    import torch

    # Torch takes native byte order alone.
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    # A tensor over read-only memory could write to it, of which torch warns.
    return torch.from_numpy(np.require(native, requirements=["C", "W"])).to(device)


def on_host(values: Any) -> Any:
    """Return values, an array or a tensor, as an array."""
    return values.cpu().numpy() if hasattr(values, "detach") else values


def cast(values: Any, dtype: npt.DTypeLike | None) -> Any:
    """Return an array or a tensor in another dtype of numpy's; None leaves it."""
    if dtype is None:
        return values
    if hasattr(values, "detach"):
        return typed(values, _torch_dtype(np.dtype(dtype)))
    return values.astype(dtype, copy=False)


def typed(tensor: Any, dtype: Any) -> Any:
    """Return a tensor in a dtype of torch; ``to`` takes a microsecond even where it is that."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def look_up(labels: Array, codes: Any) -> Any:
    """Return the label of each code, on the device of the codes if a tensor can hold it."""
    if not hasattr(codes, "detach"):
        # Labels 0, 1, 2... are their own codes.
        counts = labels.is_count
        return codes.astype(labels.data.dtype) if counts else np.asarray(labels.data.take(codes))
    # Torch has no text, so these labels are looked up on the host.
    if labels.data.dtype.kind in NO_TENSOR:
        return labels.data.take(on_host(codes))
    if labels.is_count:
        return cast(codes, labels.data.dtype)
    return _table(labels, codes.device)[codes.long()]


def stack(columns: Sequence[Any]) -> Any:
    """Return columns side by side: a tensor if all are, else an array."""
    if not all(hasattr(column, "detach") for column in columns):
        return np.stack([on_host(column) for column in columns], axis=1)
    import torch

    return torch.stack(list(columns), dim=1)


def concatenate(parts: Sequence[Any]) -> Any:
    """Return tensors one after another."""
    import torch

    return torch.cat(list(parts))


@lru_cache(maxsize=64)
def _table(labels: Array, device: Any) -> Any:
    return from_array(labels.data, device)


@lru_cache(maxsize=64)
def _torch_dtype(dtype: np.dtype[Any]) -> Any:
    return from_array(np.empty(0, dtype), "cpu").dtype
