"""Records of timing on disk, beside the compiled code, under the same rules of trust."""

from __future__ import annotations

from collections.abc import Mapping

from hbconv.cache import Cache
from hbconv.tuning_record import TuningRecord, read_record, write_record

__all__ = ["RecordCache"]

MEMBER = "times.json"


class RecordCache:
    """The records of this user.

    A record that is damaged, of another key, or that others could write, counts as none.

    Parameters
    ----------
    cache : Cache, optional
        By default the one that HBCONV_CACHE chooses.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = Cache.chosen() if cache is None else cache

    def read(self, key: str) -> TuningRecord | None:
        """Return the record of a key."""
        files: Mapping[str, bytes] = self._cache.read(_entry(key)) or {}
        return read_record(files[MEMBER], key) if MEMBER in files else None

    def write(self, record: TuningRecord) -> None:
        """Keep a record, where a cache is kept."""
        self._cache.write(_entry(record.key), {MEMBER: write_record(record)})


def _entry(key: str) -> str:
    return f"times-{key}"
