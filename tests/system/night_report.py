"""Write what became of the batteries of a night: figures as JSON, and a table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_NAMED = 20
"""Failures of a battery that the list names; night.json has all."""


@dataclass
class Counts:
    """What a command told of its cases; ``left`` counts those that its limit left out."""

    told: bool = True
    passed: int = 0
    skipped: int = 0
    left: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """What became of a battery. ``peak_bytes`` is the memory of its largest process."""

    name: str
    asks: str
    log: str
    not_run: str = ""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    left: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, counts: Counts, peak_bytes: int) -> None:
        """Add what a command told."""
        self.passed += counts.passed
        self.failed += len(counts.failures)
        self.skipped += counts.skipped
        self.left += counts.left
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        self.failures += counts.failures


@dataclass(frozen=True)
class Facts:
    """What is told of a night as a whole; ``began`` is a time with its zone."""

    began: str
    seed: int
    scale: float
    commit: str


def write_report(folder: Path, outcomes: Sequence[Outcome], facts: Facts) -> None:
    """Write night.json and night.md, each as a whole."""
    figures = asdict(facts) | {"batteries": [asdict(outcome) for outcome in outcomes]}
    texts = {"night.json": json.dumps(figures, indent=2), "night.md": markdown(outcomes, facts)}
    for name, text in texts.items():
        new = folder / f"{name}.new"
        new.write_text(text + "\n", encoding="utf-8")
        new.replace(folder / name)


def find_commit() -> str:
    """Return the commit that is checked out."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, check=False
    )
    return told.stdout.decode().strip() or "an unknown commit"


def markdown(outcomes: Sequence[Outcome], facts: Facts) -> str:
    """Return a table of the batteries, and a list of what failed."""
    head = f"Begun {facts.began} on {facts.commit}, seed {facts.seed}, scale {facts.scale:g}."
    title = "| battery | what it asks | cases | failed | minutes |\n| --- | --- | --- | --- | --- |"
    rows = [row(outcome) for outcome in outcomes]
    failures = [line for outcome in outcomes for line in list_failures(outcome)]
    return "\n".join([head, "", title, *rows, "", *(failures or ["Nothing failed."])])


def row(outcome: Outcome) -> str:
    """Return the line of a battery."""
    begin = f"| {outcome.name} | {outcome.asks} |"
    if outcome.not_run:
        return f"{begin} not run: {outcome.not_run} | | |"
    cases = f"{outcome.passed + outcome.failed:,}" + f", {outcome.left:,} left" * bool(outcome.left)
    return f"{begin} {cases} | {outcome.failed:,} | {outcome.seconds / 60:.1f} |"


def list_failures(outcome: Outcome) -> list[str]:
    """Return lines that name what failed, and where the log lies."""
    if not outcome.failures:
        return []
    more = len(outcome.failures) - MOST_NAMED
    return [
        f"- {outcome.name}, {outcome.log}",
        *(f"  - {failure}" for failure in outcome.failures[:MOST_NAMED]),
        *([f"  - and {more:,} more"] if more > 0 else []),
    ]
