"""Every kernel of trees under compute-sanitizer: wrong accesses, and races."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from benchmarks.gpu.tests_apart import outcome, run_apart

__all__ = ["run"]

SECONDS = 35
"""Seconds for each tool: they run side by side, and end before the part does."""


def run(place: Place, models: Path) -> Iterator[Row]:  # noqa: ARG001
    """Yield what each tool found, with its last line."""
    commands = {tool: (words, SECONDS) for tool, words in place.kernel_commands()}
    if not commands:
        yield {"what": "compute-sanitizer", "way": "all", "outcome": "left out: it is missing"}
    for tool, ended in run_apart(commands):
        last = (ended.said.strip().splitlines() or [""])[-1]
        yield {"what": "every kernel", "way": tool, **outcome(ended), "note": last}
