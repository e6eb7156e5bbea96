"""Hold the form of the pages: links, files they name, one short sentence a line."""

from __future__ import annotations

import re

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


def offences(find, pages):
    """Return what a rule finds in each page that breaks it."""
    found = {named(page): list(find(page)) for page in pages}
    return {name: offences for name, offences in found.items() if offences}


def dead_links(page):
    for target, anchor in LINK.findall(prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        found = page.parent / target if target else page
        is_page = found.suffix == ".md" and found.exists()
        if not found.exists() or (anchor and is_page and anchor not in anchors(found)):
            yield target + anchor


def missing_files(page):
    files = re.findall(
        r"`((?:hbconv|tests|benchmarks|strategies|docs|examples)/[\w./]*)`", prose(page)
    )
    return [file for file in files if not (ROOT / file).exists()]


def lines(page):
    """Yield the lines of prose, with a word for each span of code and each link."""
    for line in prose(page).splitlines():
        if line.strip() and not line.startswith(NO_PROSE):
            plain = re.sub(r"`[^`]*`", "code", line)
            plain = re.sub(r"\[[^\]]*\]\([^)]*\)", "link", plain)
            yield line, re.sub(r"^\s*(?:[-*]|\d+\.) ", "", plain).strip()


def lines_of_several_sentences(page):
    return [line for line, plain in lines(page) if re.search(r"[.?!]\)? [A-Z`]", plain)]


def long_lines(page):
    return [line for line, plain in lines(page) if len(plain.split()) > MOST_WORDS]


def test_links():
    assert offences(dead_links, PAGES) == {}


def test_named_files_are_there():
    assert offences(missing_files, PAGES) == {}


def test_messages_name_sections_that_are_there():
    """Messages point to a page, most often to a short anchor of the questions."""
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "hbconv").rglob("*.py"))
    named = set(re.findall(r"(docs/[\w/]+\.md)(#[\w-]+)?", code))
    assert ("docs/faq.md", "#refused") in named
    pages = {page: ROOT / page for page, _ in named}
    assert [page for page, path in pages.items() if not path.exists()] == []
    assert [(p, a) for p, a in named if a and a not in anchors(pages[p])] == []


def test_one_sentence_a_line():
    assert offences(lines_of_several_sentences, WRITTEN) == {}


def test_sentences_are_short():
    assert offences(long_lines, WRITTEN) == {}


def test_each_offence_is_found(tmp_path, monkeypatch):
    """On a page that breaks every rule once, beside lines that break none."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "other.md").write_text("# A heading\n")
    long = " ".join(["word"] * (MOST_WORDS + 1))
    page = tmp_path / "page.md"
    page.write_text(
        "# Own heading\n\n[a](other.md#a-heading) [b](#own-heading) [c](https://example.org)\n"
        "[d](gone.md) [e](other.md#gone) [f](#gone)\n"
        "Files `hbconv/gone.py` and `tests/gone/`.\n"
        "One sentence. Another one.\n"
        f"- {long}\n"
        "```text\nOne. Two. [g](gone.md) `docs/gone.md`\n```\n"
    )
    assert offences(dead_links, [page]) == {"page.md": ["gone.md", "other.md#gone", "#gone"]}
    assert offences(missing_files, [page]) == {"page.md": ["hbconv/gone.py", "tests/gone/"]}
    assert offences(lines_of_several_sentences, [page]) == {
        "page.md": ["One sentence. Another one."]
    }
    assert offences(long_lines, [page]) == {"page.md": [f"- {long}"]}
