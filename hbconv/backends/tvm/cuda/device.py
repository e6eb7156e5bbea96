"""Find the device of a target."""

from __future__ import annotations

from functools import lru_cache

from hbconv.backends.cuda.device_memory import DriverDevice
from hbconv.target import Target

__all__ = ["find_device"]


def find_device(target: Target) -> DriverDevice:
    """Return the target's device, which all programs share.

    Raises
    ------
    BackendError
        The driver does not have it.
    """
    return _device(int(target.device.partition(":")[2] or 0))


@lru_cache(maxsize=64)
def _device(number: int) -> DriverDevice:
    return DriverDevice(number)
