"""The CUDA driver: load machine code, and launch it on a stream. No other library is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import CudaKernel, Launch
from hbconv.errors import BackendError

__all__ = ["DriverLauncher", "call_driver"]

MAX_DYNAMIC_SHARED_SIZE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the driver's header."""
UNASKED_SHARED_BYTES = 48 << 10
"""Shared memory that a block may have without asking."""


class DriverLauncher:
    """Loads kernels into a device, and puts them on its default stream.

    Parameters
    ----------
    device : int
        Number of the device.
    architecture : str
        Such as ``"sm_90"``.
    processors : int
        Multiprocessors of the device.
    """

    def __init__(self, device: int, architecture: str, processors: int) -> None:
        self.device = device
        self.architecture = architecture
        self.processors = processors

    def stream(self) -> ctypes.c_void_p:
        """Return the default stream."""
        return ctypes.c_void_p(0)

    def load(self, launch: Launch) -> Callable[[ctypes.c_void_p, int, int, Any], None]:
        """Return what puts a kernel on a stream; a thread loads what it launches."""
        _open_context(self.device)
        function = _load(launch.kernel, self.architecture, self.device, launch.shared_bytes)
        launch_kernel = _driver().cuLaunchKernel
        threads = launch.threads
        shared_bytes = launch.shared_bytes

        def run(stream: ctypes.c_void_p, blocks: int, passes: int, arguments: Any) -> None:
            sizes = (blocks, passes, 1, threads, 1, 1, shared_bytes)
            status = launch_kernel(function, *sizes, stream, arguments, None)
            if status:
                raise _refused("cuLaunchKernel", status)

        return run


def _open_context(device: int) -> None:
    """Let a thread that has no context use the device's own, which torch uses too.

    Torch does so at its first call of CUDA, but a thread may take memory that torch kept.
    """
    context = ctypes.c_void_p()
    call_driver("cuCtxGetCurrent", ctypes.byref(context))
    if not context.value:
        number = ctypes.c_int()
        call_driver("cuDeviceGet", ctypes.byref(number), ctypes.c_int(device))
        call_driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        call_driver("cuCtxSetCurrent", context)


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
        raise _refused(name, status)


def _refused(name: str, status: int) -> BackendError:
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(status, ctypes.byref(text))
    reason = (text.value or b"unknown error").decode()
    return BackendError(f"The CUDA driver refused {name}: {reason} ({status}).")
