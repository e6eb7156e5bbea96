"""The site's menu is short, and its pictures of the front page are of today's figures."""

from __future__ import annotations

import re

import pytest
from docs.pages import ROOT

MOST_GROUPS = 6
MOST_ENTRIES = 8


def entries(indent):
    """Return the lines of the menu at a depth, by the group that they stand in."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    found: dict[str, list[str]] = {}
    group = ""
    for line in menu.splitlines():
        if re.match(r"  - ", line):
            group = line.strip(" -:")
            found[group] = []
        elif re.match(rf" {{{indent}}}- ", line):
            found[group].append(line.strip(" -:"))
    return found


def test_the_menu_has_few_groups_of_few_entries():
    groups = entries(6)
    assert len(groups) <= MOST_GROUPS
    assert {group: len(found) for group, found in groups.items() if len(found) > MOST_ENTRIES} == {}
    assert all(groups.values())


def test_every_page_is_in_the_menu_once():
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"- (\S+\.md)$", menu, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages - set(listed) == {"README.md"}


@pytest.mark.parametrize("name", ["front.svg", "badges.svg"])
def test_pictures_of_the_front_page_are_of_these_figures(monkeypatch, name):
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import front_picture

    drawn = {"front.svg": front_picture.draw, "badges.svg": front_picture.draw_badges}[name]()
    written = (ROOT / "docs/figures" / name).read_text(encoding="utf-8")
    assert written == drawn, "Draw it anew: python docs/site/front_picture.py"
