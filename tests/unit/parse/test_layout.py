"""Where parsers live, and what they import."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from import_graph import imports

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
    named = {found.module for found in imports(path)}
    return {name for name in named if name.startswith("hbconv.parse")} - {module(path)}


def room(name):
    return name.split(".")[2] if name.count(".") > 1 else ""


def home(name):
    """Return the module or folder that an estimator's parser belongs to."""
    library, *modules, _ = name.split(".")
    return ".".join(("hbconv.parse", library, *modules[:1]))


def strayed(modules):
    """Return the parsers that live elsewhere, by the name of their estimator.

    The parsers of a small library share one module.
    """
    return {
        name: module
        for name, module in modules.items()
        if name.startswith(LIBRARIES)
        and not f"{module}.".startswith(f"{home(name)}.")
        and module != f"hbconv.parse.{name.partition('.')[0]}"
    }


def test_parsers_live_where_their_estimator_is_imported_from():
    names = parser_names()
    assert {name.partition(".")[0] for name in names} >= set(LIBRARIES)
    assert strayed({name: find_entry(name).parse.__module__ for name in names}) == {}


def test_a_parser_that_lives_elsewhere_is_found():
    there = {"sklearn.svm._classes.SVC": "hbconv.parse.sklearn.svm.kernel"}
    elsewhere = {
        "sklearn.svm.SVC": "hbconv.parse.sklearn.svms",
        "xgboost.Booster": "hbconv.parse.sklearn",
    }
    assert strayed(there | elsewhere) == elsewhere


def strangers(path):
    """Return the libraries that a file imports from, other than its own."""
    own = room(module(path))
    others = {room(name) for name in imported(path)} & set(LIBRARIES)
    return others - {own, BUILT_ON.get(own)}


def test_a_library_imports_no_other_and_what_is_shared_imports_none():
    found = {str(path.relative_to(ROOT)): strangers(path) for path in files()}
    assert {name: others for name, others in found.items() if others} == {}


def test_an_import_of_another_library_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "sklearn").mkdir()
    (tmp_path / "sklearn" / "svm.py").write_text(
        "from hbconv.parse.sklearn import tree\n"
        "def parse(step):\n    from hbconv.parse.xgboost.trees import parse\n"
    )
    (tmp_path / "labels.py").write_text("import hbconv.parse.sklearn.svm\n")
    assert [strangers(path) for path in files()] == [{"sklearn"}, {"xgboost"}]


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
