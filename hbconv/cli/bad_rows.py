"""Score a batch, and find the rows that a model refuses among those that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hbconv.cli.json_lines import json_line
from hbconv.errors import BackendError, InputError, OptionError, StoreError

__all__ = ["FAULTS", "REFUSALS", "BadRows", "find_parts"]

FAULTS = (BackendError, OptionError, StoreError)
"""What is wrong with a run as a whole, whatever its rows; each is a ValueError too."""
REFUSALS = (ValueError, TypeError)
"""What a model raises for rows that it refuses, but for the faults."""


@dataclass
class BadRows:
    """What happens to rows that cannot be scored: the run fails, or they are written away.

    Parameters
    ----------
    name : str
        The file that is read.
    sink : file of text, optional
        Where rows go, as JSON lines. Without it the first one fails the run.
    """

    name: str
    sink: Any = None
    count: int = 0
    skipped: list[int] = field(default_factory=list)

    def add(self, row: int, reason: str, values: dict[str, Any] | str) -> None:
        """Take a row, by its number in the file from 1.

        Raises
        ------
        InputError
            No sink was given.
        """
        if self.sink is None:
            raise InputError(
                f"{self.name}, row {row:,}: {reason} "
                "Mend the row, or set such rows aside with --rejects FILE."
            )
        self.count += 1
        line = {"file": self.name, "row": row, "reason": reason, "values": values}
        self.sink.write(json_line(line))

    def unfit(self, row: Any) -> str:
        """Take a CSV row of too many or too few values, as pyarrow gives it."""
        number = row.number - 1  # pyarrow counts the header
        self.skipped.append(number)
        self.add(
            number,
            f"It has {row.actual_columns} values, and the header {row.expected_columns}.",
            row.text,
        )
        return "skip"

    def number(self, place: int) -> int:
        """Return the number in the file of a row, whose place is among those that were read."""
        number = place + 1
        for skipped in self.skipped:
            number += skipped <= number
        return number


def find_parts(
    score: Callable[[Any], Any], batch: Any, place: int, bad: BadRows
) -> Iterator[tuple[int, Any]]:
    r"""Yield the answers to the rows of a batch that are answered, with the place of the first.

    Halves of a refused batch are scored by themselves, down to the single row.

    >>> import pyarrow as pa
    >>> import io
    >>> def halve(batch):
    ...     if None in batch["a"].to_pylist():
    ...         raise ValueError("a is missing.")
    ...     return [value / 2 for value in batch["a"].to_pylist()]
    >>> bad = BadRows("t.csv", io.StringIO())
    >>> batch = pa.record_batch({"a": [2, 4, None, 6]})
    >>> list(find_parts(halve, batch, 0, bad))
    [(0, [1.0, 2.0]), (3, [3.0])]
    >>> bad.sink.getvalue()
    '{"file": "t.csv", "row": 3, "reason": "a is missing.", "values": {"a": null}}\n'
    """
    try:
        yield place, score(batch)
    except FAULTS:
        raise
    except REFUSALS as error:
        if batch.num_rows == 0:
            raise
        if batch.num_rows == 1:
            bad.add(bad.number(place), str(error), batch.to_pylist()[0])
            return
        half = batch.num_rows // 2
        yield from find_parts(score, batch.slice(0, half), place, bad)
        yield from find_parts(score, batch.slice(half), place + half, bad)
