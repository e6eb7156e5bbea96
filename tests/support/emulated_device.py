"""A device for backend ``torch`` that runs on the CPU: every forest by every kernel, emulated."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

import pytest
import torch
from emulated_cuda import Emulated
from torch import Tensor

from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.plan import LaunchPlan
from hbconv.backends.torch import Torch, module
from hbconv.backends.torch.device_trees import (
    OPERATOR,
    DeviceTrees,
    compute_trees,
    find_kernels,
)
from hbconv.strategy import strategies

__all__ = ["DEVICE", "answer_by_all_kernels", "emulate_operator", "launched"]

DEVICE = Device(processors=2, shared_bytes=227 << 10)
SLICES = 2
"""Slices that are tried; more of them take the same kernels, and time."""
launched: set[str] = set()
"""Names of the kernels that have run."""
_calls = count()


@cache
def emulate_operator() -> None:
    """Let the operator run on the CPU; a second import of this file must not take its place."""
    torch.library.impl(OPERATOR, "CPU", _emulated)


def _emulated(x: Tensor, tables: list[Tensor], plan: str) -> Tensor:
    """Run the kernels, with threads started in one order at even calls, in the other at odd ones."""
    device = Emulated(reversed_order=next(_calls) % 2 == 1)
    found = compute_trees(x, tables, LaunchPlan.from_text(plan), device)
    launched.update(name.partition("<")[0] for name in device.launched)
    return found


def answer_by_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let backend ``torch`` compute trees by each kernel that takes them, on the CPU."""
    emulate_operator()
    launched.clear()
    monkeypatch.setattr(Torch, "native_trees", lambda self, target: frozenset(strategies()))
    monkeypatch.setattr(module, "_cpu_trees", module._device_trees)
    monkeypatch.setattr(DeviceTrees, "forward", _forward)


def _forward(trees: DeviceTrees, x: Tensor) -> Tensor:
    """Compute by all kernels, which the forest's own definition judges to the last bit."""
    kernels = find_kernels(trees.forest, trees.dtype, trees.scores, DEVICE)
    found = [trees.run(x, form) for form in kernels.candidates() if form.slices <= SLICES]
    want = _definition(trees, x)
    for answer in found:
        assert answer.dtype == want.dtype
        assert answer.numpy().tobytes() == want.numpy().tobytes()
    return found[0]


def _definition(trees: DeviceTrees, x: Tensor) -> Any:
    rows = x.numpy()
    if trees.scores:
        return torch.tensor(trees.forest.scores(rows))
    return torch.tensor(trees.forest.leaves(rows), dtype=torch.int64)
