"""The cookbook runs, and answers as it says."""

from __future__ import annotations

import json

from docs.pages import ROOT

LAST_PLACES = {"verify"}
"""Cells that show last places of functions, which processors round differently."""


def plain(cells):
    """Return what cells of code print and show as text."""
    return {
        cell["id"]: [
            output.get("text") or output["data"]["text/plain"] for output in cell["outputs"]
        ]
        for cell in cells
        if cell["cell_type"] == "code" and cell["id"] not in LAST_PLACES
    }


def test_the_cookbook_answers_as_it_says(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import cookbook

    cells = json.loads(cookbook.NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert plain(cookbook.run_cells(cells)) == plain(cells), (
        "Write it anew: python docs/site/cookbook.py"
    )
