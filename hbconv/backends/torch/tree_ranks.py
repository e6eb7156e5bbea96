"""Ranks of values among the thresholds of their columns, as small integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

__all__ = ["LEAST_BYTE", "MAX_RANK", "Ranks", "at_most", "number_thresholds"]

MAX_RANK = 254
"""Thresholds that one column of bytes tells apart. The next rank is one that no value has."""
LEAST_BYTE = -128
"""The byte of rank 0: torch compares signed bytes into signed bytes."""


def number_thresholds(
    column: npt.NDArray[np.int32], threshold: npt.NDArray[Any], most: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Give each threshold its number in its column, counted from the largest, which is 1.

    A column of more than ``most`` thresholds becomes several columns of ranks.

    Parameters
    ----------
    column, threshold : array, shape (n_splits,)
        Distinct splits, sorted by column and threshold. NaN comes last.
    most : int

    Returns
    -------
    ranked : int array, shape (n_splits,)
        The column of ranks that each split reads.
    number : int array, shape (n_splits,)
        The least rank that holds; for NaN ``most + 1``, which no value has.

    Examples
    --------
    >>> number_thresholds(np.array([0, 0, 2]), np.array([1.5, 4.0, np.nan]), 254)
    (array([0, 0, 1]), array([  2,   1, 255]))
    """
    end = np.searchsorted(column, column, side="right")
    missing = np.isnan(threshold)
    real = end - np.bincount(column, missing).astype(np.int64)[column]
    turn = np.maximum(real - 1 - np.arange(len(column)), 0)
    part = -(turn // most)
    _, ranked = np.unique(np.stack([column, part]), axis=1, return_inverse=True)
    return ranked.reshape(-1), np.where(missing, most + 1, turn % most + 1)


class Ranks(nn.Module):
    """The rank of each value: how many thresholds of its column it is at most.

    A column of one threshold is compared with it. Others are searched, all at once and without
    branches: torch's own search takes ten times as long, as a processor cannot predict where it
    turns. The columns with the most thresholds stand first, so each step of the search takes those
    that need it. NaN has rank 0.

    Parameters
    ----------
    ranked, number : int array, shape (n_splits,)
        As ``number_thresholds`` returns them.
    column, threshold : array, shape (n_splits,)
    most : int
        Largest rank.
    least : int
        What stands for rank 0.
    dtype : torch.dtype
        Signed integers that hold ``least + most + 1``.
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
        most: int,
        least: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.least = least
        source = np.zeros(ranked.max() + 1, np.int64)
        source[ranked] = column
        real = number <= most
        count = np.bincount(ranked[real], minlength=len(source))
        single = np.flatnonzero(count <= 1)
        steps = np.frexp(count)[1]
        by_steps = np.argsort(-steps, kind="stable")
        several = by_steps[count[by_steps] > 1]
        self.sizes = [int((steps[several] > step).sum()) for step in range(steps.max())]
        first = np.zeros(len(source), np.int64)
        first[several] = np.cumsum(1 << steps[several]) - (1 << steps[several])
        edges = np.full(int((1 << steps[several]).sum()), np.nan, threshold.dtype)
        searched = real & (count > 1)[ranked]
        edges[first[ranked[searched]] + number[searched] - 1] = threshold[searched]
        alone = np.full(len(source), np.nan, threshold.dtype)
        alone[ranked[real]] = threshold[real]
        self.n_several = len(several)
        self.n_single = len(single)
        order = np.argsort(np.concatenate([single, several]))
        self.register_buffer("single", torch.tensor(source[single]))
        self.register_buffer("threshold", torch.tensor(alone[single, None]))
        self.register_buffer("several", torch.tensor(source[several]))
        self.register_buffer("edges", torch.tensor(edges))
        self.register_buffer("first", torch.tensor(first[several, None], dtype=torch.int32))
        self.register_buffer("order", torch.tensor(order))
        words = threshold.dtype.itemsize
        self.bytes_per_row = 2 * self.n_single * words + self.n_several * (3 * words + 12)

    def forward(self, x: Tensor) -> Tensor:
        """Return ranks plus ``least``: (ranked columns, n_rows) for x (columns, n_rows)."""
        parts = []
        if self.n_single:
            values = x.index_select(0, self.single)
            parts.append(at_most(values, self.threshold).to(self.dtype).add_(self.least))
        if self.n_several:
            parts.append(self._search(x.index_select(0, self.several)).to(self.dtype))
        if not self.n_several:
            return parts[0]
        return torch.cat(parts).index_select(0, self.order)

    def _search(self, x: Tensor) -> Tensor:
        """Find ranks from the highest bit down: step over ``half`` if the last of them holds.

        A column joins at the highest bit of its own.
        """
        at = torch.empty(0)
        searched = 0
        for step in reversed(range(len(self.sizes))):
            half = 1 << step
            edges = self.edges[half - 1 :]
            if searched:
                edge = edges.index_select(0, at.flatten()).view(at.shape)
                at = at.add_(at_most(x[:searched], edge).to(torch.int32), alpha=half)
            if self.sizes[step] > searched:
                first = self.first[searched : self.sizes[step]]
                edge = edges.index_select(0, first.flatten()).unsqueeze(1)
                holds = at_most(x[searched : self.sizes[step]], edge)
                joined = torch.add(first, holds.to(torch.int32), alpha=half)
                at = torch.cat([at, joined]) if searched else joined
                searched = self.sizes[step]
        return at.sub_(self.first - self.least)


def at_most(x: Tensor, threshold: Tensor) -> Tensor:
    """Compute ``x <= threshold`` in x's dtype, several times as fast in torch as in bools."""
    scripting = torch.jit.is_scripting()  # type: ignore[attr-defined]
    if not scripting and torch.compiler.is_compiling():
        return (x <= threshold).to(x.dtype)
    return torch.le(x, threshold, out=x.new_empty([0]))
