"""The matrix, case by case: the tests of a case share its models, which are freed behind them."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path

import pytest
from matrix.compiled import compiled
from torch_scripts import free_scripts

HERE = Path(__file__).parent
CASES_TOGETHER = 10
"""Cases whose models are freed at once, since looking for all that is left takes a while."""

_seen: set[Hashable] = set()


def _case(item: pytest.Item | None) -> Hashable:
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("case") if callspec else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of a case together in each file, in the order in which cases come first."""
    ranks: dict[Hashable, int] = {}
    places = [place for place, item in enumerate(items) if item.path.parent == HERE]
    ours = sorted(
        (items[place] for place in places),
        key=lambda item: ranks.setdefault((item.path, _case(item)), len(ranks)),
    )
    for place, item in zip(places, ours, strict=True):
        items[place] = item


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Free the models of the cases that are done."""
    if _case(item) == _case(nextitem):
        return
    _seen.add(_case(item))
    if len(_seen) >= CASES_TOGETHER or nextitem is None or nextitem.path.parent != HERE:
        _seen.clear()
        compiled.cache_clear()
        free_scripts()
