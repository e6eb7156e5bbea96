"""N-grams of many documents at once, as parts of one text: no n-gram becomes a Python object.

A text is written anew so that each n-gram lies side by side in it: words with one space between.
What this way cannot cut is left to ``hbconv.runtime.text.tokenize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Terms, Texts
from hbconv.runtime.text.character_classes import members, runs_of
from hbconv.runtime.text.character_grams import find_character_grams
from hbconv.runtime.text.gram_table import gram_table_of
from hbconv.runtime.text.runs import (
    SPACE,
    Grams,
    Runs,
    as_bytes,
    find_runs,
    padded,
    spaced,
    whole_documents,
)
from hbconv.runtime.text.term_table import TermTable, utf8

__all__ = ["are_many", "find_grams", "find_places"]

Ints = npt.NDArray[np.int64]

MANY = {"word": 2000, "char": 100, "char_wb": 100}
"""Characters from which on this way is the faster one, by the unit of n-grams."""


def are_many(documents: Sequence[str], texts: Texts) -> bool:
    """Whether documents have so many characters that this way is the faster one."""
    return sum(map(len, documents)) >= MANY[texts.unit]


def find_places(documents: Sequence[str], texts: Texts, terms: Terms) -> tuple[Ints, Ints] | None:
    """Return the document and the column of each n-gram of words that is one of the terms.

    None if this way cannot find them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> documents = ["the cat: a cat " * 999, "it sat"]
    >>> rows, columns = find_places(documents, Texts(longest=2), Terms(("sat", "cat cat")))
    >>> len(rows), columns[:2].tolist()
    (1000, [0, 1])
    """
    runs = runs_of(texts.pattern) if texts.unit == "word" else None
    if runs is None or members(runs[0])[SPACE]:
        return None
    table = gram_table_of(terms, texts)
    if not table.is_exact:
        return None
    whole = whole_documents(documents, texts)
    if table.letters is None:
        words = find_runs(whole, members(runs[0]), runs[1])
        grams = as_bytes(words.codes, words.starts, words.lengths)
        return table.find(grams.data, grams.starts, grams.lengths, words.rows)
    written = replace(whole, codes=table.letters.write(whole.codes))
    words = find_runs(written, table.letters.inside, runs[1])
    return table.find(padded(words.codes), words.starts, words.lengths, words.rows)


def find_grams(documents: Sequence[str], texts: Texts) -> tuple[Ints, Grams] | None:
    """Return the document of each n-gram, and all n-grams; None if this way cannot find them.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> rows, grams = find_grams(["the cat: a cat " * 999, "it sat"], Texts(longest=2))
    >>> len(rows), int(rows[-1]), grams.data[:12].tobytes(), grams.lengths[-1:].tolist()
    (5996, 1, b' the cat cat', [6])
    """
    if texts.unit != "word":
        return find_character_grams(documents, texts)
    runs = runs_of(texts.pattern)
    if runs is None:
        return None
    whole = whole_documents(documents, texts)
    return _word_grams(_without(find_runs(whole, members(runs[0]), runs[1]), texts), texts)


def _without(words: Runs, texts: Texts) -> Runs:
    """Leave the stop words out."""
    if not texts.stop_words:
        return words
    grams = as_bytes(words.codes, words.starts, words.lengths)
    kept = _stop_table(texts.stop_words).find(grams.data, grams.starts, grams.lengths) < 0
    return replace(
        words, starts=words.starts[kept], lengths=words.lengths[kept], rows=words.rows[kept]
    )


@lru_cache(maxsize=64)
def _stop_table(stop_words: tuple[str, ...]) -> TermTable:
    return TermTable(list(map(utf8, stop_words)))


def _word_grams(words: Runs, texts: Texts) -> tuple[Ints, Grams]:
    if texts.longest == 1:
        return words.rows, as_bytes(words.codes, words.starts, words.lengths)
    words = spaced(words)
    starts, lengths, rows = [], [], []
    most = int(np.bincount(words.rows).max(initial=0))
    for size in texts.sizes(most):
        last = slice(size - 1, None)
        first = np.flatnonzero(words.rows[last] == words.rows[: max(0, len(words.rows) - size + 1)])
        starts.append(words.starts[first])
        final = first + size - 1
        lengths.append(words.starts[final] + words.lengths[final] - starts[-1])
        rows.append(words.rows[first])
    return np.concatenate(rows), as_bytes(
        words.codes, np.concatenate(starts), np.concatenate(lengths)
    )
