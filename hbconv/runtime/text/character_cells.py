"""What each character becomes in documents that a kernel reads: one of the letters of its terms.

A character becomes lower case and loses accents first. A document is referred, for numpy to read
it, by a character that becomes several others, and by a capital sigma, whose lower case its
neighbours decide.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.backends.tvm.texts.memory import DROPPED, OUTSIDE, REFERRED
from hbconv.containers.extractors import Texts
from hbconv.runtime.text.grams import Letters
from hbconv.runtime.text.tokenize import ASCII, SIGMA, preparation, table_of_characters

__all__ = ["CharacterCells", "cells_of"]

PAGE = 256
SURROGATES = slice(0xD800, 0xE000)


@dataclass(frozen=True)
class CharacterCells:
    """What each character becomes: 256 characters are a page, and equal pages are one."""

    ascii: npt.NDArray[np.uint8]
    """The letters that characters of ASCII become."""
    pages: npt.NDArray[np.uint16]
    cells: npt.NDArray[np.uint16]


def cells_of(
    texts: Texts, inside: npt.NDArray[np.bool_], letters: Letters | None
) -> CharacterCells:
    """Return what characters become.

    Parameters
    ----------
    texts : Texts
    inside : ndarray of bool
        Whether each character may be in a word.
    letters : Letters, optional
        Those of the terms; without them all characters beyond ASCII are referred.
    """
    every = preparation(texts.lowercase, texts.accents)("".join(map(chr, range(ASCII))))
    folded = np.frombuffer(every.encode(), np.uint8)
    of_ascii = np.where(inside[folded], folded, np.uint8(OUTSIDE))
    if letters is None:
        pages = np.zeros((sys.maxunicode + 1) // PAGE, np.uint16)
        return CharacterCells(of_ascii, pages, np.full(PAGE, REFERRED, np.uint16))
    table = table_of_characters(texts.lowercase, texts.accents)
    becomes = table.changed[table.starts]
    cells = np.where(inside[becomes], letters.write(becomes), np.uint8(OUTSIDE)).astype(np.uint16)
    cells[table.counts != 1] = REFERRED
    cells[table.counts == 0] = DROPPED
    cells[SURROGATES] = REFERRED
    if texts.lowercase:
        cells[ord(SIGMA)] = REFERRED
    places: dict[bytes, int] = {}
    numbers = [places.setdefault(page.tobytes(), len(places)) for page in cells.reshape(-1, PAGE)]
    return CharacterCells(
        of_ascii, np.array(numbers, np.uint16), np.frombuffer(b"".join(places), np.uint16)
    )
