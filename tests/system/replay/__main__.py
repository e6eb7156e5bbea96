"""Record what models answer to rows of every kind, and compare another commit with it.

    python -m replay --record build/replay.json
    python -m replay --replay build/replay.json

A line names each case that differs, with both answers. ``--subject NAME`` asks one model alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from replay.record import record
from replay.subjects import SUBJECTS

SHOWN = 300
"""Characters of each answer in the line of a difference."""

Answers = dict[str, Any]


def main() -> int:
    """Record or replay, and return 1 where an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--record", type=Path, metavar="FILE", help="write the answers to a file")
    way.add_argument("--replay", type=Path, metavar="FILE", help="compare with those of a file")
    parser.add_argument("--subject", choices=SUBJECTS, action="append", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    options = parser.parse_args()
    names = tuple(options.subject or SUBJECTS)
    if options.record:
        return write(options.record, ask(names, options.jobs))
    return compare(read(options.replay, names), ask(names, options.jobs))


def ask(names: tuple[str, ...], jobs: int = 1) -> Answers:
    """Return the answers of subjects, by case; no process answers for two of them."""
    if jobs == 1:
        return {case: answer for name in names for case, answer in record(name).items()}
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, fresh) as pool:
        return {case: answer for found in pool.map(record, names) for case, answer in found.items()}


def write(path: Path, answers: Answers) -> int:
    """Write answers to a file, a line for each case."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(case)}\n" for case in answers.items()), "utf-8")
    print(f"record: {len(answers):,} cases")
    return 0


def read(path: Path, names: tuple[str, ...]) -> Answers:
    """Return the answers of subjects in a file."""
    pairs = map(json.loads, path.read_text("utf-8").splitlines())
    return {case: answer for case, answer in pairs if case.partition(" | ")[0] in names}


def compare(recorded: Answers, answers: Answers) -> int:
    """Print the cases that differ, and return 1 if any does."""
    cases = dict.fromkeys((*recorded, *answers))
    differing = [case for case in cases if recorded.get(case) != answers.get(case)]
    for case in differing:
        print(f"case {case}: was {_shown(recorded, case)}, is {_shown(answers, case)}")
    print(f"replay: {len(cases):,} cases, {len(differing)} differ")
    return min(len(differing), 1)


def _shown(answers: Answers, case: str) -> str:
    return json.dumps(answers[case])[:SHOWN] if case in answers else "absent"


if __name__ == "__main__":
    sys.exit(main())
