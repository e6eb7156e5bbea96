"""Sums of one term after another, on the CPU and on devices: the plain ones take any order."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

__all__ = ["add_in_turn", "cumsum", "ordered_logsumexp", "ordered_sum"]


def ordered_sum(x: Tensor, dim: int) -> Tensor:
    """Add one term after another, in a single call.

    ``sum`` adds pairs, and a loop is a call for each term. On the CPU the result is the sequential
    sum to the last bit:

    1. ``cumsum`` adds float64 terms along each row.
    2. ``index_add`` adds float32 terms by column: ``cumsum`` would hold their sums in double.
    3. On other devices, ``add_in_turn`` does.

    Only a compiler may reorder float32 terms.
    """
    if x.device.type == "cpu" and x.dtype == torch.float64:
        return x.cumsum(dim).select(dim, -1)
    terms = x.movedim(dim, 0)
    if x.device.type != "cpu":
        return add_in_turn(terms.flatten(1)).reshape(terms.shape[1:])
    terms = terms.contiguous()
    first = terms.new_zeros(terms.shape[:1], dtype=torch.int64)
    return torch.zeros_like(terms[:1]).index_add(0, first, terms)[0]


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
    if x.device.type == "cpu":
        return x.cumsum(dim)
    terms = x.movedim(dim, 0)
    return _scan_in_turn(terms.flatten(1)).reshape(terms.shape).movedim(0, dim)


def ordered_logsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute ``log(sum(exp(x)))``, one term after another."""
    return reduce(torch.logaddexp, x.unbind(dim))
