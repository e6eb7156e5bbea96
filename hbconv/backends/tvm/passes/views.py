"""Find views: instructions that only rename memory, and need no code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.tensor import Constant, Op, OpKind, TensorProgram

__all__ = ["first_of_run", "is_view", "positions_taken"]


def is_view(program: TensorProgram, instruction: Any) -> bool:
    """Whether an instruction is a reshape, an expansion, or a run of neighbouring entries."""
    if not isinstance(instruction, Op):
        return False
    if instruction.primitive != "take":
        return instruction.kind is OpKind.VIEW
    x, indices = (program.instructions[i] for i in instruction.operands)
    if not isinstance(indices, Constant):
        return False
    axis = instruction.attributes["axis"]
    return first_of_run(x.type.shape, indices.value.data, axis) is not None


def positions_taken(extent: int, indices: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return the positions that ``take`` reads on an axis; negative ones count from its end."""
    return np.where(indices < 0, indices + extent, indices).astype(np.int32)


def first_of_run(shape: tuple[int, ...], indices: npt.NDArray[Any], axis: int) -> int | None:
    """Return the first of neighbouring positions; None if they are scattered or the axis is inner.

    Examples
    --------
    >>> first_of_run((5,), np.array([2, 3]), 0), first_of_run((5,), np.array([3, 2]), 0)
    (2, None)
    """
    wanted = positions_taken(shape[axis], indices)
    if not len(wanted) or any(d != 1 for d in shape[:axis]) or np.any(np.diff(wanted) != 1):
        return None
    return int(wanted[0])
