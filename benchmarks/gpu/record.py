"""What is known so far, in a file that is whole at any time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Record", "Row", "State"]

Row = dict[str, Any]
"""A result: ``what`` was asked, for how many ``rows``, in which ``way``, and what was found."""
NAMES = ("what", "rows", "way")


class State:
    """What became of a part."""

    DONE = "done"
    BEGUN = "begun"
    CUT = "cut"
    FAILED = "failed"
    LEFT = "left"


@dataclass
class Record:
    """Results by part.

    Parameters
    ----------
    path : Path, optional
        Where they are kept, after each result.
    facts : dict
        The device, versions and the like.
    parts : dict
        Of each part: its state, seconds, the end of what it wrote, and its rows.
    """

    path: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> Record:
        """Read what an earlier call found; nothing, where there is no file."""
        if path is None or not path.exists():
            return cls(path)
        held = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, held["facts"], held["parts"])

    def state(self, part: str) -> str:
        """Return what became of a part; left, where nobody asked for it."""
        return str(self.parts.get(part, {}).get("state", State.LEFT))

    def rows(self, part: str) -> list[Row]:
        """Return the results of a part."""
        return list(self.parts.get(part, {}).get("rows", []))

    def known(self, part: str) -> list[str]:
        """Return what a part that was cut need not ask again: all but the last, and cut tests."""
        rows = self.rows(part)
        asked = dict.fromkeys(row["what"] for row in rows)
        again = {row["what"] for row in rows if row.get("outcome") == State.CUT}
        return [what for what in asked if what not in again | {rows[-1]["what"]}]

    def set(self, part: str, **facts: Any) -> None:
        """Write facts of a part."""
        self.parts.setdefault(part, {"rows": []}).update(facts)
        self.save()

    def add(self, part: str, row: Row) -> None:
        """Add a result. It takes the place of what was known of the same."""
        kept = [old for old in self.rows(part) if _name(old) != _name(row)]
        self.set(part, rows=[*kept, row])

    def save(self) -> None:
        """Write the file: a reader finds the old one or the new one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.draft")
        held = {"facts": self.facts, "parts": self.parts}
        draft.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.path)


def _name(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in NAMES)
