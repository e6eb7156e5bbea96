"""Run tests side by side, each in a process of its own with a limit of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed

from benchmarks.gpu.place import Place
from benchmarks.gpu.processes import Ended, run_limited
from benchmarks.gpu.record import Row

__all__ = ["outcome", "run_apart", "run_tests"]

ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""Threads of several processes would wait for each other."""
SHOWN = 600
"""The end of what a failing command wrote."""


def run_tests(tests: Mapping[str, float], place: Place) -> Iterator[Row]:
    """Yield what became of each test, as it ends; its limit is given in seconds."""
    asked = [test for test in tests if short(test) not in place.known]
    commands = {name: (words, tests.get(name, 60.0)) for name, words in place.test_commands(asked)}
    for name, ended in run_apart(commands):
        yield {"what": short(name), "way": "test", **outcome(ended)}


def run_apart(commands: Mapping[str, tuple[list[str], float]]) -> Iterator[tuple[str, Ended]]:
    """Run commands with their limits, as many at once as there are processors."""
    with ThreadPoolExecutor(min(len(commands) or 1, os.cpu_count() or 1)) as pool:
        running = {
            pool.submit(run_limited, words, seconds, environment=ONE_THREAD): name
            for name, (words, seconds) in commands.items()
        }
        for future in as_completed(running):
            yield running[future], future.result()


def short(test: str) -> str:
    """Return a test's name without its file."""
    return test.rpartition("::")[2]


def outcome(ended: Ended) -> Row:
    """Say how a command ended, with what it wrote last where it did not end well."""
    if ended.status == 0:
        return {"outcome": "passed", "seconds": ended.seconds}
    found = "cut" if ended.status is None else f"status {ended.status}"
    return {"outcome": found, "seconds": ended.seconds, "failed": ended.said[-SHOWN:]}
