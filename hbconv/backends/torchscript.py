"""Backend ``torchscript``: the module of backend ``torch``, traced.

Its file runs wherever torch does, with or without hbconv.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hbconv.backends.base import Artifact
from hbconv.backends.torch import Torch, TorchArtifact, find_device
from hbconv.backends.torch.forest import ForestModule
from hbconv.backends.torch.module import LoopModule, TensorModule
from hbconv.errors import StoreError
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["BACKEND", "FILE", "TorchScript", "TorchScriptArtifact"]

FILE = "model.pt"


def without_deprecation(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of ``torch.jit`` without its deprecation warning.

    It has no successor that writes these files.
    """
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", message=r"`?torch\.jit", category=category)
        return function(*arguments, **options)


trace = partial(without_deprecation, torch.jit.trace, check_trace=False)


class TorchScriptArtifact(TorchArtifact):
    """A traced module. ``call`` is frozen: its constants do not follow the module to a device."""

    def __init__(
        self, module: torch.jit.ScriptModule, program: TensorProgram, target: Target
    ) -> None:
        super().__init__(module, program, target)
        self.call = without_deprecation(torch.jit.freeze, module.eval())

    def files(self) -> dict[str, bytes]:
        """Return ``model.pt``, for ``torch.jit.load``."""
        buffer = io.BytesIO()
        without_deprecation(torch.jit.save, self.module, buffer)
        return {FILE: buffer.getvalue()}


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
    """A ForestModule for TorchScript: traced for one row and for many, in chunks."""

    def __init__(self, forest: ForestModule) -> None:
        super().__init__()
        self.rows = forest.rows
        self.one = trace(forest.one, forest.example()[:1])
        self.many = trace(forest.many, forest.example())

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) == 1:
            output: Tensor = self.one(x)
        elif x.size(0) <= self.rows:
            output = self.many(x)
        else:
            output = torch.cat([self.many(chunk) for chunk in torch.split(x, self.rows)])
        return output


_SCRIPTED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    LoopModule: _ScriptedLoop,
    ForestModule: _ScriptedForest,
}
"""Modules that a trace would unroll, or fix to one number of rows, and what replaces them."""


def _script_children(module: TensorModule) -> None:
    """Replace such modules by scripted ones, which a trace keeps as they are."""
    for name, child in list(module.body.named_children()):
        if type(child) in _SCRIPTED:
            scripted = without_deprecation(torch.jit.script, _SCRIPTED[type(child)](child))
            setattr(module.body, name, scripted)


class TorchScript(Torch):
    """TorchScript, on the CPU or a CUDA device."""

    name = "torchscript"

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Trace the module on the device."""
        module = TensorModule(program).to(find_device(target)).eval()
        with torch.no_grad():
            _script_children(module)
            traced = trace(module, module.example())
        return TorchScriptArtifact(traced, program, target)

    def load(self, files: Mapping[str, bytes], program: TensorProgram, target: Target) -> Artifact:
        """Load the traced module onto the device; trace again if none is stored.

        Raises
        ------
        StoreError
            Torch cannot read the stored module.
        """
        if FILE not in files:
            return self.compile(program, target)
        device = find_device(target)
        buffer = io.BytesIO(files[FILE])
        try:
            traced = without_deprecation(torch.jit.load, buffer, map_location=device)
        except RuntimeError as error:
            raise StoreError(
                f"torch {torch.__version__} cannot read the stored {FILE}: {error}"
            ) from error
        return TorchScriptArtifact(traced, program, target)


BACKEND = TorchScript()
