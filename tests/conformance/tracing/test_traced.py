"""Functions and classes in the style of notebooks: each is right, or refused by name.

``python -m tracing.asked`` asks all of them anew, and writes which are refused.
"""

from __future__ import annotations

import pytest
from fitted import available_backends
from tracing.asked import REFUSED, Asked, all_asked, ask

ALL = all_asked()
KNOWN = frozenset(REFUSED.read_text(encoding="utf-8").split())
OF_TABLES = ("tables", "dates", "texts", "notebooks", "own_tables")

own_arrays = [asked for asked in ALL if asked.is_own and asked.theme not in OF_TABLES]
own_tables = [asked for asked in ALL if asked.is_own and asked.theme in OF_TABLES]
others = [asked for asked in ALL if not asked.is_own]
right = [asked for asked in ALL if asked.is_own and str(asked) not in KNOWN]


def test_the_list_is_of_the_subjects() -> None:
    assert len({str(asked) for asked in ALL}) == len(ALL)
    assert {str(asked) for asked in own_arrays + own_tables} >= KNOWN


def _require_status(asked: Asked, status: str, backend: str = "reference") -> None:
    found, why = ask(asked, backend)
    assert found == status, f"{asked} is {found}: {why}"


def _status(asked: Asked) -> str:
    return "refused" if str(asked) in KNOWN else "right"


@pytest.mark.parametrize("asked", own_arrays, ids=str)
@pytest.mark.share("light")
def test_of_arrays(asked: Asked) -> None:
    _require_status(asked, _status(asked))


@pytest.mark.parametrize("asked", own_tables, ids=str)
@pytest.mark.share("case")
def test_of_tables(asked: Asked) -> None:
    _require_status(asked, _status(asked))


@pytest.mark.parametrize("asked", others, ids=str)
def test_what_looks_at_more_than_a_row_is_refused(asked: Asked) -> None:
    _require_status(asked, "refused")


@pytest.mark.parametrize("backend", [b for b in available_backends() if b != "reference"])
@pytest.mark.parametrize("asked", right, ids=str)
@pytest.mark.share("linked")
def test_on_other_backends(asked: Asked, backend: str) -> None:
    _require_status(asked, "right", backend)
