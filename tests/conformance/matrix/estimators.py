"""The table: every estimator that hbconv parses, each in several settings. Each module of ``cases`` holds some of them."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from matrix.case import Case

__all__ = ["CASES", "first_settings"]

_MODULES = (
    importlib.import_module(f"matrix.cases.{found.name}")
    for found in pkgutil.iter_modules([str(Path(__file__).parent / "cases")])
)

CASES: tuple[Case, ...] = tuple(case for module in _MODULES for case in module.CASES)


def first_settings() -> tuple[Case, ...]:
    """The first case of each estimator."""
    return tuple({case.estimator: case for case in reversed(CASES)}.values())[::-1]
