"""Modules for tracers: what a trace would unroll, or fix to one number of rows, is scripted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hbconv.backends.torch.forest import ForestModule
from hbconv.backends.torch.jit import script, trace
from hbconv.backends.torch.module import LoopModule, TensorModule
from hbconv.backends.torch.nearest import forms_for

__all__ = ["script_children"]


class _ScriptedLoop(nn.Module):
    """A LoopModule for TorchScript: one traced body, run again and again."""

    def __init__(self, loop: LoopModule) -> None:
        super().__init__()
        self.steps = loop.steps
        self.body = trace(loop.body, loop.example())

    def forward(self, state: Tensor, given: Tensor) -> Tensor:
        for _ in range(self.steps):
            before = state
            state = self.body(before, given)
            if torch.equal(before, state):
                break
        return state


class _ScriptedForest(nn.Module):
    """A ForestModule for TorchScript: traced for one row and for many, in chunks.

    Devices add in another form, which is chosen by the rows: a module may move after its trace.
    """

    def __init__(self, forest: ForestModule) -> None:
        super().__init__()
        self.rows = forest.rows
        self.one = trace(forest.one, forest.example()[:1])
        self.many = trace(forest.many, forest.example())
        self.rows_on_device = forest.rows_on_device
        with forms_for("cuda"):
            self.on_device = trace(forest.many, forest.example())

    def forward(self, x: Tensor) -> Tensor:
        if not x.is_cpu:
            chunks = torch.split(x, self.rows_on_device)
            output: Tensor = torch.cat([self.on_device(chunk) for chunk in chunks])
        elif x.size(0) == 1:
            output = self.one(x)
        elif x.size(0) <= self.rows:
            output = self.many(x)
        else:
            output = torch.cat([self.many(chunk) for chunk in torch.split(x, self.rows)])
        return output


_SCRIPTED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    LoopModule: _ScriptedLoop,
    ForestModule: _ScriptedForest,
}


def script_children(module: TensorModule) -> None:
    """Replace loops and forests by scripted modules, which a trace keeps as they are."""
    for name, child in list(module.body.named_children()):
        if type(child) in _SCRIPTED:
            setattr(module.body, name, script(_SCRIPTED[type(child)](child)))
