"""Backend ``tvm`` on an emulated CUDA device."""

from __future__ import annotations

import pytest
from emulated_cuda import EmulatedMemory

from hbconv.backends.cuda.clocks import H100, Device
from hbconv.backends.tvm import Tvm
from hbconv.backends.tvm.cuda import artifact, report

__all__ = ["EmulatedDevice", "emulate_device"]


class EmulatedDevice(EmulatedMemory):
    """Memory of the CPU, beside the sizes of an H100.

    Attributes
    ----------
    sizes : Device
    architecture : str
    """

    sizes: Device = H100
    architecture = "sm_90"


def emulate_device(monkeypatch: pytest.MonkeyPatch) -> EmulatedDevice:
    """Let backend ``tvm`` find this device, whose kernels run on the CPU without NVRTC."""
    device = EmulatedDevice()
    for module in (artifact, report):
        monkeypatch.setattr(module, "find_device", lambda target: device)
    monkeypatch.setattr(artifact, "compile_kernel", lambda kernel, architecture: None)
    monkeypatch.setattr(Tvm, "cuda_devices", lambda self: 1)
    return device
