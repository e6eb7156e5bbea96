"""Ranks of values among the thresholds of their columns, as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

__all__ = ["LEAST_BYTE", "NEVER", "Ranks", "at_most", "number_thresholds"]

MAX_RANK = 254
"""Thresholds that one column of bytes tells apart."""
NEVER = 255
"""Rank that no value has."""
LEAST_BYTE = -128
"""The byte of rank 0: torch compares signed bytes into signed bytes."""


def number_thresholds(
    column: npt.NDArray[np.int32], threshold: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give each threshold its number in its column, counted from the largest, which is 1.

    A column of more than MAX_RANK thresholds becomes several columns of ranks.

    Parameters
    ----------
    column, threshold : array, shape (n_splits,)
        Distinct splits, sorted by column and threshold. NaN comes last.

    Returns
    -------
    ranked : int array, shape (n_splits,)
        The column of ranks that each split reads.
    number : int array, shape (n_splits,)
        The least rank that holds; NEVER for NaN.

    Examples
    --------
    >>> number_thresholds(np.array([0, 0, 2]), np.array([1.5, 4.0, np.nan]))
    (array([0, 0, 1]), array([  2,   1, 255]))
    """
    end = np.searchsorted(column, column, side="right")
    missing = np.isnan(threshold)
    real = end - np.bincount(column, missing).astype(np.int64)[column]
    turn = np.maximum(real - 1 - np.arange(len(column)), 0)
    part = -(turn // MAX_RANK)
    _, ranked = np.unique(np.stack([column, part]), axis=1, return_inverse=True)
    return ranked.reshape(-1), np.where(missing, NEVER, turn % MAX_RANK + 1)


class Ranks(nn.Module):
    """The rank of each value: how many thresholds of its column it is at most.

    A column of one threshold is compared with it. Others are searched, all at once and without
    branches: torch's own search takes ten times as long, as a processor cannot predict where it
    turns. NaN has rank 0.

    Parameters
    ----------
    ranked, number : int array, shape (n_splits,)
        As ``number_thresholds`` returns them.
    column, threshold : array, shape (n_splits,)
    """

    single: Tensor
    threshold: Tensor
    several: Tensor
    edges: Tensor
    first: Tensor
    order: Tensor

    def __init__(
        self,
        ranked: npt.NDArray[np.int64],
        number: npt.NDArray[np.int64],
        column: npt.NDArray[np.int32],
        threshold: npt.NDArray[Any],
    ) -> None:
        super().__init__()
        source = np.zeros(ranked.max() + 1, np.int64)
        source[ranked] = column
        real = number != NEVER
        count = np.bincount(ranked[real], minlength=len(source))
        self.steps = int(count.max()).bit_length()
        edges = np.full((len(source), 1 << self.steps), np.nan, threshold.dtype)
        edges[ranked[real], number[real] - 1] = threshold[real]
        several = np.flatnonzero(count > 1)
        single = np.flatnonzero(count <= 1)
        self.n_several = len(several)
        self.n_single = len(single)
        first = np.arange(len(several), dtype=np.int32)[:, None] << self.steps
        order = np.argsort(np.concatenate([single, several]))
        self.register_buffer("single", torch.tensor(source[single]))
        self.register_buffer("threshold", torch.tensor(edges[single, :1]))
        self.register_buffer("several", torch.tensor(source[several]))
        self.register_buffer("edges", torch.tensor(edges[several].ravel()))
        self.register_buffer("first", torch.tensor(first))
        self.register_buffer("order", torch.tensor(order))
        words = threshold.dtype.itemsize
        self.bytes_per_row = 2 * self.n_single * words + self.n_several * (3 * words + 12)

    def forward(self, x: Tensor) -> Tensor:
        """Return ranks plus LEAST_BYTE: int8 (ranked columns, n_rows) for x (columns, n_rows)."""
        parts = []
        if self.n_single:
            values = x.index_select(0, self.single)
            parts.append(at_most(values, self.threshold).to(torch.int8).add_(LEAST_BYTE))
        if self.n_several:
            parts.append(self._search(x.index_select(0, self.several)).to(torch.int8))
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts).index_select(0, self.order)

    def _search(self, x: Tensor) -> Tensor:
        """Find ranks from the highest bit down: step over ``half`` if the last of them holds."""
        half = 1 << (self.steps - 1)
        middle = self.edges.view(self.n_several, -1)[:, half - 1 : half]
        at = torch.add(self.first, at_most(x, middle).to(torch.int32), alpha=half)
        while half := half // 2:
            edge = self.edges[half - 1 :].index_select(0, at.flatten()).view(x.shape)
            at = at.add_(at_most(x, edge).to(torch.int32), alpha=half)
        return at.sub_(self.first - LEAST_BYTE)


def at_most(x: Tensor, threshold: Tensor) -> Tensor:
    """Compute ``x <= threshold`` in x's dtype, several times as fast in torch as in bools."""
    if torch.compiler.is_compiling():
        return (x <= threshold).to(x.dtype)
    return torch.le(x, threshold, out=x.new_empty(0))
