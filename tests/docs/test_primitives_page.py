"""The page of primitives says what the tables of the backends say."""

from __future__ import annotations

import pytest
from docs.pages import ROOT

from hbconv.tensor.primitive import PRIMITIVES, OpKind


@pytest.fixture
def primitives_page(monkeypatch):
    """Import the writer of the page."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import primitives_page

    return primitives_page


def test_the_page_is_of_these_tables(primitives_page):
    written = primitives_page.PAGE.read_text(encoding="utf-8")
    assert written == primitives_page.write_page(), (
        "Write it anew: python docs/site/primitives_page.py"
    )


def test_every_primitive_has_a_row_and_every_kind_a_price(primitives_page):
    page = primitives_page.write_page()
    assert set(primitives_page.KINDS) == set(OpKind)
    for name in PRIMITIVES:
        assert f"\n| `{name}" in page
