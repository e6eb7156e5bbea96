"""What a report of a bug says of the machine: versions, processor, backends that are ready."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from hbconv.backends import backend_names, find_backend
from hbconv.errors import MissingPackageError

__all__ = ["describe_environment"]

PACKAGES = (
    *("hbconv", "numpy", "scikit-learn", "lightgbm", "xgboost", "catboost", "pandas", "pyarrow"),
    *("apache-tvm", "torch", "onnx", "onnxruntime", "safetensors"),
)
FEATURES = ("avx2", "fma", "avx512f", "avx512_vbmi", "asimd", "sve")
"""Of processors, those that kernels use."""


def describe_environment() -> dict[str, str]:
    """Return facts by their names, without paths, users or hosts."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
        "backends": ", ".join(name for name in backend_names() if _is_ready(name)),
        "HBCONV_MACHINE": os.environ.get("HBCONV_MACHINE", ""),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _is_ready(name: str) -> bool:
    try:
        find_backend(name).require_packages()
    except MissingPackageError:
        return False
    return True


def _processor() -> str:
    """Return the processor's name and the features that kernels use; Linux alone tells both."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    facts = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    features = facts.get("flags", facts.get("Features", "")).split()
    name = facts.get("model name") or platform.processor() or platform.machine()
    return " ".join([name, *(f for f in FEATURES if f in features)])
