"""Import TVM, and leave out torch, which TVM imports for tensors that kernels never see."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import get_ident
from types import ModuleType

__all__ = ["import_tvm"]

TORCH = "torch"
CACHES = "XDG_CACHE_HOME"


def import_tvm() -> None:
    """Import TVM; a process without torch stays so.

    TVM's interface to Python imports torch where that is installed, which takes longer than all of
    TVM. What it uses torch for is for callers who pass tensors: in a process that imports torch
    before, it finds torch as always.

    On Windows torch comes first, for the symbols of both conflict there if it comes second.
    """
    with _some_home():
        _import()


def _import() -> None:
    if sys.platform == "win32" or not sys.modules.keys().isdisjoint({TORCH, "tvm", "tvm_ffi"}):
        import tvm

        return
    # Importing TVM 0.27 took 1.4 s of processor time with torch 2.13, and 0.41 s without.
    finder = _WithoutTorch()
    sys.meta_path.insert(0, finder)
    try:
        import tvm  # noqa: F401
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _some_home() -> Iterator[None]:
    """Name a folder of caches for a user who has no home.

    TVM asks for one as it is imported, and otherwise raises. It writes there only what hbconv does
    not have it compute.
    """
    try:
        Path.home()
    except RuntimeError:
        named = CACHES not in os.environ
    else:
        named = False
    if named:
        os.environ[CACHES] = os.devnull
    try:
        yield
    finally:
        if named:
            del os.environ[CACHES]


class _WithoutTorch(MetaPathFinder):
    """Hide torch from the thread that made this, and from no other."""

    def __init__(self) -> None:
        self.thread = get_ident()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Raise for torch, as if it was not installed; have other finders look for all else."""
        if fullname == TORCH and get_ident() == self.thread:
            raise ModuleNotFoundError("TVM is imported without torch.", name=TORCH)
        return None
