"""Run the examples of the pages, and compare what they print.

- ``pycon`` blocks of a page are one session, whose printed answers are compared.
- ``python`` blocks run in order; a ``text prints`` block behind one holds what it prints.
- ``python NAME`` is an excerpt of the file of that name beside the page.
- ``python sketch`` is not run.
"""

from __future__ import annotations

import doctest
import io
from contextlib import redirect_stdout
from pathlib import Path

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


@pytest.mark.filterwarnings("ignore:Operation with range")  # MLflow's, of pandas 3
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts(page):
    names = {}
    printed = ""
    for block in blocks(page):
        if block.language == "python" and not block.note:
            with redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
            printed = out.getvalue()
        if (block.language, block.note) == ("text", "prints"):
            same = doctest.OutputChecker().check_output(block.text, printed, FLAGS)
            assert same, f"{page.name}:{block.line} is not what is printed:\n{printed}"


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_excerpts(page):
    for block in blocks(page):
        if block.language == "python" and block.note.endswith(".py"):
            assert block.text in (page.parent / block.note).read_text(encoding="utf-8")
