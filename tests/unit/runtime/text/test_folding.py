"""Tables of all characters give what Python gives document by document."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from hbconv.containers.extractors import Texts
from hbconv.runtime.text.tokenize import fold, preparation

PLANES = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x110000, 7)))


def pieces(text: str) -> list[str]:
    """Cut a text into documents of 30 characters."""
    return [text[first : first + 30] for first in range(0, len(text), 30)]


SETTINGS = list(product((True, False), ("", "ascii", "unicode")))
DOCUMENTS = {
    "ascii": ["The CAT", "", "Sat\x00"],
    "latin": ["Où ÉTÉ", "", "e\u0301 \u00df"],
    "sigma": ["ΟΔΟΣ ΣΑΣ", "Σ", "É"],
    "longer": ["\u0130\ufb03 \uac00", "½", "\uface", "\U0001d400É"],
    "every character": pieces(PLANES),
    "every character but sigma": pieces(PLANES.replace("\u03a3", "")),
    "none": [],
    "empty": ["", ""],
}


@pytest.mark.parametrize("documents", DOCUMENTS.values(), ids=DOCUMENTS)
@pytest.mark.parametrize(("lowercase", "accents"), SETTINGS)
def test_folds_as_python_does(documents: list[str], lowercase: bool, accents: str) -> None:
    """Also characters that become none or several, and those whose neighbours count."""
    codes, lengths = fold(documents, Texts(lowercase=lowercase, accents=accents))
    want = list(map(preparation(lowercase, accents), documents))
    assert lengths.tolist() == list(map(len, want))
    assert codes.astype("<u4").tobytes().decode("utf-32-le") == "".join(f"{w}\n" for w in want)


def test_text_without_letters_beyond_ascii_has_bytes() -> None:
    """Accents that are removed leave ASCII."""
    assert fold(["Déjà"], Texts(accents="unicode"))[0].dtype == np.uint8
    assert fold(["Déjà"], Texts())[0].dtype == np.uint16
    assert fold(["\U0001f600"], Texts())[0].dtype == np.uint32


def test_halves_of_surrogate_pairs_are_no_text() -> None:
    """They are left to the way document by document."""
    with pytest.raises(UnicodeEncodeError):
        fold(["\ud800"], Texts())
