"""Recipes for files that stand alone run where their own runtime can be imported, and no more."""

from __future__ import annotations

import re
import subprocess
import warnings
from pathlib import Path

import pytest
from alone import run_alone
from docs.pages import ROOT, blocks

PAGE = ROOT / "docs/exporting.md"


def examples(page):
    """Run the python blocks of a page that are not excerpts, and return their names."""
    names = {}
    for block in blocks(page):
        if block.language == "python" and not block.note:
            exec(block.text, names)
    return names


def test_the_recipe_for_torch_alone(tmp_path, monkeypatch):
    """It prints what the source model answers, for a missing number and an unknown city."""
    monkeypatch.chdir(tmp_path)
    names = examples(PAGE)
    said = run_alone(ROOT / "docs/recipes/torch_alone.py")
    rows = names["pd"].DataFrame(
        {"age": [31.0, float("nan")], "income": [2400.0, 3100.0], "city": ["oslo", "paris"]}
    )
    pipeline = names["pipeline"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            method: getattr(pipeline, method)(rows).tolist()
            for method in ("predict", "predict_proba", "predict_log_proba")
        }
    found = dict(re.findall(r"^(\w+) (.*)$", said, re.MULTILINE))
    assert {method: eval(text, {"inf": float("inf")}) for method, text in found.items()} == expected


def test_the_program_in_c(tmp_path, monkeypatch):
    """It prints what the source model answers."""
    monkeypatch.chdir(tmp_path)
    names = examples(PAGE)
    (program,) = [block.text for block in blocks(PAGE) if block.language == "c"]
    Path("main.c").write_text(program)
    command = ["cc", "-Wall", "-Werror", "main.c", "city.so", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, check=True)
    said = subprocess.run(["./main"], capture_output=True, text=True, check=True).stdout
    rows = names["pd"].DataFrame(
        {"age": [31.0, float("nan")], "income": [2400.0, 3100.0], "city": ["oslo", "paris"]}
    )
    lines = [line.split() for line in said.splitlines()]
    assert [line[0] for line in lines] == names["pipeline"].predict(rows).tolist()
    scores = [list(map(float, line[1:])) for line in lines]
    assert scores == names["pipeline"].predict_proba(rows).tolist()


def test_the_import_hook_refuses(tmp_path):
    """Otherwise the recipe would be tested where everything can be imported."""
    (tmp_path / "script.py").write_text("import numpy, hbconv")
    with pytest.raises(AssertionError, match="hbconv is not installed here"):
        run_alone(tmp_path / "script.py")


def test_the_recipe_is_short():
    lines = (ROOT / "docs/recipes/torch_alone.py").read_text().splitlines()
    assert len([line for line in lines[2:] if line.strip()]) <= 16
