"""The graph of imports: of hbconv with its strategies and data sets, and of the tests, read from the text of the files.

Modules that are imported by a name that is computed, as backends are, have no edge.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "AT_ONCE",
    "CALLED",
    "TYPED",
    "Import",
    "files",
    "imported",
    "importers",
    "imports",
    "modules",
    "reached",
]

ROOT = Path(__file__).parents[2]
PACKAGES = ("hbconv", "strategies/hbconv_strategies", "datasets/hbconv_datasets")
AT_ONCE = "at once"
CALLED = "called"
TYPED = "typed"


@dataclass(frozen=True)
class Import:
    """A statement that imports.

    Parameters
    ----------
    module : str
        Dotted name behind ``import`` or ``from``.
    names : tuple of str
        What is taken from the module; empty behind ``import``.
    when : str
        ``AT_ONCE`` with the file, ``CALLED`` by a function, or ``TYPED``: under ``TYPE_CHECKING``.
    """

    module: str
    names: tuple[str, ...]
    when: str


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Return the imports of a file, which is parsed once."""
    return tuple(_imports(ast.parse(path.read_text(encoding="utf-8")).body, AT_ONCE))


def _imports(body: Iterable[ast.AST], when: str) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, (), when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.module or "", tuple(alias.name for alias in node.names), when)
        else:
            yield from _imports_within(node, when)


def _imports_within(node: ast.AST, when: str) -> Iterator[Import]:
    inner = when
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and when == AT_ONCE:
        inner = CALLED
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        inner = TYPED
    yield from _imports(getattr(node, "body", ()), inner)
    for part in ("orelse", "handlers", "finalbody", "cases"):
        yield from _imports(getattr(node, part, ()), when)


def modules(root: Path, package: str) -> dict[str, Path]:
    """Return the files in a folder, by the names that they have as modules of a package.

    The package "" has no name: its folder is one that Python searches.
    """
    paths = {path: path.relative_to(root).with_suffix("") for path in sorted(root.rglob("*.py"))}
    dotted = {path: ".".join((package, *place.parts)) for path, place in paths.items()}
    return {name.strip(".").removesuffix(".__init__"): path for path, name in dotted.items()}


@cache
def files() -> dict[str, Path]:
    """Return the file of each node.

    A test file and a ``conftest.py`` are named by their path, ``tests/unit/test_names.py``. Other
    files are named as they are imported: ``hbconv.parse``, ``matrix.case``.
    """
    packages = [modules(ROOT / folder, Path(folder).name) for folder in PACKAGES]
    found = {name: path for package in packages for name, path in package.items()}
    return found | {_names(path)[0]: path for path in _tests()}


def _tests() -> list[Path]:
    return [ROOT / "conftest.py", *sorted((ROOT / "tests").rglob("*.py"))]


def _names(path: Path) -> list[str]:
    """Return the names of a file of the tests: that of its node, and all that import it."""
    places = [path.relative_to(f).with_suffix("") for f in _searched() if path.is_relative_to(f)]
    names = sorted((".".join(place.parts) for place in places), key=len)
    is_test = path.name.startswith("test_") or path.name == "conftest.py"
    return [path.relative_to(ROOT).as_posix(), *names] if is_test else names


@cache
def _searched() -> list[Path]:
    """Return the folders of ``pythonpath`` in ``pyproject.toml``."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [ROOT / folder for folder in table["tool"]["pytest"]["ini_options"]["pythonpath"]]


@cache
def _nodes() -> dict[str, str]:
    """Return the node of each name that a statement may import."""
    tests = {name: names[0] for names in map(_names, _tests()) for name in names[1:] or names}
    return tests | {name: name for name in files()}


def imported(name: str) -> set[str]:
    """Return what a node imports anywhere: at once, in functions, and for types.

    Modules of other projects are named as they are imported. A test file needs the ``conftest.py``
    of each folder that it lies in, except that of the root, which holds for every run.
    """
    path = files()[name]
    found = {node for statement in imports(path) for node in _named(statement)}
    return found | (_conftests(path) if name.endswith(".py") else set()) - {name}


def _named(statement: Import) -> set[str]:
    submodules = [f"{statement.module}.{name}" for name in statement.names]
    found = {_nodes()[name] for name in submodules if name in _nodes()}
    if len(found) < len(submodules) or not submodules:
        found.add(_nodes().get(statement.module, statement.module))
    return found


def _conftests(path: Path) -> set[str]:
    folders = [folder for folder in path.parents if folder.is_relative_to(ROOT / "tests")]
    names = {(folder / "conftest.py").relative_to(ROOT).as_posix() for folder in folders}
    return names & files().keys()


def reached(name: str) -> set[str]:
    """Return all that a node imports, and what that imports."""
    return _walked([name], lambda node: imported(node) if node in files() else ())


def importers(names: Iterable[str]) -> set[str]:
    """Return the nodes that import one of these, and those that import them in turn."""
    return _walked(names, lambda node: _readers().get(node, ()))


@cache
def _readers() -> dict[str, set[str]]:
    """Return the nodes that import each node."""
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for name in files():
        for other in imported(name):
            readers[other].add(name)
    return dict(readers)


def _walked(names: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    """Return all that follows, itself left out unless it follows again."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        new = set(following(pending.pop())) - found
        found |= new
        pending += new
    return found
