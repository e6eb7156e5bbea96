"""Hold the form of the pages: links, files they name, one short sentence a line."""

from __future__ import annotations

import re

import pytest
from docs.pages import PAGES, ROOT, prose

GENERATED = {ROOT / "docs/support.md"}
WRITTEN = [page for page in PAGES if page not in GENERATED]
MOST_WORDS = 25

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
NO_PROSE = ("#", "|", ">", "    ", "<!--", "![", "[")


def named(page):
    return str(page.relative_to(ROOT))


def anchors(page):
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {f"#{title.replace(' ', '-')}" for title in kept}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links(page):
    for target, anchor in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        found = page.parent / target if target else page
        assert found.exists(), f"{named(page)} links to {target}, which is not there"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{named(page)} links to {target}{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_named_files_are_there(page):
    named_files = re.findall(
        r"`((?:hbconv|tests|benchmarks|strategies|docs|examples)/[\w./]*)`", prose(page)
    )
    missing = [file for file in named_files if not (ROOT / file).exists()]
    assert not missing


def lines(page):
    """Yield the lines of prose, with a word for each span of code and each link."""
    for line in prose(page).splitlines():
        if line.strip() and not line.startswith(NO_PROSE):
            plain = re.sub(r"`[^`]*`", "code", line)
            plain = re.sub(r"\[[^\]]*\]\([^)]*\)", "link", plain)
            yield line, re.sub(r"^\s*(?:[-*]|\d+\.) ", "", plain).strip()


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_one_sentence_a_line(page):
    several = [line for line, plain in lines(page) if re.search(r"[.?!]\)? [A-Z`]", plain)]
    assert not several


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_sentences_are_short(page):
    long = [line for line, plain in lines(page) if len(plain.split()) > MOST_WORDS]
    assert not long
