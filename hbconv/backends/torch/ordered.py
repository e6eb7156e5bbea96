"""Sums of one term after another, on the CPU and on devices: the plain ones take any order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, reduce
from typing import Any

import torch
from torch import Tensor

from hbconv.backends.torch.jit import script

__all__ = [
    "add_in_turn",
    "adds_on_cpu",
    "cumsum",
    "forms_for",
    "ordered_logsumexp",
    "ordered_sum",
]

_FOR_DEVICES: ContextVar[bool] = ContextVar("for_devices", default=False)


@contextmanager
def forms_for(device: str) -> Iterator[None]:
    """Let what is traced inside add as a device must, though it is traced on the CPU."""
    token = _FOR_DEVICES.set(device.partition(":")[0] != "cpu")
    try:
        yield
    finally:
        _FOR_DEVICES.reset(token)


def adds_on_cpu(x: Tensor) -> bool:
    """Whether terms are added in the forms that only the CPU takes in order.

    ``torch.compile`` cannot read a context variable, and compiles for the device of its rows.
    """
    compiled = torch.compiler.is_dynamo_compiling()
    return x.is_cpu and (compiled or not _FOR_DEVICES.get())


def ordered_sum(x: Tensor, dim: int) -> Tensor:
    """Add one term after another, in a single call.

    ``sum`` adds pairs, and a loop is a call for each term. On the CPU the result is the sequential
    sum to the last bit:

    1. ``cumsum`` adds float64 terms along each row.
    2. ``index_add`` adds float32 terms by column: ``cumsum`` would hold their sums in double.
    3. On other devices, ``add_in_turn`` does.

    Only a compiler may reorder float32 terms. TorchScript chooses when it runs.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        total: Tensor = _scripted(_sum_on_any)(x, dim)
        return total
    return _sum_on_cpu(x, dim) if adds_on_cpu(x) else _sum_on_device(x, dim)


def _sum_on_any(x: Tensor, dim: int) -> Tensor:
    return _sum_on_cpu(x, dim) if x.is_cpu else _sum_on_device(x, dim)


def _sum_on_cpu(x: Tensor, dim: int) -> Tensor:
    if x.dtype == torch.float64:
        return x.cumsum(dim).select(dim, -1)
    terms = x.movedim(dim, 0).contiguous()
    first = torch.zeros(terms.size(0), dtype=torch.int64, device=x.device)
    return torch.zeros_like(terms[:1]).index_add(0, first, terms)[0]


def _sum_on_device(x: Tensor, dim: int) -> Tensor:
    terms = x.movedim(dim, 0)
    return add_in_turn(terms.flatten(1)).reshape(terms.shape[1:])


def add_in_turn(terms: Tensor) -> Tensor:
    """Add the rows of a matrix one after another, on a device."""
    return _scan_in_turn(terms)[-1]


def _scan_in_turn(terms: Tensor) -> Tensor:
    """Return the sum up to each row of a matrix, one term after another, on a device.

    ``cumsum`` goes down the leading dimension, where one thread of the device adds for each column.
    It would scan a single column in parallel, so the first column comes twice.
    """
    return torch.cat([terms, terms[:, :1]], 1).cumsum(0)[:, :-1]


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Return the sums along an axis, one term after another."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        sums: Tensor = _scripted(_scan_on_any)(x, dim)
        return sums
    return x.cumsum(dim) if adds_on_cpu(x) else _scan_on_device(x, dim)


def _scan_on_any(x: Tensor, dim: int) -> Tensor:
    return x.cumsum(dim) if x.is_cpu else _scan_on_device(x, dim)


def _scan_on_device(x: Tensor, dim: int) -> Tensor:
    terms = x.movedim(dim, 0)
    return _scan_in_turn(terms.flatten(1)).reshape(terms.shape).movedim(0, dim)


@cache
def _scripted(function: Any) -> Any:
    """Return a function that chooses by the device when it runs, which a trace keeps so."""
    return script(function)


def ordered_logsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute ``log(sum(exp(x)))``, one term after another."""
    return reduce(torch.logaddexp, x.unbind(dim))
