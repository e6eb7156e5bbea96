"""Documents to tokens: n-grams of words or characters, as scikit-learn's vectorizers cut them.

Classes of characters as tables over all of Unicode, as ``re`` and ``unicodedata`` tell them.

Lower case and accents of many documents at once, by a table of all characters.

What becomes of a character depends on no other one, but for the capital sigma: its lower case
differs at the end of a word.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence, Sized
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers.extractors import Texts

__all__ = [
    "SPACES",
    "all_characters",
    "codes_of",
    "decode_documents",
    "fold",
    "fold_letters",
    "lengths_of",
    "members",
    "preparation",
    "runs_of",
    "single_spaces",
    "table_of_characters",
    "tokenizer",
]

Tokenizer = Callable[[str], Sequence[str]]
Change = Callable[[str], str]


def decode_documents(documents: Sequence[Any], texts: Texts) -> Sequence[str]:
    """Return documents, text or bytes, as text.

    Raises
    ------
    TypeError
        A document is neither.
    UnicodeError
        Bytes are no text.

    Examples
    --------
    >>> decode_documents(["a", "é".encode()], Texts())
    ['a', 'é']
    """
    # Documents that are text already need no copy.
    if set(map(type, documents)) == {str}:
        return documents

    def decode(document: Any) -> str:
        if isinstance(document, bytes):
            document = document.decode(texts.encoding, texts.decode_error)
        if not isinstance(document, str):
            raise TypeError(document)
        return str(document)

    return list(map(decode, documents))


def fold_letters(documents: Sequence[str], letters: str) -> Sequence[str]:
    """Return documents with each upper case letter as one lower case letter.

    Parameters
    ----------
    documents : sequence of str
    letters : {"", "ascii", "characters"}
        Which letters: none, those of ASCII, or all.

    Examples
    --------
    >>> fold_letters(["ÉTÉ"], "characters"), fold_letters(["ÉTÉ"], "ascii")
    (['été'], ['ÉtÉ'])
    """
    if not letters:
        return documents
    table = _ASCII_LETTERS if letters == "ascii" else _letters()
    # ``lower`` is as good as the table for ASCII, and faster.
    return [text.lower() if text.isascii() else text.translate(table) for text in documents]


_ASCII_LETTERS = {code: chr(code + 32) for code in range(ord("A"), ord("Z") + 1)}


@cache
def _letters() -> dict[int, str]:
    """Lower case of each letter alone; of the dotted capital I the letter without its dot."""
    # Lower case of the dotted capital I is two characters: a letter, and a combining dot.
    lower = {code: chr(code).lower()[0] for code in range(sys.maxunicode + 1)}
    return {code: letter for code, letter in lower.items() if letter != chr(code)}


@lru_cache(maxsize=64)
def tokenizer(texts: Texts) -> Tokenizer:
    """Return the function that cuts prepared text into tokens.

    Examples
    --------
    >>> tokenizer(Texts(longest=2))("the cat sat.")
    ['the', 'cat', 'sat', 'the cat', 'cat sat']
    """
    return _CUTS[texts.unit](texts)


@cache
def preparation(lowercase: bool, accents: str) -> Change:
    """Return lower case, then accents removed, as the source orders them.

    Examples
    --------
    >>> preparation(True, "unicode")("Déjà")
    'deja'
    """
    strip = {"": None, "ascii": _to_ascii, "unicode": _without_accents}[accents]
    if strip is None:
        return str.lower if lowercase else str
    return (lambda document: strip(document.lower())) if lowercase else strip


def _to_ascii(document: str) -> str:
    return (
        document
        if document.isascii()
        else unicodedata.normalize("NFKD", document).encode("ascii", "ignore").decode("ascii")
    )


def _without_accents(document: str) -> str:
    if document.isascii():
        return document
    # Half of a surrogate pair passes through, as it does in the source.
    codes = np.frombuffer(unicodedata.normalize("NFKD", document).encode(*_CODES), np.uint32)
    return codes[~combining()[codes]].tobytes().decode(*_CODES)


# One number of 32 bits for each character, so that positions in bytes are positions in text.
_CODES = ("utf-32-le", "surrogatepass")


def _words(texts: Texts) -> Tokenizer:
    words = _find_words(texts.pattern)
    stopped = _without(words, frozenset(texts.stop_words)) if texts.stop_words else words
    return stopped if texts.longest == 1 else lambda document: _join_words(stopped(document), texts)


def _find_words(pattern: str) -> Tokenizer:
    """Find words; those that are the longest runs of a class, as nearly all are, in less time.

    What a pattern asks beside a run is true of the longest ones. In ASCII they are found by
    splitting, in half of the time.
    """
    runs = runs_of(pattern)
    if runs is None:
        return re.compile(pattern).findall
    one, least = runs
    find = re.compile(f"{one}{{{least},}}").findall
    spaced = _spaced(re.compile(one))
    return find if spaced is None else _split_words(spaced, least, find)


def _spaced(one: re.Pattern[str]) -> bytes | None:
    """Return what each byte of ASCII becomes, a space where it is in no word.

    None where a space, or what splits text like one, may be in a word.
    """
    inside = [one.fullmatch(chr(code)) is not None for code in range(ASCII)]
    # ``split`` would cut a word at a space that belongs to it.
    if any(inside[code] and chr(code).isspace() for code in range(ASCII)):
        return None
    return bytes(code if inside[code] else SPACE for code in range(ASCII)) + bytes(ASCII)


ASCII, SPACE = 128, ord(" ")


def _split_words(spaced: bytes, least: int, find: Tokenizer) -> Tokenizer:
    def words(document: str) -> Sequence[str]:
        # ``translate`` of bytes sees parts of a character beyond ASCII.
        if not document.isascii():
            return find(document)
        cut = document.encode().translate(spaced).decode().split()
        return cut if least == 1 else [word for word in cut if len(word) >= least]

    return words


def _without(words: Tokenizer, stop_words: frozenset[str]) -> Tokenizer:
    return lambda document: [word for word in words(document) if word not in stop_words]


def _join_words(words: Sequence[str], texts: Texts) -> list[str]:
    grams: list[str] = []
    for size in texts.sizes(len(words)):
        grams += (
            words
            if size == 1
            else map(" ".join, zip(*(words[first:] for first in range(size)), strict=False))
        )
    return grams


def _characters(texts: Texts) -> Tokenizer:
    return lambda document: _runs(single_spaces(document), texts)


def _runs(text: str, texts: Texts) -> list[str]:
    return [
        text[first : first + size]
        for size in texts.sizes(len(text))
        for first in range(len(text) - size + 1)
    ]


def _characters_of_words(texts: Texts) -> Tokenizer:
    """Cut each word, padded with spaces; a short word counts whole, once for all sizes."""

    def grams(document: str) -> list[str]:
        parts: list[str] = []
        for word in document.split():
            padded = f" {word} "
            parts += _runs(padded, texts)
            if len(padded) < texts.shortest:
                parts.append(padded)
        return parts

    return grams


# One space alone stays as it is, a tab or a newline too: so does scikit-learn.
_SPACES = re.compile(r"\s\s+")


def single_spaces(document: str) -> str:
    """Write one space for two or more in a row."""
    return _SPACES.sub(" ", document)


_CUTS: dict[str, Callable[[Texts], Tokenizer]] = {
    "word": _words,
    "char": _characters,
    "char_wb": _characters_of_words,
}


Class = npt.NDArray[np.bool_]

SPACES = r"\s"

_RUNS = re.compile(
    r"(?P<flags>(?:\(\?[aiu]+\))?)"
    r"(?P<opens>(?:\\b)?)(?P<one>\\[wWdDsS]|\[(?:\\.|[^\\\]])+\])(?P<more>(?P=one)*)"
    r"(?:\+|\{(?P<least>\d+),\})(?P<closes>(?:\\b)?)"
)


@lru_cache(maxsize=64)
def runs_of(pattern: str) -> tuple[str, int] | None:
    r"""Return the class, and the least length, whose longest runs are what a pattern finds.

    None for all other patterns.

    Examples
    --------
    >>> runs_of(r"(?u)\b\w\w+\b"), runs_of("[a-z]{3,}"), runs_of("[a-z]+ly")
    (('(?u)\\w', 2), ('[a-z]', 3), None)
    """
    match = _RUNS.fullmatch(pattern)
    if match is None or ((match["opens"] or match["closes"]) and match["one"] != r"\w"):
        return None
    least = int(match["least"] or 1) + len(match["more"]) // len(match["one"])
    return (match["flags"] + match["one"], least) if least else None


@cache
def members(one: str) -> Class:
    r"""Return whether each character is in a class.

    Parameters
    ----------
    one : str
        A pattern of one character.

    Examples
    --------
    >>> members(r"\w")[[ord("é"), ord("-")]].tolist()
    [True, False]
    """
    inside = np.zeros(sys.maxunicode + 1, bool)
    # ``re`` judges its own classes: a million characters as a few hundred runs.
    for run in re.finditer(f"{one}+", all_characters()):
        inside[run.start() : run.end()] = True
    # All callers share the array, which is cached.
    inside.flags.writeable = False
    return inside


@cache
def combining() -> Class:
    """Return whether each character combines with the one before, as accents do."""
    return np.fromiter(map(unicodedata.combining, all_characters()), np.uint8) > 0


def all_characters() -> str:
    """Return every character in order, halves of surrogate pairs too."""
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]
"""Characters, as unsigned numbers of 8, 16 or 32 bits: the first that hold all of a text."""

SIGMA = "\u03a3"
"""The capital sigma."""
BETWEEN = "\n"
"""Stands after each document, and between characters: no change joins it to another one."""
SHORT = 1 << 16


def fold(documents: Sequence[str], texts: Texts) -> tuple[Codes, Ints]:
    r"""Return prepared documents, a character after each, and their lengths without it.

    Raises
    ------
    UnicodeEncodeError
        A document holds half of a surrogate pair.

    Examples
    --------
    >>> codes, lengths = fold(["Où", "ﬁ"], Texts(accents="unicode"))
    >>> "".join(map(chr, codes)), lengths.tolist()
    ('ou\nfi\n', [2, 2])
    """
    joined = BETWEEN.join([*documents, ""])
    # ASCII has no accents, and lower case of one length.
    if joined.isascii():
        lowered = joined.lower() if texts.lowercase else joined
        return np.frombuffer(lowered.encode(), np.uint8), lengths_of(documents)
    lowercase = texts.lowercase
    # Lower case of a capital sigma depends on its neighbours, so Python's own rule decides.
    if lowercase and SIGMA in joined:
        documents = list(map(str.lower, documents))
        joined = BETWEEN.join([*documents, ""])
        lowercase = False
    codes, lengths = codes_of(joined), lengths_of(documents)
    if lowercase or texts.accents:
        codes, lengths = table_of_characters(lowercase, texts.accents)(codes, lengths)
    # Bytes are read in a quarter of the memory of 32 bits.
    return codes.astype(np.uint8) if codes.max() < 128 else codes, lengths


def lengths_of(parts: Sequence[Sized]) -> Ints:
    """Return the length of each."""
    return np.fromiter(map(len, parts), np.int64, len(parts))


def codes_of(text: str) -> Codes:
    """Return the characters of a text, or raise UnicodeEncodeError for half a surrogate pair."""
    if text.isascii():
        return np.frombuffer(text.encode(), np.uint8)
    # As many halves as characters: no character lies beyond 16 bits.
    short = np.frombuffer(text.encode("utf-16-le"), np.uint16)
    return short if len(short) == len(text) else np.frombuffer(text.encode("utf-32-le"), np.uint32)


class Folding:
    """What each character becomes: one other, none, or several."""

    def __init__(self, lowercase: bool, accents: str) -> None:
        change = preparation(lowercase, accents)
        text = change(BETWEEN.join([*all_characters(), ""]))
        self.changed = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        # The newline itself becomes one more newline than others do.
        ends = np.delete(np.flatnonzero(self.changed == ord(BETWEEN)), ord(BETWEEN))
        self.starts = np.append(0, ends[:-1] + 1).astype(np.int32)
        # No character becomes more than 18 others, so a byte holds the count.
        self.counts = (ends - self.starts).astype(np.uint8)
        self.single = np.where(self.counts == 1, self.changed[self.starts], 0).astype(np.uint32)
        """The one other; 0 where it is not one."""
        # Text of 16 bits is looked up in a table of half the bytes.
        short = self.single[:SHORT]
        self.short = np.where(short < SHORT, short, 0).astype(np.uint16)

    def __call__(self, codes: Codes, lengths: Ints) -> tuple[Codes, Ints]:
        """Return the changed text, and the length of each document."""
        fold_letters = (self.short if codes.dtype == np.uint16 else self.single).take(codes)
        # A 0 marks a character that becomes none or several others.
        return (fold_letters, lengths) if fold_letters.all() else self._anew(codes, lengths)

    def _anew(self, codes: Codes, lengths: Ints) -> tuple[Codes, Ints]:
        counts = self.counts[codes].astype(np.int64)
        ends = np.cumsum(counts)
        first = np.repeat(self.starts[codes] - (ends - counts), counts)
        places = ends[np.cumsum(lengths + 1) - 1]
        return self.changed[first + np.arange(len(first))], np.diff(places, prepend=0) - 1


@cache
def table_of_characters(lowercase: bool, accents: str) -> Folding:
    """Return what each character becomes, made once: it takes 0.4 s."""
    return Folding(lowercase, accents)
