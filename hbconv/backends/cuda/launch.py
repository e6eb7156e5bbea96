"""Launch the kernels of a plan, on memory of which only the addresses are known here."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Protocol

from hbconv.backends.cuda.plan import Launch, LaunchPlan

__all__ = ["MAX_PASSES", "Launcher", "launch_all"]

MAX_PASSES = 65535
"""Blocks that a grid may have along its second side; a block takes several passes beyond it."""


class Launcher(Protocol):
    """What runs a kernel: a device, or an emulation of one in tests."""

    processors: int

    def launch(self, launch: Launch, blocks: tuple[int, int], arguments: list[Any]) -> None:
        """Run one kernel; arguments are values of ``ctypes``."""


def launch_all(
    plan: LaunchPlan, addresses: Mapping[str, int], n_rows: int, launcher: Launcher
) -> None:
    """Run all kernels, one after another, for at least one row."""
    for launch in plan.launches:
        passes = min(launch.grid.passes, MAX_PASSES)
        blocks = launch.grid.blocks(n_rows, launcher.processors), passes
        arguments = [_argument(a, addresses, n_rows) for a in launch.arguments]
        launcher.launch(launch, blocks, arguments)


def _argument(argument: str | int, addresses: Mapping[str, int], n_rows: int) -> Any:
    if argument == "n":
        return ctypes.c_int(n_rows)
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    return ctypes.c_void_p(addresses[argument])
