"""Members that are another one but for some numbers: a file holds what differs.

Nodes of a forest are read by the methods that add leaves, and by those that number them. Both are
the same tables but for the numbers of the leaves, so the second one is stored as these alone, and
zeros take nearly nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hbconv.errors import StoreError

__all__ = ["drop_alike", "restore_alike"]

LEAST_BYTES = 1 << 14
"""Bytes from which a member is compared with others."""
WORD = np.dtype("<i4")
"""What differs is found word by word, as nodes are words."""
LEAST_SHARE = 0.25
"""Share of the words that must be alike."""
MOST_ZEROS = 16
"""Words that may differ by being 0, which are listed."""

Patches = dict[str, tuple[str, Sequence[int]]]
"""By member: the member that it is like, and where it holds 0 and the other one does not."""
Words = npt.NDArray[np.int32]


def drop_alike(members: Mapping[str, bytes]) -> tuple[dict[str, bytes], Patches]:
    """Return members with those that are like another one replaced by what differs."""
    written = dict(members)
    patches: Patches = {}
    sources: dict[int, list[str]] = {}
    for name, data in members.items():
        if len(data) < LEAST_BYTES or len(data) % WORD.itemsize:
            continue
        alike = sources.setdefault(len(data), [])
        for source in alike:
            found = _differences(np.frombuffer(members[source], WORD), np.frombuffer(data, WORD))
            if found is not None:
                words, zeros = found
                written[name], patches[name] = words.tobytes(), (source, zeros)
                break
        else:
            alike.append(name)
    return written, patches


def restore_alike(
    patches: Mapping[str, Sequence[object]], members: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return members as ``drop_alike`` was given them.

    Raises
    ------
    StoreError
        A member is like one that is not there, or of another length.
    """
    whole = dict(members)
    for name, (source, zeros) in patches.items():
        own, other = members.get(name, b""), members.get(str(source), b"")
        if not own or len(own) != len(other) or source in patches:
            raise StoreError(f"The model file lacks the member that {name:.99} is like.")
        words = np.frombuffer(own, WORD).copy()
        np.copyto(words, np.frombuffer(other, WORD), where=words == 0)
        words[np.array(zeros, np.int64)] = 0
        whole[name] = words.tobytes()
    return whole


def _differences(source: Words, words: Words) -> tuple[Words, list[int]] | None:
    """Return the words that differ among zeros, and where they are 0; None of other members."""
    differs = source != words
    if np.count_nonzero(differs) > (1 - LEAST_SHARE) * len(words):
        return None
    zeros = np.flatnonzero(differs & (words == 0))
    if len(zeros) > MOST_ZEROS:
        return None
    return np.where(differs, words, WORD.type(0)), zeros.tolist()
