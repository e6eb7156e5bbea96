"""Wrap methods where the libraries' classes define them, in modules imported before and after."""

from __future__ import annotations

import copy
import importlib.abc
import inspect
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from hbconv.parse import METHODS

__all__ = ["Wrapping", "is_library"]

LIBRARIES = ("sklearn", "lightgbm", "xgboost", "catboost")

COMPUTING = (
    *METHODS,
    "calc_leaf_indexes",
    "inverse_transform",
    "kneighbors_graph",
    "predict_joint_log_proba",
    "radius_neighbors",
    "radius_neighbors_graph",
    "staged_predict_log_proba",
)
"""What hbconv offers, what it calls otherwise, and what it lacks, which is worth counting."""

FITTING = ("fit", "fit_predict", "fit_transform", "partial_fit")

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def is_library(module: str) -> bool:
    """Whether a module belongs to a library whose models hbconv reads, and not to its tests."""
    parts = str(module).split(".")
    return parts[0] in LIBRARIES and not {"tests", "conftest"} & set(parts)


class Wrapping(importlib.abc.MetaPathFinder):
    """Replaces methods while it is on; it finds modules of the libraries, to wrap those too.

    Parameters
    ----------
    computing, fitting, started : callable
        Take a method that computes, one that fits, and the start of threads, and return what
        is to be called instead.
    """

    def __init__(self, computing: Wrap, fitting: Wrap, started: Wrap) -> None:
        self._wraps = ((COMPUTING, computing), (FITTING, fitting))
        self._started = started
        self._originals: list[tuple[type, str, Any]] = []

    def begin(self) -> None:
        """Wrap what is imported, and watch imports."""
        for module in list(sys.modules.values()):
            self._wrap_module(module)
        self._replace(threading.Thread, "start", self._started(threading.Thread.start))
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Put everything back."""
        sys.meta_path.remove(self)
        while self._originals:
            cls, name, original = self._originals.pop()
            setattr(cls, name, original)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module as all others do; its classes are wrapped once it is executed."""
        if not is_library(name):
            return None
        others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next(filter(None, (f.find_spec(name, path, target) for f in others)), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader | ExtensionFileLoader):
            vars(spec.loader)["exec_module"] = self._executing(spec.loader.exec_module)
        return spec

    def _executing(self, execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                self._wrap_module(module)

        return exec_module

    def _wrap_module(self, module: ModuleType) -> None:
        name = getattr(module, "__name__", "")
        if not is_library(name):
            return
        for cls in list(vars(module).values()):
            if isinstance(cls, type) and cls.__module__ == name:
                self._wrap_class(cls)

    def _wrap_class(self, cls: type) -> None:
        for names, wrap in self._wraps:
            for name in names:
                original = vars(cls).get(name)
                if inspect.isfunction(original):
                    self._replace(cls, name, wrap(original))
                elif inspect.isfunction(getattr(original, "fn", None)):  # available_if
                    descriptor: Any = copy.copy(original)
                    descriptor.fn = wrap(descriptor.fn)
                    self._replace(cls, name, descriptor)

    def _replace(self, cls: type, name: str, wrapped: Any) -> None:
        self._originals.append((cls, name, vars(cls)[name]))
        setattr(cls, name, wrapped)
