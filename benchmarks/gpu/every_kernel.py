"""Run every kernel of trees on one small forest each, without torch, so a sanitizer starts soon.

python -m benchmarks.gpu.every_kernel driver|emulated
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
from forests import hostile_rows, random_forest

from hbconv.backends.cuda.choose import Candidate, TreeKernels
from hbconv.backends.cuda.clocks import H100
from hbconv.backends.cuda.driver import DeviceMemory, DriverDevice
from hbconv.backends.cuda.plan import launch_all

FORESTS: dict[str, dict[str, Any]] = {
    "shallow": {"n_trees": 12, "max_depth": 3},
    "deep": {"n_trees": 4, "max_depth": 14},
    "categories": {"n_trees": 6, "max_depth": 4, "n_categorical": 2},
    "vectors": {"n_trees": 6, "max_depth": 4, "n_outputs": 3, "vector": True},
    "wide": {"n_trees": 40, "max_depth": 4, "n_features": 120},
}
ROWS = 1100
"""More than a tile, and no whole number of them."""


def run_kernel(found: Candidate, x: npt.NDArray[Any], device: DeviceMemory) -> npt.NDArray[Any]:
    """Copy tables and rows to a device, run the kernel, and copy what it computes back."""
    plan = found.kernel.plan
    arrays = {name: np.ascontiguousarray(t) for name, t in found.kernel.tables.items()}
    arrays["x"] = np.ascontiguousarray(x)
    for name, buffer in plan.buffers:
        arrays[name] = np.zeros(buffer.shape(len(x)), buffer.dtype)
    with ExitStack() as stack:
        launcher = stack.enter_context(device.opened())
        addresses = {}
        for name, array in arrays.items():
            addresses[name] = device.take(array.nbytes)
            stack.callback(device.give, addresses[name])
            device.write(addresses[name], array)
        launch_all(plan, addresses, len(x), launcher)
        device.read(arrays["out"], addresses["out"])
    return arrays["out"]


def find_device(kind: str) -> tuple[DeviceMemory, Any]:
    """Return a device and its sizes: of the driver, or an emulated one."""
    if kind == "driver":
        device = DriverDevice(0)
        return device, device.sizes
    from emulated_cuda import EmulatedMemory

    return EmulatedMemory(), H100


def main() -> None:
    """Run all kernels, and end with an error if one differs from the forest's definition."""
    device, sizes = find_device(sys.argv[1])
    for name, settings in FORESTS.items():
        forest = random_forest(np.random.default_rng(1), **settings)
        x = hostile_rows(np.random.default_rng(2), forest, "float32", ROWS)
        kernels = TreeKernels(forest, "float32", True, sizes)
        want = np.ascontiguousarray(forest.scores(x))
        for found in kernels.candidates():
            got = run_kernel(found, x, device).reshape(want.shape)
            equal = got.astype(want.dtype).tobytes() == want.tobytes()
            print(
                f"{name}, {found.main}, {found.slices} slices: {'equal' if equal else 'DIFFERS'}",
                flush=True,
            )
            if not equal:
                sys.exit(1)


if __name__ == "__main__":
    main()
