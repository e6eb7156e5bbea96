"""Fitted and converted models are shared by the tests of a module of cases, then freed.

Tests that have a ``case`` of the matrix run module by module and case by case, from whichever file
they are, so that a process fits and converts each case once. Other tests keep what they made in
cached functions of their own file, which are emptied behind the file's last test.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Hashable
from types import ModuleType
from typing import Any

import psutil
import pytest
from matrix.estimators import CaseName, modules

__all__ = ["case_of"]

GROWTH_BYTES = 256 << 20
"""Growth of the process from which on what TorchScript keeps is freed too, which takes a second."""

_least = [0]
"""Bytes of the process when its tests began, or when it was freed last."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--cases-of``."""
    parser.addoption(
        "--cases-of",
        type=lambda text: text.split(","),
        metavar="MODULE,...",
        help="run the cases of these modules of the matrix alone, such as sklearn.impute",
    )


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Any:
    """The case of the matrix that a test names."""
    return request.param.made()


def case_of(item: pytest.Item) -> CaseName | None:
    """Return the case of the matrix that a test has."""
    callspec = getattr(item, "callspec", None)
    named = callspec.params.get("case") if callspec else None
    return named if isinstance(named, CaseName) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of a module of cases together, in the place of the first of them."""
    _leave_out_others(config, items)
    named = [item for item in items if case_of(item)]
    if not named:
        return
    ranks = {module: rank for rank, module in enumerate(modules())}
    named.sort(key=lambda item: _rank(item, ranks))
    first = next(place for place, item in enumerate(items) if case_of(item))
    others = [item for item in items if not case_of(item)]
    items[:] = [*others[:first], *named, *others[first:]]


def _leave_out_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = config.getoption("--cases-of")
    if chosen:
        left = {item for item in items if (name := case_of(item)) and name.module not in chosen}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def _rank(item: pytest.Item, ranks: dict[str, int]) -> tuple[int, int]:
    name = case_of(item)
    assert name is not None
    return ranks[name.module], name.position


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over all that was imported: four million objects."""
    gc.collect()
    gc.freeze()
    _least[0] = _process_bytes()


def pytest_unconfigure() -> None:
    """Let what was imported be freed with the process; some libraries report what is not."""
    gc.unfreeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free what no later test takes."""
    if nextitem is None or _room(nextitem) != _room(item):
        _forget_cases()
    module = getattr(item, "module", None)
    if module is not None and (nextitem is None or nextitem.path != item.path):
        _empty(module)
    # A test may have put None there, as if torch were absent.
    if sys.modules.get("torch") and _process_bytes() > _least[0] + GROWTH_BYTES:
        _free_scripts()


def _room(item: pytest.Item) -> Hashable:
    name = case_of(item)
    return item.path if name is None else name.module


def _empty(module: ModuleType) -> None:
    """Empty the cached functions of a file."""
    for value in vars(module).values():
        if getattr(value, "__module__", "") == module.__name__ and hasattr(value, "cache_clear"):
            value.cache_clear()


def _forget_cases() -> None:
    for name in ("matrix.case.fitted", "matrix.compiled.compiled"):
        module, _, function = name.rpartition(".")
        if module in sys.modules:
            getattr(sys.modules[module], function).cache_clear()


def _free_scripts() -> None:
    from torch_scripts import free_scripts

    free_scripts()
    _least[0] = _process_bytes()


def _process_bytes() -> int:
    return int(psutil.Process().memory_info().rss)
