"""What kernels of texts are called with: the buffers of a call, and the tables of a model.

A kernel is a function of ``machine/calling_convention.py``: its rows are documents.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "DROPPED",
    "HASHED_CHARACTERS",
    "HASHED_WORDS",
    "OUTSIDE",
    "REFERRED",
    "TERMS_OF_CHARACTERS",
    "TERMS_OF_WORDS",
    "TextInterface",
]

CALL = {
    "text": "uint8",
    "offsets": "int64",
    "bounds": "int64",
    "unread": "int64",
    "columns": "int32",
    "sums": "int32",
    "letters": "uint8",
    "edges": "int32",
    "starts": "int32",
    "lengths": "int32",
    "keys": "uint64",
    "homes": "int64",
    "found_keys": "uint64",
    "found": "int64",
    "numbers": "int32",
    "grams": "int32",
    "codes": "uint32",
    "sorted": "uint32",
    "tally": "int32",
    "line": "uint8",
    "room": "int32",
}
"""The buffers of calls, in their order, and their dtypes: documents, entries, and scratch.

========== ==================================================================================
buffer     holds
========== ==================================================================================
text       UTF-8 of documents, which is only read from the first offset to the last
offsets    where each document begins, and where the last one ends
bounds     where the entries of each document begin, where the last ones end, and how many
           documents are not read
unread     their numbers
columns    columns of the entries, ascending in each document
sums       sums of the entries
letters    a document as it counts, a byte for each character: ``OUTSIDE`` between words
edges      where words begin and end among the letters, by turns
starts     where each word that counts begins among the letters, or n-gram of characters in the line
lengths    its letters
keys       its key in the table of words
homes      the slot that it belongs in
found_keys the key that is in that slot
found      what is known of it: its number, and above 32 bits its column; -1 of those unknown
numbers    its number, -1 of those unknown
grams      the number of the n-gram that it begins
codes      the column of each n-gram, times 2, and 1 more where it counts against it
sorted     the same in order
tally      codes of each digit
line       words that count, with a space after each; characters, words with spaces about them
room       characters from each of the line on to the end of its document or word; below 0 where a
           word that is shorter than all n-grams begins
========== ==================================================================================
"""

TABLES = {
    "facts": "int64",
    "ascii": "uint8",
    "pages": "uint16",
    "cells": "uint16",
    "slots": "uint64",
    "terms": "int64",
    "term_bytes": "uint8",
    "gram_slots": "uint64",
    "spaces": "uint8",
}
"""The tables of models, in their order, and their dtypes.

============ ===============================================================================
table        holds
============ ===============================================================================
facts        numbers, by their places in ``FACTS``
ascii        the letter that each character of ASCII becomes
pages        the page of each 256 characters: where their cells begin, over 256
cells        the letter that a character becomes, or ``DROPPED``, or ``REFERRED``
slots        by turns keys of words, and their numbers with, above 32 bits, their columns or -1
terms        by turns where each word of the table begins among the bytes, and its letters
term_bytes   the words in letters, and eight bytes more
gram_slots   the same as slots of n-grams, those of each size after the other
spaces       whether each letter is whitespace
============ ===============================================================================
"""


@dataclass(frozen=True)
class TextInterface:
    """What one kernel takes.

    Parameters
    ----------
    name : str
    call, tables : tuple of str
        Its buffers and tables, in their order.
    facts : tuple of str
        What the first numbers of the table ``facts`` are.
    digit : int
        Bits of a digit: codes are sorted by one after the other.
    """

    name: str
    call: tuple[str, ...]
    tables: tuple[str, ...]
    facts: tuple[str, ...]
    digit: int


_FOUND = ("keys", "homes", "found_keys", "found")
_FOUND_TABLES = ("slots", "terms", "term_bytes")
_WORDS = ("least", "shortest", "longest", "digits")
_CHARACTERS = (*_WORDS, "in_words")
_TALLY_OF_WORDS, _TALLY_OF_CHARACTERS = 6, 8
"""Few codes are sorted by small digits: a document has 90 words, and 1,800 n-grams of letters."""


def _interface(
    name: str,
    left_out: tuple[str, ...],
    tables: tuple[str, ...],
    facts: tuple[str, ...],
    digit: int,
) -> TextInterface:
    call = tuple(buffer for buffer in CALL if buffer not in left_out)
    return TextInterface(name, call, ("facts", "ascii", "pages", "cells", *tables), facts, digit)


TERMS_OF_WORDS = _interface(
    "terms_of_words",
    ("line", "room"),
    (*_FOUND_TABLES, "gram_slots"),
    (*_WORDS, "stopped", "words", "bits"),
    _TALLY_OF_WORDS,
)
"""Counts n-grams of words that are terms.

Its facts are the letters of the shortest word; words of the shortest and of the longest n-gram;
digits of a code; how many words are left out, which have the first numbers; how many are known;
bits of a slot. Two numbers follow for each size of n-grams from 2 on: where its slots begin, and
their bits.
"""
HASHED_WORDS = _interface(
    "hashed_words",
    (*_FOUND, "numbers", "grams", "room"),
    (),
    (*_WORDS, "width", "signed"),
    _TALLY_OF_WORDS,
)
"""Counts n-grams of words by their hashes: the last facts are how many columns there are, and
whether a negative hash counts -1."""
TERMS_OF_CHARACTERS = _interface(
    "terms_of_characters",
    ("numbers", "grams"),
    (*_FOUND_TABLES, "spaces"),
    (*_CHARACTERS, "bits"),
    _TALLY_OF_CHARACTERS,
)
"""Counts n-grams of characters that are terms, of documents or within words."""
HASHED_CHARACTERS = _interface(
    "hashed_characters",
    (*_FOUND, "numbers", "grams"),
    ("spaces",),
    (*_CHARACTERS, "width", "signed"),
    _TALLY_OF_CHARACTERS,
)
"""Counts n-grams of characters by their hashes."""

OUTSIDE = 0xFF
"""The byte of characters between words."""
DROPPED, REFERRED = 0x100, 0x101
"""Cells of characters that are left out, and of those for which a document is not read."""
