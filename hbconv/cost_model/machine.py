"""Machine: what measured times depend on besides the processor: the versions that compute."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator

__all__ = ["PACKAGES", "describe_versions"]

PACKAGES = ("hbconv", "numpy", "torch", "apache-tvm", "onnxruntime")
SUFFIX = ".dist-info"


def describe_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute.

    They are read from the names of folders. ``importlib.metadata`` opens files, and takes twenty
    times as long.
    """
    # ``importlib.metadata`` takes 18 ms in a fresh process, names of folders 0.5 ms.
    versions = {"python": platform.python_version()}
    names = {_plain(package): package for package in PACKAGES}
    for name, version in _list_installed():
        if name in names:
            versions.setdefault(names[name], version)
    return versions


def _list_installed() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each package, those found first by imports first."""
    # In the order of imports, so of two versions the one that is imported counts.
    for folder in sys.path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in entries:
            if entry.endswith(SUFFIX):
                name, _, version = entry.removesuffix(SUFFIX).partition("-")
                yield _plain(name), version


def _plain(name: str) -> str:
    """Return a name as folders write it.

    Examples
    --------
    >>> _plain("apache-tvm"), _plain("Apache.TVM")
    ('apache_tvm', 'apache_tvm')
    """
    return re.sub(r"[-_.]+", "_", name).lower()
