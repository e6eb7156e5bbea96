"""Results as short lines: of a machine that is rented only the end of the output may come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.gpu.parts import Part
from benchmarks.gpu.record import NAMES, Record, Row, State

__all__ = ["last_lines", "lines_of"]

MOST_CHARACTERS = 11_000
HIDDEN = (*NAMES, "low", "high", "calls", "peer", "predicted", "said", "device microseconds")
SHOWN_CHARACTERS = 160
"""Of what a failure said."""


def lines_of(part: str, record: Record) -> Iterator[str]:
    """Yield what a part found: a line for each thing asked, and all ways on it."""
    held = record.parts.get(part, {})
    yield f"{part}: {record.state(part)}, {held.get('seconds', 0)} s"
    if record.state(part) in (State.FAILED, State.CUT):
        yield f"  said: {held.get('said', '')[-SHOWN_CHARACTERS:]!r}"
    ways: dict[tuple[object, object], list[str]] = {}
    for row in record.rows(part):
        ways.setdefault(_asked(row), []).append(_shown(row))
    for (what, rows), found in ways.items():
        size = f" {rows:,}" if isinstance(rows, int) else ""
        yield f"  {what}{size}: {'; '.join(found)}"


def last_lines(parts: Sequence[Part], record: Record) -> str:
    """Write all results, shortened to what comes back; the file has them whole."""
    text = "\n".join(line for part in parts for line in lines_of(part.name, record))
    if len(text) > MOST_CHARACTERS:
        lines = text.splitlines()
        share = MOST_CHARACTERS // len(lines)
        text = "\n".join(_cut(lines, max(share, 40)))[:MOST_CHARACTERS]
    states = ", ".join(f"{part.name} {record.state(part.name)}" for part in parts)
    environment = record.facts.get("environment", {})
    missing = [name for name, told in environment.items() if told.startswith("missing")]
    without = f"\nmissing, so left out: {', '.join(missing)}" if missing else ""
    return f"{text}{without}\n{states}"


def _cut(lines: Iterable[str], share: int) -> Iterator[str]:
    for line in lines:
        yield line if len(line) <= share else f"{line[: share - 2]} …"


def _asked(row: Row) -> tuple[object, object]:
    return row["what"], row.get("rows")


def _shown(row: Row) -> str:
    """Write one way: its microseconds, or what else was found."""
    way = row.get("way", "")
    if "failed" in row:
        return f"{way} FAILED {row.get('outcome', '')} {row['failed'][-SHOWN_CHARACTERS:]!r}"
    others = {name: value for name, value in row.items() if name not in HIDDEN}
    if set(others) == {"microseconds"}:
        return f"{way} {row['microseconds']:g}"
    return f"{way} " + ", ".join(f"{name} {value}" for name, value in others.items())
