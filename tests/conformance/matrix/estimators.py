"""The table: every estimator that hbconv parses, each in several settings.

The cases of an estimator stand in ``cases`` where its parser stands in ``hbconv.parse``.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from matrix.case import Case

__all__ = ["CASES", "CASES_OF", "first_settings"]

_ROOT = Path(__file__).parent / "cases"

CASES_OF: dict[str, tuple[Case, ...]] = {
    name: importlib.import_module(f"matrix.cases.{name}").CASES
    for path in sorted(_ROOT.rglob("*.py"))
    if (name := ".".join(path.relative_to(_ROOT).with_suffix("").parts))
}
"""The cases of each module, such as ``"sklearn.impute.knn"``."""

CASES: tuple[Case, ...] = tuple(case for cases in CASES_OF.values() for case in cases)


def first_settings() -> tuple[Case, ...]:
    """The first case of each estimator."""
    return tuple({case.estimator: case for case in reversed(CASES)}.values())[::-1]
