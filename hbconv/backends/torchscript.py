"""Backend ``torchscript``: the module of backend ``torch``, traced; its file runs wherever torch does, hbconv or not."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hbconv.backends.base import Artifact
from hbconv.backends.torch import Torch, TorchArtifact, find_device
from hbconv.backends.torch.forest import Trees
from hbconv.backends.torch.module import Loop, TensorModule
from hbconv.errors import StoreError
from hbconv.target import Target
from hbconv.tensor import TensorProgram

__all__ = ["BACKEND", "FILE", "TorchScript", "TorchScriptArtifact"]

FILE = "model.pt"


def without_deprecation(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function of ``torch.jit``, which says of itself that it is deprecated; it has no successor for these files."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", message=r"`?torch\.jit", category=category)
        return function(*arguments, **options)


class TorchScriptArtifact(TorchArtifact):
    """A traced module; what runs has its constants written in, which would not follow the module to a device."""

    def __init__(
        self, module: torch.jit.ScriptModule, program: TensorProgram, target: Target
    ) -> None:
        super().__init__(module, program, target)
        self.call = without_deprecation(torch.jit.freeze, module.eval())

    def files(self) -> dict[str, bytes]:
        """``model.pt``, for ``torch.jit.load``."""
        buffer = io.BytesIO()
        without_deprecation(torch.jit.save, self.module, buffer)
        return {FILE: buffer.getvalue()}


class _ScriptedLoop(torch.nn.Module):
    """A Loop as TorchScript holds it: one body, run in turns."""

    def __init__(self, loop: Loop) -> None:
        super().__init__()
        self.steps = loop.steps
        self.body = without_deprecation(
            torch.jit.trace, loop.body, loop.example(), check_trace=False
        )

    def forward(self, state: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            before, state = state, self.body(state, given)
            if torch.equal(before, state):
                break
        return state


class _ScriptedTrees(torch.nn.Module):
    """Trees as TorchScript holds them: what is done with one row, with many, and with very many."""

    def __init__(self, trees: Trees) -> None:
        super().__init__()
        self.rows = trees.rows
        self.one = without_deprecation(
            torch.jit.trace, trees.one, trees.example()[:1], check_trace=False
        )
        self.many = without_deprecation(
            torch.jit.trace, trees.many, trees.example(), check_trace=False
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) == 1:
            answer: torch.Tensor = self.one(x)
        elif x.size(0) <= self.rows:
            answer = self.many(x)
        else:
            answer = torch.cat([self.many(part) for part in torch.split(x, self.rows)])
        return answer


_SCRIPTED: dict[type[torch.nn.Module], Callable[[Any], torch.nn.Module]] = {
    Loop: _ScriptedLoop,
    Trees: _ScriptedTrees,
}
"""What a trace would write out step by step, or for one number of rows."""


def _script_children(module: TensorModule) -> None:
    """Replace them by scripted ones, which a trace keeps as they are."""
    for name, child in list(module.body.named_children()):
        if type(child) in _SCRIPTED:
            setattr(
                module.body,
                name,
                without_deprecation(torch.jit.script, _SCRIPTED[type(child)](child)),
            )


class TorchScript(Torch):
    """TorchScript, on the CPU or a CUDA device."""

    name = "torchscript"

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Trace the module on the device."""
        module = TensorModule(program).to(find_device(target)).eval()
        with torch.no_grad():
            _script_children(module)
            traced = without_deprecation(
                torch.jit.trace, module, module.example(), check_trace=False
            )
        return TorchScriptArtifact(traced, program, target)

    def load(self, files: Mapping[str, bytes], program: TensorProgram, target: Target) -> Artifact:
        """Load the traced module onto the device; trace again where none is stored, StoreError where it cannot be read."""
        if FILE not in files:
            return self.compile(program, target)
        device = find_device(target)
        try:
            traced = without_deprecation(
                torch.jit.load, io.BytesIO(files[FILE]), map_location=device
            )
        except RuntimeError as error:
            raise StoreError(
                f"torch {torch.__version__} cannot read the stored {FILE}: {error}"
            ) from error
        return TorchScriptArtifact(traced, program, target)


BACKEND = TorchScript()
