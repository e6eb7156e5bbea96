"""Columns of names by their hashes; those of few names, as of one document, from memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Buckets
from hbconv.runtime.text.murmur_hash import hash_name, murmur_hash

__all__ = ["column_of", "place_names"]

Names = Sequence[str]

MOST_NAMES = 1 << 16
"""Names that are remembered for each kind of buckets, 10 MB of them: clients choose the texts."""
LONGEST_NAME = 64
"""Characters of a name that is remembered."""
MOST_KINDS = 4
"""Kinds of buckets that have a memory."""
FEW = 24
"""Names that are hashed one by one in less time than all at once."""


def column_of(
    hashes: npt.NDArray[np.int32], buckets: Buckets
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_] | None]:
    """Return the column of each hash, and whether its value counts against it.

    None if no value does.
    """
    is_negative = hashes < 0 if buckets.signed else None
    return _remainders(np.abs(hashes).view(np.uint32), buckets.width), is_negative


def place_names(names: Names, buckets: Buckets) -> list[int]:
    """Return the place of each name: its column, or the complement where it counts against it.

    Names seen before are looked up. When the memory is full, it begins anew. Threads may share it:
    each returns what it computed itself, or found.

    Raises
    ------
    UnicodeError
        A name holds half of a surrogate pair.

    Examples
    --------
    >>> place_names(["", "foo"], Buckets(10)), place_names(["foo"], Buckets(10, signed=False))
    ([0, -3], [2])
    """
    known = _memory(buckets)
    found = list(map(known.get, names))
    if None not in found:
        return found  # type: ignore[return-value]
    new = list({name for name, place in zip(names, found, strict=True) if place is None})
    fresh = dict(zip(new, _places(new, buckets), strict=True))
    _remember(known, fresh)
    return [
        fresh[name] if place is None else place for name, place in zip(names, found, strict=True)
    ]


@lru_cache(maxsize=MOST_KINDS)
def _memory(buckets: Buckets) -> dict[str, int]:  # noqa: ARG001
    return {}


def _remember(known: dict[str, int], fresh: dict[str, int]) -> None:
    if len(known) + len(fresh) > MOST_NAMES:
        known.clear()
    known.update({name: place for name, place in fresh.items() if len(name) <= LONGEST_NAME})


def _places(names: Names, buckets: Buckets) -> list[int]:
    if len(names) < FEW:
        return [_place(hash_name(name), buckets) for name in names]
    columns, is_negative = column_of(murmur_hash(names), buckets)
    signed = columns.astype(np.int64)
    if is_negative is not None:
        signed[is_negative] = ~signed[is_negative]
    places: list[int] = signed.tolist()
    return places


def _place(value: int, buckets: Buckets) -> int:
    column = abs(value) % buckets.width
    return ~column if buckets.signed and value < 0 else column


def _remainders(sizes: npt.NDArray[np.uint32], width: int) -> npt.NDArray[np.uint32]:
    """Divide; a power of two is quickest."""
    return sizes & np.uint32(width - 1) if width & (width - 1) == 0 else sizes % np.uint32(width)
