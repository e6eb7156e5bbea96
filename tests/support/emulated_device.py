"""A device for backend ``torch`` that runs on the CPU: every forest by every kernel, emulated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from emulated_cuda import Emulated
from torch import Tensor

from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.plan import Launch
from hbconv.backends.torch import Torch, launches, module
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.trees.strategy import strategies

__all__ = ["DEVICE", "EmulatedLauncher", "answer_by_all_kernels", "emulate_launches", "launched"]

DEVICE = Device(processors=2, shared_bytes=227 << 10)
SLICES = 2
"""Slices that are tried; more of them take the same kernels, and time."""
launched: set[str] = set()
"""Names of the kernels that have run."""


class EmulatedLauncher(Emulated):
    """Starts threads in one order at even calls, in the other at odd ones."""

    def load(self, launch: Launch) -> Any:
        run = super().load(launch)

        def noted(*sizes: Any) -> None:
            launched.add(launch.kernel.name)
            run(*sizes)

        return noted

    def stream(self) -> None:
        self.reversed_order = not self.reversed_order


def emulate_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels run on the CPU, on its tensors."""
    launcher = EmulatedLauncher()
    launched.clear()
    monkeypatch.setattr(launches, "find_launcher", lambda device: launcher)


def answer_by_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let backend ``torch`` compute trees by each kernel that takes them, on the CPU."""
    emulate_launches(monkeypatch)
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
