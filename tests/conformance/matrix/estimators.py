"""The table: every estimator that hbconv parses, each in several settings.

The cases of an estimator stand in ``cases`` where its parser stands in ``hbconv.parse``. Tests are
collected by the names of cases alone. An index of the names is kept beside the compiled code, since
making all cases imports all libraries, which takes seconds.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from suite.kept_cache import keep_text, kept_folder

if TYPE_CHECKING:
    from matrix.case import Case

__all__ = ["CaseName", "case_names", "cases_of", "first_names", "modules", "name_of"]

_MATRIX = Path(__file__).parent
_ROOT = _MATRIX / "cases"


def name_of(estimator: str, setting: str) -> str:
    """Return the name of a case: the class, with its library unless that is scikit-learn."""
    name = estimator.rpartition(".")[2] if estimator.startswith("sklearn.") else estimator
    return f"{name}[{setting}]"


@dataclass(frozen=True)
class CaseName:
    """What is known of a case before it is made: its place in the table, and three of its fields."""

    module: str
    position: int
    estimator: str
    setting: str
    same_as: str

    def __str__(self) -> str:
        return name_of(self.estimator, self.setting)

    def made(self) -> Case:
        """Return the case."""
        return cases_of(self.module)[self.position]


@cache
def cases_of(module: str) -> tuple[Case, ...]:
    """Make the cases of a module, such as ``"sklearn.impute"``."""
    cases: tuple[Case, ...] = importlib.import_module(f"matrix.cases.{module}").CASES
    return cases


def modules() -> tuple[str, ...]:
    """Return the names of the modules of cases."""
    paths = (path.relative_to(_ROOT).with_suffix("") for path in sorted(_ROOT.rglob("*.py")))
    return tuple(".".join(path.parts) for path in paths)


@cache
def case_names() -> tuple[CaseName, ...]:
    """Return the names of all cases, from the index if it is of these files."""
    path = kept_folder() / f"cases-{_digest()}.json"
    try:
        return tuple(CaseName(*fields) for fields in json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        names = _names()
    keep_text(path, json.dumps([astuple(name) for name in names]))
    return names


def first_names() -> tuple[CaseName, ...]:
    """Return the first case of each estimator."""
    firsts = {name.estimator: name for name in reversed(case_names())}
    return tuple(firsts.values())[::-1]


def _names() -> tuple[CaseName, ...]:
    return tuple(
        CaseName(module, position, case.estimator, case.setting, case.same_as)
        for module in modules()
        for position, case in enumerate(cases_of(module))
    )


def _digest() -> str:
    """Digest the files that make cases."""
    digest = hashlib.sha256()
    for path in sorted(_MATRIX.rglob("*.py")):
        digest.update(path.relative_to(_MATRIX).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]
