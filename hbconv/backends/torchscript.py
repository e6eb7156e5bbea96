"""Backend ``torchscript``: the module of backend ``torch``, traced; its file runs wherever torch does, hbconv or not."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from hbconv.backends._torch_functions import FUNCTIONS
from hbconv.backends._torch_module import TensorModule
from hbconv.backends.base import Artifact, Backend
from hbconv.backends.torch import TorchArtifact, find_device
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
    """A traced module."""

    def files(self) -> dict[str, bytes]:
        """``model.pt``, for ``torch.jit.load``."""
        buffer = io.BytesIO()
        without_deprecation(torch.jit.save, self.module, buffer)
        return {FILE: buffer.getvalue()}


class TorchScript(Backend):
    """TorchScript, on the CPU or a CUDA device."""

    name = "torchscript"
    stores_code = True
    needs = ("torch",)
    emits = FUNCTIONS
    devices = ("cpu", "cuda")

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Trace the module on the device."""
        module = TensorModule(program).to(find_device(target)).eval()
        with torch.no_grad():
            traced = without_deprecation(torch.jit.trace, module, module.example(), check_trace=False)
        return TorchScriptArtifact(traced, program, target)

    def load(self, files: Mapping[str, bytes], program: TensorProgram, target: Target) -> Artifact:
        """Load the traced module onto the device; trace again where none is stored, StoreError where it cannot be read."""
        if FILE not in files:
            return self.compile(program, target)
        device = find_device(target)
        try:
            traced = without_deprecation(torch.jit.load, io.BytesIO(files[FILE]), map_location=device)
        except RuntimeError as error:
            raise StoreError(f"torch {torch.__version__} cannot read the stored {FILE}: {error}") from error
        return TorchScriptArtifact(traced, program, target)


BACKEND = TorchScript()
