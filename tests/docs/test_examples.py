"""Run the examples of the pages, and compare what they print.

- ``pycon`` blocks of a page are one session, whose printed answers are compared.
- ``python`` blocks run in order; a ``text prints`` block behind one holds what it prints.
- ``python NAME`` is an excerpt of the file of that name beside the page.
- ``python needs NAME`` runs where that package is installed, and Java where Spark needs it.
- ``python sketch`` is not run.
"""

from __future__ import annotations

import doctest
import io
import warnings
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from docs.pages import PAGES, ROOT, blocks

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WITH_CODE = [page for page in PAGES if any(b.language in ("python", "pycon") for b in blocks(page))]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder, with the modules of the tour at hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/tour"))


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
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


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts(page):
    names = {}
    printed = ""
    for block in blocks(page):
        if block.language == "python" and is_run(block.note):
            with redirect_stdout(io.StringIO()) as out, heard(block.note):
                exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
            printed = out.getvalue()
        elif block.note.startswith("needs "):
            printed = None
        if (block.language, block.note) == ("text", "prints") and printed is not None:
            same = doctest.OutputChecker().check_output(block.text, printed, FLAGS)
            assert same, f"{page.name}:{block.line} is not what is printed:\n{printed}"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_excerpts(page):
    for block in blocks(page):
        if block.language == "python" and block.note.endswith(".py"):
            assert block.text in (page.parent / block.note).read_text(encoding="utf-8")
