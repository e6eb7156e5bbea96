"""Price records: the factors of this machine on disk, beside compiled code and times of ``tune=``.

They are under the same rules of trust. A record of another machine or of other versions counts as
none, and so does a damaged one.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from typing import Any

from hbconv.cache import Cache
from hbconv.caches import find_caches
from hbconv.cost_model.factors import GROUPS, Factors, is_factor
from hbconv.machine import describe_versions, find_processor

__all__ = [
    "PriceRecord",
    "describe_host",
    "find_record",
    "forget_record",
    "keep_record",
]

logger = logging.getLogger(__name__)

FORMAT = 1
ENTRY = "prices"
MEMBER = "prices.json"
VARIABLE = "HBCONV_MACHINE"
"""It limits the instructions that kernels may use."""


@dataclass(frozen=True)
class PriceRecord:
    """Factors measured on a machine.

    Parameters
    ----------
    machine, versions : mapping
        Where they hold.
    factors : mapping of str to Factors
        By backend.
    day : str
        When they were measured, as 2026-01-31.
    """

    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    factors: Mapping[str, Factors]
    day: str


@cache
def find_record() -> PriceRecord | None:
    """Return the record that holds here; the file is read once in a process."""
    return read_record(Cache.chosen())


def read_record(cache: Cache) -> PriceRecord | None:
    """Read the record of a cache, and say in the log why one is not used."""
    files = cache.read(ENTRY)
    if files is None:
        return None
    record = _parsed(files.get(MEMBER, b""))
    reason = _refusal(record)
    if reason:
        logger.info("The prices in %s do not count: %s.", cache.folder, reason)
        return None
    return record


def keep_record(record: PriceRecord, cache: Cache) -> bool:
    """Write a record, and return whether it is found again: a folder may not be writable."""
    data = json.dumps({"format": FORMAT, **asdict(record)})
    cache.write(ENTRY, {MEMBER: data.encode()})
    find_record.cache_clear()
    return read_record(cache) == record


def forget_record(cache: Cache) -> bool:
    """Delete the record; False if there is none."""
    find_record.cache_clear()
    return cache.remove(ENTRY)


def describe_host() -> dict[str, Any]:
    """Return what is known of this machine, as JSON holds it."""
    limit = os.environ.get(VARIABLE, "")
    caches = asdict(find_caches())
    return {"processor": find_processor(), "cores": os.cpu_count() or 1, "limit": limit, **caches}


def _refusal(record: PriceRecord | None) -> str:
    """Say why a record does not count; nothing if it does."""
    if record is None:
        return "they are damaged"
    if record.machine != describe_host():
        return "they are of another machine"
    if record.versions != describe_versions():
        return "they are of other versions"
    return ""


def _parsed(data: bytes) -> PriceRecord | None:
    """Read a record of any file; None if it holds what no measurement writes."""
    try:
        fields = json.loads(data)
        if fields.pop("format") != FORMAT or not _is_day(fields["day"]):
            return None
        fields["factors"] = {name: _factors(found) for name, found in fields["factors"].items()}
        return PriceRecord(**fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _factors(found: Mapping[str, Any]) -> Factors:
    """Return factors, each of them sound.

    Raises
    ------
    ValueError
        One is missing, too many, or no factor.
    """
    if tuple(found) != GROUPS or not all(map(is_factor, found.values())):
        raise ValueError(found)
    return Factors(**found)


def _is_day(text: str) -> bool:
    return date.fromisoformat(text).isoformat() == text
