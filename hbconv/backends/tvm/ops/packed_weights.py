"""Weights of matrix products, packed in the order in which blocks of columns read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PANEL", "all_inputs", "pack", "panels", "skips_inputs", "used_inputs"]

PANEL = 6
"""Columns of a block.

With two registers of rows they make twelve sums. Four of sixteen registers are left, for entries
and a weight.
"""
MAX_USED = 0.8
"""Share of the inputs that triangular weights read at most, for panels to have their own bounds."""


def panels(width: int) -> list[tuple[int, int, int]]:
    """Cut columns into blocks of nearly equal width.

    Returns runs of (first column, number of blocks, columns of a block).

    Examples
    --------
    >>> panels(16), panels(8), panels(1)
    ([(0, 2, 6), (12, 1, 4)], [(0, 2, 4)], [(0, 1, 1)])
    """
    # Evened out: 8 columns make 4 and 4, as 6 and 2 would leave registers idle.
    columns = -(-width // -(-width // PANEL))
    whole = width // columns
    runs = ((0, whole, columns), (whole * columns, 1, width % columns))
    return [run for run in runs if run[2]]


def pack(weights: npt.NDArray[Any], first: int, count: int, columns: int) -> npt.NDArray[Any]:
    """Arrange weights (batch, inputs, columns) as (batch, panels, inputs, columns of a panel)."""
    batch, inputs, _ = weights.shape
    run = weights[:, :, first : first + count * columns].reshape(batch, inputs, count, columns)
    return np.ascontiguousarray(run.transpose(0, 2, 1, 3))


def all_inputs(packed: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the first input and the end of the inputs for each panel: all of them."""
    batches, count, inputs, _ = packed.shape
    return np.broadcast_to(np.array([0, inputs], np.int32), (batches, count, 2))


def used_inputs(packed: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the first input with a weight and the end of these inputs, for each panel.

    All inputs are returned if little would be skipped.

    Examples
    --------
    >>> used_inputs(pack(np.tril(np.ones((1, 8, 8))), 0, 2, 4)).tolist()
    [[[0, 8], [4, 8]]]
    """
    if not packed.size:
        return all_inputs(packed)
    # Quadratic discriminants have triangular weights, half of which are zeros.
    used = (packed != 0).any(axis=3)
    first = used.argmax(axis=2)
    end = packed.shape[2] - used[:, :, ::-1].argmax(axis=2)
    spans = np.stack([first, np.where(used.any(axis=2), end, first)], axis=2).astype(np.int32)
    if (spans[..., 1] - spans[..., 0]).mean() < MAX_USED * packed.shape[2]:
        return spans
    return all_inputs(packed)


def skips_inputs(weights: npt.NDArray[Any]) -> bool:
    """Whether some panel of weights (..., inputs, columns) leaves inputs out.

    Examples
    --------
    >>> skips_inputs(np.tril(np.ones((16, 16)))), skips_inputs(np.ones((16, 16)))
    (True, False)
    """
    if not weights.size:
        return False
    rows = weights.reshape(-1, *weights.shape[-2:])
    packed = (pack(rows, *run) for run in panels(weights.shape[-1]))
    return any((used_inputs(run) != all_inputs(run)).any() for run in packed)
