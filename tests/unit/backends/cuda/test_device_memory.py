"""Memory of a device: the driver's calls, recorded instead of made."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

import hbconv
from hbconv.backends.cuda import driver
from hbconv.backends.cuda.clocks import H100
from hbconv.backends.cuda.driver import DriverDevice, count_devices
from hbconv.errors import BackendError, OptionError

ATTRIBUTES = {16: 132, 39: 2048, 75: 9, 76: 0, 97: 227 << 10}


class Driver:
    """Takes the place of ``libcuda``: memory is the host's."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.taken: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            getattr(self, f"do_{name}", lambda *_: None)(*arguments)
            return 0

        if name.startswith("do_"):
            raise AttributeError(name)
        return call

    def do_cuDeviceGetCount(self, count: Any) -> None:  # noqa: N802
        count._obj.value = 3

    def do_cuDeviceGetAttribute(self, value: Any, number: Any, _: Any) -> None:  # noqa: N802
        value._obj.value = ATTRIBUTES[number.value]

    def do_cuMemAllocAsync(self, address: Any, size: Any, _: Any) -> None:  # noqa: N802
        memory = ctypes.create_string_buffer(size.value)
        address._obj.value = ctypes.addressof(memory)
        self.taken[address._obj.value] = memory

    def do_cuMemFreeAsync(self, address: Any, _: Any) -> None:  # noqa: N802
        del self.taken[address.value]

    def do_cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> None:  # noqa: N802
        ctypes.memmove(target.value, source.value, size.value)

    def do_cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> None:  # noqa: N802
        ctypes.memmove(target.value, source.value, size.value)


@pytest.fixture
def calls(monkeypatch):
    found = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: found)
    driver._start.cache_clear()
    yield found
    driver._start.cache_clear()


@pytest.mark.usefixtures("calls")
def test_a_device_tells_its_sizes():
    device = DriverDevice(1)
    assert (count_devices(), device.architecture, device.sizes) == (3, "sm_90", H100)


def test_arrays_go_there_and_back(calls):
    device = DriverDevice(0)
    array = np.arange(5.0)
    with device.opened() as stream:
        assert (stream.processors, stream.architecture) == (132, "sm_90")
        address = device.take(array.nbytes)
        device.write(address, array)
        back = np.empty_like(array)
        device.read(back, address)
        device.give(address)
    assert back.tolist() == array.tolist()
    assert not calls.taken
    assert calls.calls[-1] == "cuCtxPopCurrent_v2"


def test_nothing_is_copied_for_no_bytes(calls):
    device = DriverDevice(0)
    device.write(device.take(0), np.empty(0))
    device.read(np.empty(0), 1)
    assert not [name for name in calls.calls if "cpy" in name]


def test_the_context_is_left_after_an_error(calls):
    with pytest.raises(ZeroDivisionError), DriverDevice(0).opened():
        raise ZeroDivisionError
    assert calls.calls[-1] == "cuCtxPopCurrent_v2"


def test_no_driver(monkeypatch):
    def none() -> None:
        raise BackendError("none")

    monkeypatch.setattr(driver, "_driver", none)
    driver._start.cache_clear()
    with pytest.raises(BackendError):
        count_devices()
    with pytest.raises(OptionError, match=r"Device 'cuda:0' is not available\. none"):
        hbconv.convert(DummyRegressor().fit([[0.0]], [0.0]), backend="tvm", device="cuda")
