"""The CUDA driver: load machine code, launch it on a stream, and copy arrays.

No other library is needed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy.typing as npt

from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.compile import compile_kernel
from hbconv.backends.cuda.plan import CudaKernel, Launch, Launcher
from hbconv.errors import BackendError

__all__ = ["DeviceMemory", "DriverDevice", "DriverLauncher", "call_driver", "count_devices"]

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
        # Looked up once, since a launch is on the hot path of each call.
        launch_kernel = _driver().cuLaunchKernel
        threads = launch.threads
        shared_bytes = launch.shared_bytes

        def run(stream: ctypes.c_void_p, blocks: int, passes: int, arguments: Any) -> None:
            sizes = (blocks, passes, 1, threads, 1, 1, shared_bytes)
            status = launch_kernel(function, *sizes, stream, arguments, None)
            if status:
                raise _refusal("cuLaunchKernel", status)

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
    # Beyond 48 KiB the driver refuses a launch that was not announced.
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
        raise _refusal(name, status)


def _refusal(name: str, status: int) -> BackendError:
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(status, ctypes.byref(text))
    reason = (text.value or b"unknown error").decode()
    return BackendError(f"The CUDA driver refused {name}: {reason} ({status}).")


PROCESSORS, THREADS, MAJOR, MINOR, SHARED_BYTES = 16, 39, 75, 76, 97
"""Attributes of a device, as the driver's header numbers them."""


class DeviceMemory(Protocol):
    """Memory that kernels work on: of a device, or of an emulation of one in tests."""

    def take(self, n_bytes: int) -> int:
        """Return the address of new memory."""

    def give(self, address: int) -> None:
        """Give memory back."""

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy an array to the device."""

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device, after all that was launched before."""

    def opened(self) -> Any:
        """Return a context manager of the launcher, in which memory and kernels may be used."""


class DriverDevice:
    """A CUDA device, on its default stream.

    Parameters
    ----------
    number : int
    """

    def __init__(self, number: int) -> None:
        _start()
        self.number = number
        self._device = ctypes.c_int()
        self._context = ctypes.c_void_p()
        call_driver("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(number))
        # Kept for the process: all users of the device share this context, such as torch.
        call_driver("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device)
        major, minor = self._attribute(MAJOR), self._attribute(MINOR)
        processors = self._attribute(PROCESSORS)
        self._launcher = DriverLauncher(number, f"sm_{major}{minor}", processors)

    @property
    def architecture(self) -> str:
        """The architecture that kernels are compiled for, such as ``"sm_90"``."""
        return self._launcher.architecture

    @property
    def sizes(self) -> Device:
        """The sizes of the device."""
        return Device(
            self._attribute(PROCESSORS), self._attribute(SHARED_BYTES), self._attribute(THREADS)
        )

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        call_driver("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device)
        return value.value

    @contextmanager
    def opened(self) -> Iterator[Launcher]:
        """Make the device's context that of this thread, for the block."""
        before = ctypes.c_void_p()
        call_driver("cuCtxPushCurrent_v2", self._context)
        try:
            yield self._launcher
        finally:
            call_driver("cuCtxPopCurrent_v2", ctypes.byref(before))

    def take(self, n_bytes: int) -> int:
        """Return the address of new memory, of at least one byte."""
        address = ctypes.c_uint64()
        size = ctypes.c_size_t(max(1, n_bytes))
        call_driver("cuMemAllocAsync", ctypes.byref(address), size, None)
        return address.value

    def give(self, address: int) -> None:
        """Give memory back, after all that was launched before."""
        call_driver("cuMemFreeAsync", ctypes.c_uint64(address), None)

    def write(self, address: int, array: npt.NDArray[Any]) -> None:
        """Copy an array to the device."""
        if array.nbytes:
            source = ctypes.c_void_p(array.ctypes.data)
            size = ctypes.c_size_t(array.nbytes)
            call_driver("cuMemcpyHtoD_v2", ctypes.c_uint64(address), source, size)

    def read(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy from the device, after all that was launched before."""
        if array.nbytes:
            target = ctypes.c_void_p(array.ctypes.data)
            size = ctypes.c_size_t(array.nbytes)
            call_driver("cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), size)


def count_devices() -> int:
    """Count the CUDA devices of this machine.

    Raises
    ------
    BackendError
        There is no driver.
    """
    _start()
    count = ctypes.c_int()
    call_driver("cuDeviceGetCount", ctypes.byref(count))
    return count.value


@cache
def _start() -> None:
    call_driver("cuInit", ctypes.c_uint(0))
