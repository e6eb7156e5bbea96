"""Terms of rows and constant points on a CUDA device, by one kernel."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from hbconv.backends.cuda.pairwise import plan_pairwise
from hbconv.backends.cuda.plan import MAX_ROWS
from hbconv.backends.torch.launches import PlacedKernels

__all__ = ["pairwise_on_device"]

NAMES = {torch.float32: "float32", torch.float64: "float64"}


def pairwise_on_device(x: Tensor, points: Tensor, kind: str, p: float) -> Tensor:
    """Compute primitive ``pairwise``: (rows, points) for x (rows, k) and points (points, k)."""
    if len(x) > MAX_ROWS:
        parts = torch.split(x, MAX_ROWS)
        return torch.cat([pairwise_on_device(part, points, kind, p) for part in parts])
    n_points, n_features = points.shape
    placed = _placed(x.dtype, kind, p, n_features, n_points, x.device)
    (found,) = placed(x.shape[0], (x.contiguous(), points.contiguous()))
    return found


@lru_cache(maxsize=256)
def _placed(
    dtype: torch.dtype, kind: str, p: float, n_features: int, n_points: int, device: torch.device
) -> PlacedKernels:
    plan = plan_pairwise(NAMES[dtype], kind, p, n_features, n_points)
    return PlacedKernels(plan, ("x", "points"), {"out": (dtype, (-1, n_points))}, {}, device)
