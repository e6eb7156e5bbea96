"""Run the examples of the pages, and compare what they print.

- ``pycon`` blocks of a page are one session, whose printed answers are compared.
- ``python`` blocks run in order; a ``text prints`` block behind one holds what it prints.
- ``python NAME`` is an excerpt of the file at that path from the page.
- ``python needs NAME`` runs where that package is installed, and Java where Spark needs it.
- ``python asks NAME`` asks a server, by that package: tests of the server run it.
- ``python sketch`` is not run.
"""

from __future__ import annotations

import doctest
import io
import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from docs.pages import PAGES, ROOT, blocks

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def holding(*kinds):
    """Return the pages with a block of one of these languages or notes."""
    return [
        page
        for page in PAGES
        if any(kind in (block.language, block.note) for block in blocks(page) for kind in kinds)
    ]


def named(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with the modules of the tour at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/tour"))


@pytest.mark.parametrize("page", holding("pycon"), ids=named)
def test_sessions(page):
    session = "\n".join(block.text for block in blocks(page) if block.language == "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, str(page), 0)
    said = io.StringIO()
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.write)
    assert not said.getvalue(), said.getvalue()


def is_run(note):
    """Tell whether a block runs here: one without a note, or whose package is installed."""
    needs, _, package = note.partition(" ")
    if needs != "needs":
        return not note
    return find_spec(package) is not None and (package != "pyspark" or which("java") is not None)


@contextmanager
def heard(note):
    """Ignore the warnings of packages that a block needs: clusters warn of their own matters."""
    with warnings.catch_warnings():
        if note:
            warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("page", holding("python", "prints"), ids=named)
def test_scripts(page, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # where hbconv is installed
    names = {}
    printed = ""
    for block in blocks(page):
        if block.language == "python" and is_run(block.note):
            with redirect_stdout(io.StringIO()) as out, heard(block.note):
                exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
            printed = out.getvalue()
        elif block.note.startswith(("needs ", "asks ")):
            printed = None
        if (block.language, block.note) == ("text", "prints") and printed is not None:
            same = doctest.OutputChecker().check_output(block.text, printed, FLAGS)
            assert same, f"{page.name}:{block.line} is not what is printed:\n{printed}"


def stale_excerpts(pages):
    """Return the excerpts that are not in their files: page and line."""
    return [
        f"{named(page)}:{block.line}"
        for page in pages
        for block in blocks(page)
        if block.language == "python"
        and block.note.endswith(".py")
        and block.text not in (page.parent / block.note).read_text(encoding="utf-8")
    ]


def test_excerpts():
    assert stale_excerpts(PAGES) == []


def test_a_stale_excerpt_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "code.py").write_text("one = 1\ntwo = 2\n")
    page = tmp_path / "page.md"
    page.write_text("```python code.py\none = 1\n```\n\n```python code.py\ntwo = 3\n```\n")
    assert stale_excerpts([page]) == ["page.md:6"]
