"""The page of the command line says what the parsers say."""

from __future__ import annotations

import pytest
from docs.pages import ROOT

from hbconv.cli import COMMANDS


@pytest.fixture
def cli_page(monkeypatch):
    """Import the writer of the page."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import cli_page

    return cli_page


def test_the_page_is_of_these_parsers(cli_page):
    written = cli_page.PAGE.read_text(encoding="utf-8")
    assert written == cli_page.write_page(), "Write it anew: python docs/site/cli_page.py"


def test_every_command_has_a_section_with_examples(cli_page):
    page = cli_page.write_page()
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
        assert f"    hbconv {name} " in page or f"    hbconv {name}\n" in page
