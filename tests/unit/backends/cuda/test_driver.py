"""The driver's calls, recorded instead of made: launches, memory, and what is said without one."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

import hbconv
from hbconv.backends.cuda import driver
from hbconv.backends.cuda.clocks import H100
from hbconv.backends.cuda.compile import Compiled
from hbconv.backends.cuda.driver import DriverDevice, count_devices
from hbconv.backends.cuda.plan import (
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PreparedLaunches,
    launch_all,
)
from hbconv.errors import BackendError, OptionError

KERNEL = CudaKernel("few", (("INPUT", "float"),))
LAUNCH = Launch(KERNEL, ("x", "n", 28, "out"), Grid(64, 3), 128, 100_000)
PLAN = LaunchPlan((LAUNCH,), (("out", Buffer("float64", 1, 1, 1)),), ())


class Recorder:
    """Takes the place of ``libcuda``."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.calls: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == "cuLaunchKernel":  # the values are there only during the call
                *others, pointers, extra = arguments
                arguments = (*others, _values(pointers), extra)
            self.calls[name] = arguments
            return self.status if name == "cuLaunchKernel" else 0

        return call


def _values(pointers: Any) -> list[int]:
    """Read arguments as a kernel of ``PLAN`` does."""
    kinds = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    casts = (
        ctypes.cast(pointer, ctypes.POINTER(kind))
        for pointer, kind in zip(pointers, kinds, strict=True)
    )
    return [cast.contents.value for cast in casts]


@pytest.fixture
def recorder(monkeypatch):
    found = Recorder()
    monkeypatch.setattr(driver, "_driver", lambda: found)
    monkeypatch.setattr(driver, "compile_kernel", lambda kernel, arch: Compiled(b"code", ""))
    driver._load.cache_clear()
    yield found
    driver._load.cache_clear()


def test_a_launch_hands_over_sizes_stream_and_arguments(recorder):
    launcher = driver.DriverLauncher(0, "sm_90", 132)
    launcher.stream = lambda: ctypes.c_void_p(77)
    launch_all(PLAN, {"x": 4096, "out": 8192}, 100, launcher)
    _, *sizes, stream, got, extra = recorder.calls["cuLaunchKernel"]
    assert sizes == [2, 3, 1, 128, 1, 1, 100_000]
    assert (stream.value, extra) == (77, None)
    assert got == [4096, 100, 28, 8192]


def test_more_shared_memory_than_usual_is_asked_for(recorder):
    launch_all(PLAN, {"x": 1, "out": 1}, 1, driver.DriverLauncher(0, "sm_90", 132))
    _, attribute, size = recorder.calls["cuFuncSetAttribute"]
    assert (attribute.value, size.value) == (8, 100_000)
    assert recorder.calls["cuModuleGetFunction"][2] == b"few"


def test_a_refused_call_is_named(recorder):
    recorder.status = 700
    with pytest.raises(BackendError, match=r"refused cuLaunchKernel: unknown error .700."):
        launch_all(PLAN, {"x": 1, "out": 1}, 1, driver.DriverLauncher(0, "sm_90", 132))


def test_a_missing_driver_is_named(monkeypatch):
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    driver._driver.cache_clear()
    with pytest.raises(BackendError, match=r"libcuda.so.1, cannot be loaded. Use device='cpu'"):
        driver.call_driver("cuInit", 0)


def test_resident_blocks_take_rows_in_turn():
    grid = Grid(1024, per_processor=2)
    assert [grid.blocks(n, 132) for n in (1, 1025, 10**7)] == [1, 2, 264]
    assert Grid(1024).blocks(10**7, 132) == 9766


def test_a_thread_without_a_context_takes_that_of_the_device(recorder, monkeypatch):
    launcher = driver.DriverLauncher(1, "sm_90", 132)
    launcher.load(LAUNCH)
    assert "cuDevicePrimaryCtxRetain" in recorder.calls
    assert "cuCtxSetCurrent" in recorder.calls
    recorder.calls.clear()
    monkeypatch.setattr(recorder, "cuCtxGetCurrent", _answer_context, raising=False)
    launcher.load(LAUNCH)
    assert "cuCtxSetCurrent" not in recorder.calls


def _answer_context(place: Any) -> int:
    ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p)).contents.value = 99
    return 0


def test_threads_share_launches_and_keep_arguments_apart():
    """Each launch waits until the other thread has written its own arguments."""
    both = threading.Barrier(2)
    seen: list[list[int]] = []

    class Waiting:
        processors = 132

        def stream(self) -> None:
            both.wait(10)

        def load(self, launch: Launch) -> Any:
            return lambda stream, x, y, arguments: seen.append(_values(arguments))

    prepared = PreparedLaunches(PLAN, ("x", "out"), {}, Waiting())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: prepared.run(n, (n, 2 * n)), (5, 7)))
    assert sorted(seen) == [[5, 5, 28, 10], [7, 7, 28, 14]]


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
