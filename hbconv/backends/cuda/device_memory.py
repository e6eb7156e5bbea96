"""Memory of a device, by the driver: no other library is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import numpy.typing as npt

from hbconv.backends.cuda.clocks import Device
from hbconv.backends.cuda.driver import DriverLauncher, call_driver
from hbconv.backends.cuda.launch import Launcher

__all__ = ["DeviceMemory", "DriverDevice", "count_devices"]

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
        """Make the device's context this thread's own meanwhile."""
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
    found = ctypes.c_int()
    call_driver("cuDeviceGetCount", ctypes.byref(found))
    return found.value


@cache
def _start() -> None:
    call_driver("cuInit", ctypes.c_uint(0))
