"""Where parsers live, and what they import."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import hbconv.parse
from hbconv.parse import parser_names
from hbconv.parse.registry import find_entry

ROOT = Path(hbconv.parse.__file__).parent
LIBRARIES = ("catboost", "imblearn", "lightgbm", "ngboost", "sklearn", "xgboost")
BUILT_ON = {"ngboost": "sklearn", "spark": "lightgbm"}
"""Libraries whose models are made of another's."""


def files():
    return sorted(ROOT.rglob("*.py"))


def module(path):
    parts = ("hbconv", "parse", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(part for part in parts if part != "__init__")


def imported(path):
    """List the modules of parse that a file imports anywhere, for type checking and in
    functions too.
    """
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    named = (node.module for node in nodes if isinstance(node, ast.ImportFrom))
    return {name for name in named if name.startswith("hbconv.parse")} - {module(path)}


def room(name):
    return name.split(".")[2] if name.count(".") > 1 else ""


@pytest.mark.parametrize("name", [n for n in parser_names() if n.startswith(LIBRARIES)])
def test_parsers_live_where_their_estimator_is_imported_from(name):
    library, *modules, _ = name.split(".")
    home = ".".join(("hbconv.parse", library, *modules[:1]))
    assert f"{find_entry(name).parse.__module__}.".startswith(f"{home}.")


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_library_imports_no_other_and_what_is_shared_imports_none(path):
    own = room(module(path))
    others = {room(name) for name in imported(path)} & set(LIBRARIES)
    assert others <= {own, BUILT_ON.get(own)}


def in_circles(imports):
    """Return what is left once all that imports nothing left has been taken away, again and
    again.
    """
    while free := {name for name, needs in imports.items() if not needs & imports.keys()}:
        imports = {name: needs for name, needs in imports.items() if name not in free}
    return imports


def test_there_is_no_import_circle():
    assert in_circles({module(path): imported(path) for path in files()}) == {}


def test_the_modules_of_scikit_learn_have_no_import_circle():
    """Taken as their folders, which hold several files."""
    imports = defaultdict(set)
    for path in sorted(ROOT.glob("sklearn/*/*.py")) + sorted(ROOT.glob("sklearn/[!_]*.py")):
        own = module(path).split(".")[3]
        inner = (n.split(".") for n in imported(path) if room(n) == "sklearn")
        imports[own] |= {parts[3] for parts in inner} - {own}
    assert len(imports) > 30
    assert in_circles(imports) == {}
