"""Records of timing: what contenders took, by the bucket of rows of a call."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

__all__ = [
    "BUCKETS",
    "Bucket",
    "Tuning",
    "TuningRecord",
    "find_bucket",
    "is_sound",
    "read_record",
    "write_record",
]


@dataclass(frozen=True)
class Bucket:
    """Numbers of rows that one plan serves.

    Parameters
    ----------
    least : int
    most : int or None
        None for any number.
    typical : int
        The number that costs are predicted for.
    """

    least: int
    most: int | None
    typical: int

    def __contains__(self, rows: int) -> bool:
        return self.least <= rows and (self.most is None or rows <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"more than {self.least - 1:,} rows"
        return "1 row" if self.most == 1 else f"{self.least} to {self.most:,} rows"


# 256 is the middle of 17 to 1,000 rows: plans made for 128 lost at 1,000.
BUCKETS = (Bucket(1, 1, 1), Bucket(2, 16, 8), Bucket(17, 1_000, 256), Bucket(1_001, None, 10_000))
"""All numbers of rows. One row is apart, because torch has modules of its own for it."""


def find_bucket(rows: int) -> Bucket:
    """Return the bucket of a number of rows.

    Examples
    --------
    >>> [str(find_bucket(rows)) for rows in (1, 16, 17, 5_000)]
    ['1 row', '2 to 16 rows', '17 to 1,000 rows', 'more than 1,000 rows']
    """
    return next(bucket for bucket in BUCKETS if rows in bucket)


MOST_LABEL = 10_000
"""Characters of a label."""


@dataclass(frozen=True)
class TuningRecord:
    """Times of some contenders.

    Parameters
    ----------
    key : str
        Digest of the structure, the target, the machine and the versions.
    chosen : str
        Label of the contender to take.
    seconds : mapping of str to float
        Least time of each contender, by label.
    rows : int
        Rows of the calls timed.
    day : str
        When, as 2026-01-31.
    """

    key: str
    chosen: str
    seconds: Mapping[str, float]
    rows: int
    day: str

    def __str__(self) -> str:
        ranked = sorted(self.seconds.items(), key=lambda item: item[1])
        others = [f"{label} {_ms(taken)}" for label, taken in ranked if label != self.chosen]
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        took = f"{self.chosen} took {_ms(self.seconds[self.chosen])}"
        return f"{took} against {', '.join(others)} ({rows} a call, timed here on {self.day})"


@dataclass(frozen=True)
class Tuning:
    """What ``tune=`` found for a model.

    Parameters
    ----------
    records : tuple of TuningRecord
    remark : str
        Why there are none.
    """

    records: tuple[TuningRecord, ...] = ()
    remark: str = ""

    def find(self, key: str) -> TuningRecord | None:
        """Return the sound record of a key."""
        return next((r for r in self.records if r.key == key and is_sound(r)), None)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def write_record(record: TuningRecord) -> bytes:
    """Return a record as JSON."""
    return json.dumps(asdict(record)).encode()


def read_record(data: bytes, key: str) -> TuningRecord | None:
    """Read a record; None if it is damaged, of another key, or holds what no timing writes."""
    try:
        record = TuningRecord(**json.loads(data))
        return record if record.key == key and is_sound(record) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def is_sound(record: TuningRecord) -> bool:
    """Whether timing could have written its values. A record may come from any file."""
    texts = (record.key, record.chosen, record.day)
    # Records come from files that anybody may write, so each type and length is checked.
    if not all(type(text) is str and len(text) <= MOST_LABEL for text in texts):
        return False
    if type(record.rows) is not int or record.rows < 1 or not isinstance(record.seconds, dict):
        return False
    if not all(map(_is_time, record.seconds.items())):
        return False
    return record.chosen in record.seconds and _is_day(record.day)


def _is_time(item: tuple[Any, Any]) -> bool:
    label, seconds = item
    if type(label) is not str or len(label) > MOST_LABEL:
        return False
    # A time of 0, infinity or NaN would decide every comparison.
    return type(seconds) is float and math.isfinite(seconds) and seconds > 0


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
