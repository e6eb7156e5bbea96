"""What of this machine a check needs: there or missing, with the way to get it."""

from __future__ import annotations

import ctypes
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from benchmarks.gpu.sanitizer import find_sanitizer

__all__ = ["describe", "facts"]

PACKAGES = {
    "torch": ("torch", "all parts"),
    "scikit-learn": ("sklearn", "all parts"),
    "scipy": ("scipy", "all parts"),
    "safetensors": ("safetensors", "prepared models"),
    "pytest": ("pytest", "unproven, kernels"),
    "hypothesis": ("hypothesis", "unproven, kernels, sanitize"),
    "pyarrow": ("pyarrow", "score"),
    "apache-tvm": ("tvm", "backend tvm"),
    "lightgbm": ("lightgbm", "fitting; prepared models need none"),
    "xgboost": ("xgboost", "fitting; prepared models need none; a peer"),
    "nvforest-cu13": ("nvforest", "a peer"),
    "cupy-cuda13x": ("cupy", "arrays of CuPy"),
    "iniconfig": ("iniconfig", "pytest"),
    "packaging": ("packaging", "pytest"),
    "pluggy": ("pluggy", "pytest"),
    "pygments": ("pygments", "pytest"),
    "sortedcontainers": ("sortedcontainers", "hypothesis"),
    "apache-tvm-ffi": ("tvm_ffi", "apache-tvm"),
    "ml_dtypes": ("ml_dtypes", "apache-tvm"),
    "narwhals": ("narwhals", "lightgbm"),
    "libnvforest-cu13": ("libnvforest", "nvforest-cu13"),
    "pylibraft-cu13": ("pylibraft", "nvforest-cu13"),
    "libraft-cu13": ("libraft", "nvforest-cu13"),
    "rmm-cu13": ("rmm", "nvforest-cu13"),
    "librmm-cu13": ("librmm", "nvforest-cu13"),
    "rapids-logger": ("rapids_logger", "nvforest-cu13"),
    "treelite": ("treelite", "nvforest-cu13"),
}
"""By what pip calls them: the module, and what asks for it. What torch brings is left out; all else
that they load is here, since folders of wheels come without it, and then a library is not found."""


def describe() -> str:
    """Write a line for each thing, and the commands that get what is missing."""
    found = facts()
    lines = [f"{name:<18} {told}" for name, told in found.items()]
    missing = [name for name in PACKAGES if found[name].startswith("missing")]
    if missing:
        names = " ".join(missing)
        lines += [
            "get: python -m venv --system-site-packages .venv-gpu",
            f"     .venv-gpu/bin/pip install {names}",
            "or, where there is no network, with what was unpacked elsewhere in build/wheels:",
            f"     pip install --no-deps --target build/wheels {names}",
            "     PYTHONPATH=build/wheels python -m benchmarks.gpu",
        ]
    if found["compute-sanitizer"].startswith("missing"):
        lines.append("get: compute-sanitizer comes with the CUDA toolkit (cuda-sanitizer)")
    return "\n".join(lines)


def facts() -> dict[str, str]:
    """Return what is there, by name; nothing heavy is imported."""
    packages = {name: _package(name, *about) for name, about in PACKAGES.items()}
    programs = {
        "compute-sanitizer": find_sanitizer() or "missing; asked for by sanitize",
        "g++": shutil.which("g++") or "missing; asked for by unproven, which compiles files",
    }
    return {"device": _device(), "NVRTC": _nvrtc(), **programs, **packages}


def _package(name: str, module: str, asks: str) -> str:
    if find_spec(module) is None:
        return f"missing; asked for by {asks}"
    try:
        return version(name)
    except PackageNotFoundError:
        return "there, without a version"


def _device() -> str:
    """Ask the driver for the name of the first device, and how many there are."""
    name = ctypes.create_string_buffer(100)
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "missing: there is no driver"
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "missing: the driver sees no device"
    driver.cuDeviceGetName(name, len(name), 0)
    others = f" and {count.value - 1} more" if count.value > 1 else ""
    return name.value.decode() + others


def _nvrtc() -> str:
    from hbconv.backends.cuda.compile import find_nvrtc, nvrtc_version
    from hbconv.errors import BackendError

    try:
        return f"{nvrtc_version()}, {find_nvrtc()}"
    except BackendError as error:
        return f"missing: {error}"
