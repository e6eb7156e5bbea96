"""Tests that are marked ``rooms(*paths)`` run where a file below these paths has changed.

They take long and ask one thing of few rooms: code that LLVM and NVRTC make, engines that are not
installed otherwise. A room has not changed if its files are those of the merge base with the main
branch, or those with which the test passed before. Where neither is known, one case of each test runs.
``--whole`` runs them always.

``python -m suite.rooms NAME ROOM ... --run COMMAND`` runs a command where its rooms are known to have
changed: it installs gigabytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from suite.kept_cache import keep_text, kept_folder
from suite.shares import is_whole, left_out, seed

__all__ = ["comparisons", "is_as_at_the_merge_base", "rooms_digest"]

ROOT = Path(__file__).parents[2]
ALWAYS = ("constraints.txt", "tests/clients.txt")
"""Files with the versions of what makes code: they belong to every room."""
SUFFIXES = frozenset({".py", ".cu", ".cuh", ".h", ".txt"})
BASES = ("origin/HEAD", "origin/main", "main")
"""Where a branch may have come from; ``HBCONV_BASE`` names another commit."""


def comparisons(test: str, rooms: tuple[str, ...]) -> list[bool]:
    """Compare the rooms with what they were when the test passed, and with the merge base.

    Of what is known, each is True where they are equal.
    """
    record = _record(test)
    found = [record.read_text("utf-8") == rooms_digest(rooms)] if record.exists() else []
    return [*found, is_as_at_the_merge_base(rooms)] if _merge_base() else found


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep what the rooms were when a test passed."""
    mark = item.get_closest_marker("rooms")
    if mark and call.when == "call" and call.excinfo is None:
        _keep(item.nodeid, mark.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose rooms have not changed, and cases that are compared with nothing."""
    if is_whole(config):
        return
    left = set()
    unknown: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("rooms")
        compared = comparisons(item.nodeid, mark.args) if mark else []
        if any(compared):
            left.add(item)
        if mark and not compared:
            unknown[item.nodeid.partition("[")[0]].append(item)
    left |= {
        item for cases in unknown.values() for item in left_out(cases, len(cases), seed(config))
    }
    config.hook.pytest_deselected(items=list(left))
    items[:] = [item for item in items if item not in left]


@cache
def rooms_digest(rooms: tuple[str, ...]) -> str:
    """Digest the files of rooms: paths of files and folders, relative to the project."""
    digest = hashlib.sha256()
    for path in sorted({file for room in (*rooms, *ALWAYS) for file in _files(ROOT / room)}):
        digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _files(room: Path) -> list[Path]:
    if room.is_file():
        return [room]
    return [path for path in room.rglob("*") if path.suffix in SUFFIXES]


@cache
def is_as_at_the_merge_base(rooms: tuple[str, ...]) -> bool:
    """Whether git finds no change of the rooms since the merge base."""
    paths = (*rooms, *ALWAYS)
    new = _git("ls-files", "--others", "--exclude-standard", "--", *paths)
    return not new and not _git("diff", "--name-only", _merge_base(), "--", *paths)


@cache
def _merge_base() -> str:
    """Return the merge base; nothing on the main branch itself, where it is the last commit.

    A name that git does not know is no base: else its empty difference would leave tests out.
    """
    if "HBCONV_BASE" in os.environ:
        return _git("rev-parse", "--verify", f"{os.environ['HBCONV_BASE']}^{{commit}}")
    head = _git("rev-parse", "HEAD")
    found = (_git("merge-base", "HEAD", base) for base in BASES)
    return next((base for base in found if base and base != head), "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _keep(test: str, rooms: tuple[str, ...]) -> None:
    keep_text(_record(test), rooms_digest(rooms))


def _record(test: str) -> Path:
    return kept_folder() / "passed" / hashlib.sha256(test.encode()).hexdigest()


def main() -> int:
    """Run a command if its rooms are known to have changed, or keep that it passed."""
    parser = argparse.ArgumentParser(description=__doc__.rpartition("\n\n")[2])
    parser.add_argument("name")
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--passed", action="store_true", help="keep what the rooms are now")
    parser.add_argument("--run", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    rooms = tuple(options.rooms)
    if options.passed:
        _keep(options.name, rooms)
        return 0
    compared = comparisons(options.name, rooms)
    if compared and not any(compared):
        return subprocess.run(options.run, check=False).returncode
    why = "have not changed" if compared else "are compared with nothing here"
    print(f"{options.name} is not run: {', '.join(rooms)} {why}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
