"""Distances to constant points, on torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from hbconv.backends.torch.jit import script
from hbconv.backends.torch.launches import pairwise_on_device, takes_launches
from hbconv.tensor.summed_squares import split_points

__all__ = ["pairwise", "prepare_columns", "prepare_summed", "summed_squares"]


def _term(x: Tensor, y: Tensor, kind: str, p: float) -> Tensor:
    """Compute the term of a feature, and change no tensor but the result."""
    if kind == "different":
        return (x != y).to(x.dtype)
    if kind == "canberra":
        return torch.where((x == 0) & (y == 0), 0, (x - y).abs() / (x.abs() + y.abs()))
    if kind == "chi_square":
        return torch.where(x + y == 0, 0, torch.square(x - y) / (x + y))
    if kind == "square":
        # torch.vmap warns that it is slow at square_(), which is this.
        return (x - y).pow_(2)
    if kind == "present":
        # Without limits given, nan_to_num_ would also replace infinities, by the largest numbers.
        return (x - y).square_().nan_to_num_(0.0, math.inf, -math.inf)
    distance = (x - y).abs_()
    return distance.pow_(p) if kind == "power" else distance


def _fold_terms(x: Tensor, points: Tensor, kind: str, p: float) -> Tensor:
    """Fold terms feature by feature: no temporary is larger than the result.

    Tensors are written over: fresh ones for each step took 3 to 6 times as long on a CPU.
    """
    total = x.new_zeros((x.shape[0], points.shape[0]))
    for feature, values in enumerate(points.unbind(1)):
        term = _term(x[:, feature : feature + 1], values, kind, p)
        total = torch.maximum(total, term) if kind == "largest" else total.add_(term)
    return total


@cache
def _scripted(function: Any) -> Callable[..., Tensor]:
    """Return a loop as a loop, which takes 2 s to trace for 527 features; choices stay choices."""
    scripted: Callable[..., Tensor] = script(function)
    return scripted


def pairwise(x: Tensor, points: Tensor, kind: str, p: float) -> Tensor:
    """Fold the terms of the features, in order."""
    if takes_launches(x) and not (x.requires_grad and torch.is_grad_enabled()):
        # Its kernel has no gradient.
        return pairwise_on_device(x, points, kind, p)
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return _scripted(_fold_terms)(x, points, kind, p)
    return _fold_terms(x, points, kind, p)


def prepare_columns(points: npt.NDArray[Any], **_attributes: Any) -> tuple[npt.NDArray[Any]]:
    """Lay points out column by column, as ``pairwise`` reads them.

    Along rows of 8 columns, distances to 1,000 points took 14 to 18 ns each, so laid 7 (Zen 3,
    busy).

    Examples
    --------
    >>> prepare_columns(np.zeros((5, 2)))[0].strides
    (8, 40)
    """
    return (np.asfortranarray(points),)


def summed_squares(
    x: Tensor,
    points: Tensor,
    of_heads: Tensor,
    of_rests: Tensor,
    centre: Tensor,
    grid: Tensor,
    limits: Tensor,
) -> Tensor:
    """Square the distances that are only added up; ``prepare_summed`` has the constants.

    Devices have a kernel that measures feature by feature, and compilers write one. To look at the
    rows is not for them, nor for ``torch.vmap``. TorchScript chooses when it runs.
    """
    arguments = x, points, of_heads, of_rests, centre, grid, limits
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return _scripted(_add_products)(*arguments)
    looks = not (torch.compiler.is_compiling() or is_functorch_wrapped_tensor(x))
    return _add_products(*arguments) if x.is_cpu and looks else pairwise(x, points, "square", 2.0)


def prepare_summed(points: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...] | None:
    """Return the constants of ``summed_squares``; None where the sum of squares is better.

    They are the points as ``pairwise`` reads them, what both products take, and then centre and
    grid of ``SplitPoints``. Last come the largest head, and the least square.
    """
    split = split_points(points, "torch")
    if split is None:
        return None
    limits = np.array([split.reach, split.least])
    products = split.of_heads(), split.of_rests()
    return (*prepare_columns(points), *products, split.centre, np.array(split.grid), limits)


def _add_products(
    x: Tensor,
    points: Tensor,
    of_heads: Tensor,
    of_rests: Tensor,
    centre: Tensor,
    grid: Tensor,
    limits: Tensor,
) -> Tensor:
    """Add two products, and measure rows feature by feature that these do not settle.

    1. ``x = centre + head + rest``.
    2. The heads' squared distance: ``|h|^2 - 2 h heads + |heads|^2``.
    3. What the rests r add: ``2 (h - heads) (r - rests) + |r - rests|^2``.
    4. A square is below the least, a head beyond the largest, or a number of x is none.
    """
    # One row is 24 operators either way with 8 features, and a sum of squares has the shorter ones.
    if not x.is_cpu or (x.shape[0] == 1 and x.shape[1] <= 8):
        return _fold_terms(x, points, "square", 2.0)
    on_grid = torch.round(x / grid) * grid  # 1
    head = on_grid - centre
    rest = x - on_grid
    ones = x.new_ones((x.shape[0], 1))
    norm = torch.square(head).sum(1, keepdim=True)
    squares = torch.cat([head, ones, norm], 1) @ of_heads  # 2
    norm = (rest * (head + head + rest)).sum(1, keepdim=True)
    squares = torch.addmm(squares, torch.cat([head, rest, ones, norm], 1), of_rests)  # 3
    settled = (squares.amin(1) >= limits[1]) & (head.abs().amax(1) <= limits[0])  # 4
    others = torch.nonzero(~settled).view(-1)
    if others.shape[0] > 0:
        squares.index_copy_(0, others, _fold_terms(x[others], points, "square", 2.0))
    return squares
