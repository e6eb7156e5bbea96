"""Backends: found by module name, imported when asked for."""

import importlib
import pkgutil
from contextlib import suppress
from functools import cache

from hbconv.backends.base import Artifact, Backend
from hbconv.errors import MissingPackageError
from hbconv.names import unknown

__all__ = ["EXPORTS", "Artifact", "Backend", "backend_names", "find_backend", "find_installed"]

FASTEST_FIRST = ("tvm", "torch", "reference")
"""Backends that serve where none is named."""
SHARED = ("base", "cuda", "interface")
"""What backends share: their protocol, CUDA kernels, and the interface of files."""
EXPORTS = ("sql",)
"""Backends for files: they run to be judged, and no benchmark compares them with the others."""


@cache
def backend_names() -> tuple[str, ...]:
    """Return the names of the backends that models run on: modules of this package."""
    return tuple(
        sorted(
            m.name
            for m in pkgutil.iter_modules(__path__)
            if m.name not in (*SHARED, *EXPORTS) and not m.name.startswith("_")
        )
    )


def find_backend(name: str) -> Backend:
    """Return the backend of that name.

    Raises
    ------
    OptionError
        There is none; the message has the nearest names.
    MissingPackageError
        It needs a package that is not installed.
    """
    known = (*backend_names(), *EXPORTS)
    if name not in known:
        raise unknown("backend", name, known)
    try:
        backend: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        # A module of hbconv that is missing is a fault, and no package to install.
        if package in ("", "hbconv"):
            raise
        raise MissingPackageError(
            f"Backend {name!r} needs {package}. Install with: pip install 'hbconv[{package}]'"
        ) from error
    return backend


def find_installed(device: str = "cpu") -> str:
    """Return the name of the fastest backend that is installed and runs on a device.

    On CUDA devices that is torch: it takes every model.
    """
    if device.partition(":")[0] != "cpu":
        return "torch"
    for name in FASTEST_FIRST:
        with suppress(MissingPackageError):
            backend = find_backend(name)
            backend.require_packages()
            return name
    return "torch"
