"""Tests that are marked ``rooms(*paths)`` run where a file below these paths has changed.

They take long and ask one thing of few rooms: code that LLVM and NVRTC make, engines that are not
installed otherwise. A room has not changed if its files are those of the merge base with the main
branch, or those with which the test passed before. ``--whole`` runs them always.

``python -m suite.rooms NAME ROOM ... --run COMMAND`` runs a command under the same rule.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from suite.kept_cache import kept_folder
from suite.shares import is_whole

__all__ = ["has_changed", "is_as_at_the_merge_base", "rooms_digest"]

ROOT = Path(__file__).parents[2]
ALWAYS = ("constraints.txt", "tests/clients.txt")
"""Files with the versions of what makes code: they belong to every room."""
SUFFIXES = frozenset({".py", ".cu", ".cuh", ".h", ".txt"})
BASES = ("origin/HEAD", "origin/main", "main")
"""Where a branch may have come from; ``HBCONV_BASE`` names another commit."""


def has_changed(test: str, rooms: tuple[str, ...]) -> bool:
    """Whether a file of the rooms differs from when the test passed, and from the merge base."""
    record = _record(test)
    passed = record.read_text("utf-8") if record.exists() else ""
    return passed != rooms_digest(rooms) and not is_as_at_the_merge_base(rooms)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep what the rooms were when a test passed."""
    mark = item.get_closest_marker("rooms")
    if mark and call.when == "call" and call.excinfo is None:
        _keep(item.nodeid, mark.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests whose rooms have not changed."""
    if is_whole(config):
        return
    marks = {item: item.get_closest_marker("rooms") for item in items}
    left = {
        item for item, mark in marks.items() if mark and not has_changed(item.nodeid, mark.args)
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
    """Whether git finds no change of the rooms since the merge base.

    On the main branch itself the merge base is the last commit, which tells nothing.
    """
    base = _merge_base()
    if not base:
        return False
    paths = (*rooms, *ALWAYS)
    new = _git("ls-files", "--others", "--exclude-standard", "--", *paths)
    return not new and not _git("diff", "--name-only", base, "--", *paths)


@cache
def _merge_base() -> str:
    named = os.environ.get("HBCONV_BASE")
    if named:
        return named
    head = _git("rev-parse", "HEAD")
    found = (_git("merge-base", "HEAD", base) for base in BASES)
    return next((base for base in found if base and base != head), "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _keep(test: str, rooms: tuple[str, ...]) -> None:
    record = _record(test)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(rooms_digest(rooms), "utf-8")


def _record(test: str) -> Path:
    return kept_folder() / "passed" / hashlib.sha256(test.encode()).hexdigest()


def main() -> int:
    """Run a command if its rooms have changed; keep what they were when it succeeds."""
    parser = argparse.ArgumentParser(description="Run a command if its rooms have changed.")
    parser.add_argument("name")
    parser.add_argument("rooms", nargs="+")
    parser.add_argument("--run", nargs=argparse.REMAINDER, required=True)
    options = parser.parse_args()
    rooms = tuple(options.rooms)
    if not has_changed(options.name, rooms):
        print(f"{options.name}: {', '.join(rooms)} have not changed.")
        return 0
    done = subprocess.run(options.run, check=False)
    if done.returncode == 0:
        _keep(options.name, rooms)
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
