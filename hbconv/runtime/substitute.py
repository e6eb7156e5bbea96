"""Substitutes: an installed backend for a loaded model, where its own is not installed."""

from __future__ import annotations

import warnings

from hbconv.backends import find_backend, find_installed
from hbconv.errors import MissingPackageError
from hbconv.target import Target

__all__ = ["find_runnable", "find_substitute"]


def find_runnable(target: Target, *, stored: bool) -> Target:
    """Return the target that a file was saved for, or a substitute.

    Parameters
    ----------
    target : Target
    stored : bool
        The file holds compiled programs.
    """
    try:
        backend = find_backend(target.backend)
        if not (stored and backend.runs_stored):
            backend.require_packages()
    except MissingPackageError as error:
        return find_substitute(target, error)
    return target


def find_substitute(target: Target, error: MissingPackageError) -> Target:
    """Return the target for the fastest backend that is installed, and warn that it is slower."""
    name = find_installed(target.device)
    warnings.warn(
        f"{error}. Until then backend {name!r} computes what is not compiled yet, more slowly. Or "
        "call model.compile(sample) with rows of these dtypes where it is installed, save the "
        "model, and load it with trusted=True.",
        UserWarning,
        stacklevel=2,
    )
    return target.replace(backend=name, strategy=None)
