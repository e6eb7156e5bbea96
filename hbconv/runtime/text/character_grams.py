"""N-grams of characters, of documents or within words, as parts of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Texts
from hbconv.runtime.text.character_classes import SPACES, members
from hbconv.runtime.text.folding import codes_of, lengths_of
from hbconv.runtime.text.runs import (
    SPACE,
    Grams,
    Runs,
    as_bytes,
    documents_of,
    find_runs,
    spaced,
    whole_documents,
)
from hbconv.runtime.text.tokenize import preparation, single_spaces

__all__ = ["find_character_grams"]

Ints = npt.NDArray[np.int64]

FEW = 4000
"""Characters up to which text is written anew by Python, not by numpy."""


def find_character_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams]:
    """Return the document of each n-gram of characters, and all of them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> rows, grams = find_character_grams(["a b"], Texts("char_wb", 3, 3))
    >>> grams.data[:5].tobytes(), grams.starts.tolist()
    (b' a b ', [0, 2])
    """
    ways = _FEW if sum(map(len, documents)) <= FEW else _MANY
    return _cut(ways[texts.unit](documents, texts), texts)


def _few_documents(documents: Sequence[str], texts: Texts) -> Runs:
    """Return documents with one space for two or more in a row."""
    prepared = map(preparation(texts.lowercase, texts.accents), documents)
    written = list(map(single_spaces, prepared))
    return documents_of(codes_of("\n".join([*written, ""])), lengths_of(written))


def _few_words(documents: Sequence[str], texts: Texts) -> Runs:
    """Return words with a space before and after each."""
    prepared = map(preparation(texts.lowercase, texts.accents), documents)
    words = list(map(str.split, prepared))
    every = list(chain.from_iterable(words))
    lengths = lengths_of(every)
    starts = np.cumsum(lengths + 1) - lengths - 1
    rows = np.repeat(np.arange(len(words)), lengths_of(words))
    return Runs(codes_of(f" {' '.join(every)} "), starts, lengths + 2, rows)


def _many_documents(documents: Sequence[str], texts: Texts) -> Runs:
    return _single_spaced(whole_documents(documents, texts))


def _many_words(documents: Sequence[str], texts: Texts) -> Runs:
    words = spaced(find_runs(whole_documents(documents, texts), ~members(SPACES), 1))
    return replace(words, starts=words.starts - 1, lengths=words.lengths + 2)


_FEW = {"char": _few_documents, "char_wb": _few_words}
_MANY = {"char": _many_documents, "char_wb": _many_words}


def _single_spaced(whole: Runs) -> Runs:
    """Write one space for two or more in a row."""
    space = members(SPACES).take(whole.codes)
    ends = whole.starts + whole.lengths
    space[ends] = False
    pair = np.zeros(len(space) + 1, bool)
    pair[1:-1] = space[1:] & space[:-1]  # with the one before
    codes = np.where(pair[1:], SPACE, whole.codes).astype(whole.codes.dtype)
    kept = ~pair[:-1]
    places = np.append(0, np.cumsum(kept))
    starts = places[whole.starts]
    return replace(whole, codes=codes[kept], starts=starts, lengths=places[ends] - starts)


def _cut(runs: Runs, texts: Texts) -> tuple[Ints, Grams]:
    """Cut each run; in words, one that is too short counts whole.

    Runs are side by side, or share the space between them: it begins the later one, and is an
    n-gram of the earlier one too where these have one character.

    1. Find how many characters each one has up to the end of its run.
    2. Begin n-grams of each size where there are enough.
    """
    in_words = texts.unit == "char_wb"
    ends = runs.starts + runs.lengths
    first = int(runs.starts[0]) if len(runs.starts) else 0
    steps = np.empty_like(runs.starts)
    steps[:-1] = runs.starts[1:] - runs.starts[:-1]
    steps[-1:] = len(runs.codes) - in_words - runs.starts[-1:]
    room = np.repeat(ends - first, steps)
    room -= np.arange(len(room))  # 1
    sizes = texts.sizes(int(room.max(initial=0)))
    found = [(room >= size).nonzero()[0] for size in sizes]  # 2
    at = np.concatenate(found)
    rows = np.repeat(runs.rows, steps)[at]
    lengths = np.repeat(np.array(sizes), list(map(len, found)))
    starts = at + first
    if in_words:
        short = runs.lengths < texts.shortest
        rows = np.concatenate([rows, runs.rows[short]])
        starts = np.concatenate([starts, runs.starts[short]])
        lengths = np.concatenate([lengths, runs.lengths[short]])
    if in_words and texts.shortest == 1:
        rows = np.concatenate([rows, runs.rows])
        starts = np.concatenate([starts, ends - 1])
        lengths = np.concatenate([lengths, np.ones_like(ends)])
    return rows, as_bytes(runs.codes, starts, lengths)
