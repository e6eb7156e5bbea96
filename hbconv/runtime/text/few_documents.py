"""Few documents: their n-grams are counted in dicts, which takes less time than arrays do.

The n-grams are those of ``hbconv.runtime.text.grams``, which takes many documents, and so are the
entries, to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat

from hbconv.containers.extractors import Buckets, Extractor, Terms, Texts
from hbconv.runtime.text.hashed_names import place_names
from hbconv.runtime.text.tokenize import preparation, tokenizer

__all__ = ["Counts", "are_few", "count_few"]

Counts = tuple[list[int], list[int], list[int]]
"""Where each row begins, then columns and counts of its entries."""

UNKNOWN = -1
MOST_CHARACTERS = 3000
"""Characters from which on the way for many documents is the faster one."""


def are_few(documents: Sequence[str], extractor: Extractor) -> bool:
    """Whether this way is the faster one: of words, and of their n-grams that are looked up.

    N-grams that are hashed are seldom ones that came before.
    """
    texts = extractor.rows
    if not isinstance(texts, Texts) or texts.unit != "word":
        return False
    is_known = texts.longest == 1 or isinstance(extractor.columns, Terms)
    return is_known and sum(map(len, documents)) < MOST_CHARACTERS


def count_few(documents: Sequence[str], texts: Texts, extractor: Extractor) -> Counts:
    """Return the entries of sparse rows, with ascending columns.

    Examples
    --------
    >>> words = Extractor(Texts(), Terms(("cat", "sat")), "int64")
    >>> count_few(["The cat: a cat", "", "It sat"], words.rows, words)
    ([0, 1, 1, 2], [0, 1], [2, 1])
    """
    prepare = preparation(texts.lowercase, texts.accents)
    cut = tokenizer(texts)
    starts = [0]
    columns: list[int] = []
    counts: list[int] = []
    for document in documents:
        found = _count(cut(prepare(document)), extractor.columns)
        ordered = sorted(found)
        columns += ordered
        counts += map(found.__getitem__, ordered)
        starts.append(len(columns))
    return starts, columns, counts


def _count(names: Sequence[str], columns: Terms | Buckets) -> dict[int, int]:
    """Return the columns of some names, and what each counts."""
    if isinstance(columns, Buckets):
        return _with_signs(Counter(place_names(names, columns)))
    found = Counter(map(columns.places.get, names, repeat(UNKNOWN)))
    found.pop(UNKNOWN, None)
    return found


def _with_signs(found: dict[int, int]) -> dict[int, int]:
    """Subtract what counts against a column: the places below 0, which are complements."""
    counts = {place: count for place, count in found.items() if place >= 0}
    for place, count in found.items():
        if place < 0:
            counts[~place] = counts.get(~place, 0) - count
    return counts
