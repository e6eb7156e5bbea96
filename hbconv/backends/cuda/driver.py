"""The CUDA driver: load machine code, and launch it on a stream. No other library is needed."""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any

from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import CudaKernel, Launch
from hbconv.errors import BackendError

__all__ = ["Stream", "call_driver"]

MAX_DYNAMIC_SHARED_SIZE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the driver's header."""
UNASKED_SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without asking."""


class Stream:
    """A stream of a device, whose context is the current one.

    Parameters
    ----------
    handle : int
        The driver's stream.
    device : int
        Number of the device.
    architecture : str
        Such as ``"sm_90"``.
    processors : int
        Multiprocessors of the device.
    """

    def __init__(self, handle: int, device: int, architecture: str, processors: int) -> None:
        self.handle = handle
        self.device = device
        self.architecture = architecture
        self.processors = processors

    def launch(self, launch: Launch, blocks: tuple[int, int], arguments: Any) -> None:
        """Put a kernel on the stream."""
        function = _load(launch.kernel, self.architecture, self.device, launch.shared_bytes)
        sizes = (*blocks, 1, launch.threads, 1, 1, launch.shared_bytes)
        stream = ctypes.c_void_p(self.handle)
        call_driver("cuLaunchKernel", function, *sizes, stream, arguments, None)


@lru_cache(maxsize=1024)
def _load(kernel: CudaKernel, architecture: str, device: int, shared_bytes: int) -> ctypes.c_void_p:  # noqa: ARG001
    """Load a kernel into the current context, that of the device; it stays loaded."""
    module = ctypes.c_void_p()
    function = ctypes.c_void_p()
    code = compile_kernel(kernel, architecture).code
    call_driver("cuModuleLoadData", ctypes.byref(module), code)
    call_driver("cuModuleGetFunction", ctypes.byref(function), module, kernel.name.encode())
    if shared_bytes > UNASKED_SHARED_BYTES:
        size = ctypes.c_int(shared_bytes)
        call_driver("cuFuncSetAttribute", function, ctypes.c_int(MAX_DYNAMIC_SHARED_SIZE), size)
    return function


@cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise BackendError(
            "The CUDA driver, libcuda.so.1, cannot be loaded. Use device='cpu'."
        ) from error


def call_driver(name: str, *arguments: Any) -> None:
    """Call a function of the driver, whose errors are raised."""
    status = getattr(_driver(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode()
        raise BackendError(f"The CUDA driver refused {name}: {reason} ({status}).")
