"""Run parts one after another, each within its limit, and keep what they find as they find it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu.parts import Part
from benchmarks.gpu.processes import Ended, python, run_limited
from benchmarks.gpu.record import Record, Row, State

__all__ = ["Run", "in_order", "run_child", "run_parts"]

Run = Callable[[Part, Sequence[str], Callable[[Row], None]], Ended]
"""Runs a part but for what is known, and hands each result over as it comes."""


def in_order(parts: Iterable[Part], record: Record) -> list[Part]:
    """Return the parts that are not done: those that never began, then those that did not end."""
    waiting = [part for part in parts if record.state(part.name) != State.DONE]
    return sorted(waiting, key=lambda part: record.state(part.name) != State.LEFT)


def run_parts(
    parts: Sequence[Part],
    record: Record,
    budget: float,
    run: Run,
    tell: Callable[[str, str], None],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the parts whose limits fit what is left of the budget, and name the others."""
    ends = clock() + budget
    for part in in_order(parts, record):
        left = ends - clock()
        if part.seconds > left:
            if record.state(part.name) == State.LEFT:
                record.set(part.name, state=State.LEFT)
            tell(part.name, f"  its {part.seconds:g} s do not fit the {left:.0f} s that are left")
            continue
        known = record.known(part.name)
        record.set(part.name, state=State.BEGUN)
        ended = run(part, known, lambda row, name=part.name: record.add(name, row))
        record.set(part.name, state=judge(ended), seconds=ended.seconds, said=ended.said)
        tell(part.name, f"  {max(ends - clock(), 0):.0f} s are left")


def judge(ended: Ended) -> str:
    """Say what became of a part."""
    if ended.status is None:
        return State.CUT
    return State.DONE if ended.status == 0 else State.FAILED


def run_child(words: Sequence[str]) -> Run:
    """Return what runs a part by ``child`` with these words, in a process of its own."""

    def run(part: Part, known: Sequence[str], take: Callable[[Row], None]) -> Ended:
        with TemporaryDirectory() as folder:
            lines = Lines(Path(folder, "rows.jsonl"), take)
            asked = [part.name, str(lines.path), *words, "--known", *known]
            command = python("benchmarks.gpu.child", *asked)
            return run_limited(command, part.seconds, lines.read)

    return run


class Lines:
    """A file of results that grows: a line that is not whole yet is left for the next look.

    Parameters
    ----------
    path : Path
    take : callable
        Is given each result.
    """

    def __init__(self, path: Path, take: Callable[[Row], None]) -> None:
        self.path = path
        self.take = take
        self._begin = 0

    def read(self) -> None:
        """Take what came since the last look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._begin)
            for line in file:
                if line.endswith(b"\n"):
                    self._begin += len(line)
                    self.take(json.loads(line))
