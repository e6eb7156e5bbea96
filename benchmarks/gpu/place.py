"""Where a part runs: a CUDA device; or, in a rehearsal, the CPU with tiny sizes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from benchmarks.gpu.processes import python
from benchmarks.gpu.sanitizer import find_sanitizer
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.torch.launches import describe_device

__all__ = ["Cuda", "Place", "Rehearsal"]

Call = Callable[[], Any]
TOOLS = ("memcheck", "racecheck")


class Place(Protocol):
    """What a part needs to know of where it runs.

    Attributes
    ----------
    name : str
        Torch's name of the device.
    seconds : float
        For the calls of one figure.
    known : frozenset of str
        What an earlier call has asked already.
    """

    name: str
    seconds: float
    known: frozenset[str]

    def some(self, things: Iterable[Any]) -> list[Any]:
        """Return the things to ask: all, or one in a rehearsal."""

    def rows(self, count: int) -> int:
        """Return how many rows to take of so many."""

    def trees(self, count: int) -> int:
        """Return how many trees to fit of so many."""

    def sizes(self) -> Device:
        """Return the sizes of the device."""

    def synchronize(self) -> None:
        """Wait for the device."""

    def device_seconds(self, call: Call) -> float:
        """Time a call by the device's own clock."""

    def pinned(self, rows: Tensor) -> Tensor:
        """Return rows in memory that the device copies by itself."""

    def foreign(self, rows: Tensor) -> Any:
        """Return rows, where they lie, as an array that XGBoost reads."""

    def held_bytes(self) -> int:
        """Return the bytes of the device that tensors hold."""

    def peak_bytes(self, call: Call) -> int:
        """Return the bytes that a call takes at its peak, beside those held before."""

    def test_commands(self, tests: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Return the commands that ask tests, each with its name."""

    def kernel_commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands that run every kernel under a sanitizer, by the sanitizer's tool."""


class Cuda:
    """A CUDA device."""

    name = "cuda"
    seconds = 0.06

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.known = known

    def some(self, things: Iterable[Any]) -> list[Any]:
        """Return all of them."""
        return list(things)

    def rows(self, count: int) -> int:
        """Return their number."""
        return count

    def trees(self, count: int) -> int:
        """Return their number."""
        return count

    def sizes(self) -> Device:
        """Return the sizes of torch's current device."""
        return describe_device(torch.device("cuda", torch.cuda.current_device()))

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def device_seconds(self, call: Call) -> float:
        """Time what a call puts on torch's stream."""
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def pinned(self, rows: Tensor) -> Tensor:
        """Return rows in pinned memory."""
        return rows.pin_memory()

    def foreign(self, rows: Tensor) -> Any:
        """Return rows as an array of CuPy."""
        import cupy

        return cupy.from_dlpack(rows)

    def held_bytes(self) -> int:
        """Return the bytes that torch's tensors hold."""
        return int(torch.cuda.memory_allocated())

    def peak_bytes(self, call: Call) -> int:
        """Return the most that torch's allocator gave out during a call."""
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated() - held)

    def test_commands(self, tests: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Return a command for each test."""
        return [(test, _pytest(test)) for test in tests]

    def kernel_commands(self) -> list[tuple[str, list[str]]]:
        """Return compute-sanitizer's commands; none, where it is missing."""
        tool = find_sanitizer()
        if tool is None:
            return []
        kernels = python("benchmarks.gpu.every_kernel", "driver")
        return [(name, [tool, "--tool", name, "--error-exitcode", "9", *kernels]) for name in TOOLS]


class Rehearsal:
    """The CPU in place of a device; kernels are emulated, and nothing is timed twice."""

    name = "cpu"
    seconds = 0.0

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.known = known

    def some(self, things: Iterable[Any]) -> list[Any]:
        """Return the first of them."""
        return list(things)[:1]

    def rows(self, count: int) -> int:
        """Return their number, at most 300: enough to fit a tree to."""
        return min(count, 300)

    def trees(self, count: int) -> int:
        """Return their number, at most three."""
        return min(count, 3)

    def sizes(self) -> Device:
        """Return the sizes of the emulated device."""
        import pytest
        from emulated_device import DEVICE, emulate_launches

        emulate_launches(pytest.MonkeyPatch())  # for as long as the process lives
        return DEVICE

    def synchronize(self) -> None:
        """Wait for nothing."""

    def device_seconds(self, call: Call) -> float:
        """Time a call by the host's clock."""
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    def pinned(self, rows: Tensor) -> Tensor:
        """Return the rows."""
        return rows

    def foreign(self, rows: Tensor) -> Any:
        """Return rows as an array of numpy."""
        return rows.numpy()

    def held_bytes(self) -> int:
        """Return zero."""
        return 0

    def peak_bytes(self, call: Call) -> int:
        """Return zero."""
        call()
        return 0

    def test_commands(self, tests: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Return one command that finds all tests, and runs none."""
        return [("found", [*_pytest(*tests), "--collect-only"])] if tests else []

    def kernel_commands(self) -> list[tuple[str, list[str]]]:
        """Return the command that emulates every kernel."""
        return [("emulated", python("benchmarks.gpu.every_kernel", "emulated"))]


def _pytest(*tests: str) -> list[str]:
    """Return the command that runs tests apart from the project's own settings and plugins."""
    settings = ["--noconftest", "--rootdir", str(Path.cwd()), "-c", "/dev/null", "-W", "ignore"]
    return [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        *settings,
        *tests,
    ]
