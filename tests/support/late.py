"""Libraries that take seconds to import, imported by the first test that asks them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

__all__ = ["late"]


class _Library:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):  # pytest asks each name of a module for these
            raise AttributeError(attribute)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some warn of what they import themselves
            module = pytest.importorskip(self._name)
            try:
                return getattr(module, attribute)
            except AttributeError:
                return importlib.import_module(f"{self._name}.{attribute}")


def late(name: str) -> Any:
    """Return a module that is imported when it is asked for an attribute.

    A test that asks for one is skipped where the library is missing.
    """
    return _Library(name)
