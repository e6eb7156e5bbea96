"""Backends: found by module name, imported when asked for."""

import importlib
import pkgutil
from functools import cache

from hbconv.backends.base import Artifact, Backend
from hbconv.names import unknown

__all__ = ["Artifact", "Backend", "backend_names", "find_backend"]


@cache
def backend_names() -> tuple[str, ...]:
    """Return the names of all backends: the modules of this package, without helpers."""
    return tuple(
        sorted(
            m.name
            for m in pkgutil.iter_modules(__path__)
            if m.name != "base" and not m.name.startswith("_")
        )
    )


def find_backend(name: str) -> Backend:
    """Return the backend of that name, or raise OptionError with the nearest names."""
    if name not in backend_names():
        raise unknown("backend", name, backend_names())
    backend: Backend = importlib.import_module(f"{__name__}.{name}").BACKEND
    return backend
