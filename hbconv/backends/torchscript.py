"""Backend ``torchscript``: the module of backend ``torch``, traced.

Its file runs wherever torch does, with or without hbconv.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import torch

from hbconv.backends.base import Artifact
from hbconv.backends.torch import Torch, TorchArtifact, find_device
from hbconv.backends.torch.jit import freeze, load, save, trace, without_fusion
from hbconv.backends.torch.module import TensorModule
from hbconv.backends.torch.tracing import script_children
from hbconv.errors import StoreError
from hbconv.target import Target
from hbconv.tensor import ProgramTypes, TensorProgram

__all__ = ["BACKEND", "FILE", "TorchScript", "TorchScriptArtifact"]

FILE = "model.pt"


class TorchScriptArtifact(TorchArtifact):
    """A traced module. ``call`` is frozen: its constants do not follow the module to a device."""

    def __init__(self, module: torch.jit.ScriptModule, types: ProgramTypes, target: Target) -> None:
        super().__init__(module, types, target)
        frozen = freeze(module.eval())
        self.call = frozen if self._device.type == "cpu" else without_fusion(frozen)

    def files(self) -> dict[str, bytes]:
        """Return ``model.pt``, for ``torch.jit.load``."""
        buffer = io.BytesIO()
        save(self.module, buffer)
        return {FILE: buffer.getvalue()}


class TorchScript(Torch):
    """TorchScript, on the CPU or a CUDA device."""

    name = "torchscript"

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Trace the module on the device."""
        device = find_device(target)
        module = TensorModule(program, device.type).to(device).eval()
        with torch.no_grad():
            script_children(module)
            traced = trace(module, module.example())
        return TorchScriptArtifact(traced, program.types, target)

    def load(
        self, files: Mapping[str, bytes], types: ProgramTypes, target: Target
    ) -> Artifact | None:
        """Load the traced module onto the device; None if none is stored.

        Raises
        ------
        StoreError
            Torch cannot read the stored module.
        """
        if FILE not in files:
            return None
        device = find_device(target)
        buffer = io.BytesIO(files[FILE])
        try:
            traced = load(buffer, map_location=device)
        except RuntimeError as error:
            raise StoreError(
                f"torch {torch.__version__} cannot read the stored {FILE}: {error}"
            ) from error
        return TorchScriptArtifact(traced, types, target)


BACKEND = TorchScript()
