"""Launch the kernels of a plan, on memory of which only the addresses are known here."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, Protocol

from hbconv.backends.cuda.plan import Launch, LaunchPlan

__all__ = ["MAX_PASSES", "Launcher", "launch_all"]

MAX_PASSES = 65535
"""Blocks that a grid may have along its second side; a block takes several passes beyond it."""
SLOT = 8
"""Bytes of memory for each argument."""


class Launcher(Protocol):
    """What runs a kernel: a device, or an emulation of one in tests."""

    processors: int

    def launch(self, launch: Launch, blocks: tuple[int, int], arguments: Any) -> None:
        """Run one kernel; ``arguments`` is an array of the addresses of their values."""


def launch_all(
    plan: LaunchPlan, addresses: Mapping[str, int], n_rows: int, launcher: Launcher
) -> None:
    """Run all kernels, one after another, for at least one row."""
    known = {**addresses, "n": n_rows}
    for launch in plan.launches:
        passes = min(launch.grid.passes, MAX_PASSES)
        blocks = launch.grid.blocks(n_rows, launcher.processors), passes
        given = [a if isinstance(a, int) else known[a] for a in launch.arguments]
        slots = (ctypes.c_int64 * len(given))(*given)  # an int of 4 bytes is the lower half
        first = ctypes.addressof(slots)
        places = range(first, first + ctypes.sizeof(slots), SLOT)
        launcher.launch(launch, blocks, (ctypes.c_void_p * len(given))(*places))
