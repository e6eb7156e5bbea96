"""``make quick``: the tests nearest to what changed against the last commit, for about a minute.

A test file is near a changed file if it lies at the same path, or if few imports lead from it to the
changed file. Names that a package passes on count for the file that defines them, so a changed node
leads to the parsers that use it, and not to all that imports a node. The nearest files are taken
until their seconds, as the last whole run took them, fill the time; those that are left are counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from import_graph import files, imports
from suite.time_limits import known_seconds

__all__ = ["Choice", "choose", "distances"]

ROOT = Path(__file__).parents[2]

MATRIX = "tests/conformance/matrix/test_matrix.py"
CASES = "matrix.cases."
PROCESSES = 2
SECONDS = 27.0
"""Seconds that tests may take on each process; it starts in ten more."""
UNKNOWN_SECONDS = 4.0
"""What a file takes that no run has timed."""
CASE_MODULE_SECONDS = 4.0
"""What the matrix takes for a module of cases."""
FAR = 6
"""Files that more imports lead to are not run."""


@dataclass
class Choice:
    """The test files to run, the modules of cases of the matrix, and how many files are left."""

    files: list[str] = field(default_factory=list)
    case_modules: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def choose(changed: Iterable[str], seconds: dict[str, float]) -> Choice:
    """Choose the tests for changed files, given as paths in the project.

    Modules of cases take half of the time at most; a file at the same path is always run.
    """
    near = distances(changed)
    choice = Choice()
    room = SECONDS * PROCESSES

    def rank(test: str) -> tuple[int, bool, float]:
        return near[test], not test.startswith(CASES), seconds.get(test, 0.0)

    for test in sorted(near, key=rank):
        is_case = test.startswith(CASES)
        needed = CASE_MODULE_SECONDS if is_case else seconds.get(test, UNKNOWN_SECONDS)
        kept = room if not is_case else room - SECONDS * PROCESSES / 2
        if near[test] > FAR or (needed > kept and near[test] > 0):
            choice.left.append(test)
            continue
        room -= needed
        chosen = choice.case_modules if is_case else choice.files
        chosen.append(test.removeprefix(CASES))
    return choice


def distances(changed: Iterable[str]) -> dict[str, int]:
    """Return how far each test file and module of cases is from the changed files."""
    nodes = _node_of_path()
    reached: dict[str, int] = {}
    frontier = {nodes[path] for path in changed if path in nodes}
    for distance in range(FAR + 1):
        reached |= dict.fromkeys(frontier - reached.keys(), distance)
        following = {reader for node in frontier for reader in _readers().get(node, ())}
        frontier = following - reached.keys()
    found: dict[str, int] = {}
    for node, distance in reached.items():
        for test, more in _tests_of(node):
            found[test] = min(found.get(test, FAR), distance + more)
    return found


def _tests_of(node: str) -> Iterator[tuple[str, int]]:
    """Yield the tests that ask a node by their place, each with how far it is."""
    path = files()[node].relative_to(ROOT)
    if path.name.startswith("test_"):
        yield path.as_posix(), 0
    if path.parts[0] != "hbconv":
        return
    mirrored = Path("tests/unit", *path.parts[1:-1])
    yield from _existing([mirrored / f"test_{path.stem}.py"], 0)
    yield from _existing([mirrored.with_name(f"test_{mirrored.name}.py")], 0)
    yield from _existing((ROOT / mirrored).glob("test_*.py"), 1)
    if path.parts[1] == "parse":
        module = ".".join(path.parts[2:]).removesuffix(".py")
        yield from ((f"{CASES}{name}", 0) for name in _case_modules(module))
        library = path.parts[2]
        if library == "sklearn" and not {"ensemble", "tree.py"} & {*path.parts}:
            return
        yield from _existing((ROOT / "tests/conformance/trees").glob(f"test_{library}_*.py"), 2)


def _existing(paths: Iterable[Path], distance: int) -> Iterator[tuple[str, int]]:
    for path in paths:
        if (ROOT / path).exists():
            yield (ROOT / path).relative_to(ROOT).as_posix(), distance


def _case_modules(parser: str) -> list[str]:
    """Return the modules of cases of a module of parsers, or of all in its folder."""
    cases = [name.removeprefix(CASES) for name in files() if name.startswith(CASES)]
    own = [name for name in cases if name == parser or parser.startswith(f"{name}.")]
    return own or [name for name in cases if name.startswith(f"{parser.rpartition('.')[0]}.")]


@cache
def _node_of_path() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): node for node, path in files().items()}


@cache
def _readers() -> dict[str, set[str]]:
    """Return the nodes that import each node, or a name that it defines."""
    readers: defaultdict[str, set[str]] = defaultdict(set)
    for node, path in files().items():
        for statement in imports(path):
            for name in statement.names or ("",):
                readers[_definer(statement.module, name)].add(node)
    return dict(readers)


@cache
def _definer(module: str, name: str) -> str:
    """Return the node that defines a name: a package passes on those of its modules."""
    if f"{module}.{name}" in files():
        return f"{module}.{name}"
    if module not in files() or files()[module].name != "__init__.py":
        return module
    for statement in imports(files()[module]):
        if name in statement.names and statement.module != module:
            return _definer(statement.module, name)
        if "*" in statement.names and _definer(statement.module, name) != statement.module:
            return _definer(statement.module, name)
    return module


def changed_paths() -> list[str]:
    """Return the files that differ from the last commit, new ones included."""
    differing = _git("diff", "--name-only", "HEAD")
    return [*differing, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    """Choose the tests, and run them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("changed", nargs="*", help="files; default: those that git finds changed")
    parser.add_argument("--show", action="store_true", help="print the choice and run nothing")
    options = parser.parse_args()
    choice = choose(options.changed or changed_paths(), known_seconds())
    print("\n".join((*choice.files, *(f"{MATRIX}: {name}" for name in choice.case_modules))))
    print(f"{len(choice.left)} files that are farther, or would take longer, are left.")
    if options.show or not (choice.files or choice.case_modules):
        return 0
    cases = [MATRIX, "--cases-of", ",".join(choice.case_modules)] if choice.case_modules else []
    pytest = [sys.executable, "-m", "pytest", "-n", str(PROCESSES), "--dist", "worksteal"]
    return subprocess.run([*pytest, *choice.files, *cases], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
