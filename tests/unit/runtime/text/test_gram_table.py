"""Terms found by the numbers of their words are those that scikit-learn finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extracted_rows import agree, extractor_of, rows_of
from sklearn.feature_extraction.text import CountVectorizer

from hbconv.runtime.text.grams import find_places, gram_table_of
from hbconv.runtime.text.term_table import TermTable

VOCABULARY = ["cat sat", "a", "cat", "the cat sat", " a", "a ", "a  b", "a b c d", "", "é b"]
DOCUMENTS = ["the cat sat a cat sat", "a b a b c d é b", "", "cat", "sat the", "a  b"]


@pytest.mark.parametrize("pattern", [r"\w+", r"[^,\n]+", r"\S+"])
@pytest.mark.parametrize("sizes", [(1, 1), (1, 2), (2, 2), (2, 3), (3, 4)])
@pytest.mark.parametrize("stop_words", [None, ["a", "the", "cat sat"]])
def test_terms_of_several_words(pattern: str, sizes: tuple[int, int], stop_words: Any) -> None:
    """Terms that only begin others, or have too few words, or spaces where no words part."""
    estimator = CountVectorizer(
        vocabulary=VOCABULARY, token_pattern=pattern, ngram_range=sizes, stop_words=stop_words
    )
    agree(estimator, DOCUMENTS)


@pytest.mark.parametrize("count", [125, 126, 127, 3000])
def test_letters_beyond_a_byte(count: int) -> None:
    """Terms of few letters have a byte for each; those of many are in UTF-8."""
    rng = np.random.default_rng(count)
    letters = list(map(chr, range(0x4E00, 0x4E00 + count)))
    seen = ["".join(letters), *("".join(rng.choice([*letters, " "], 50)) for _ in range(40))]
    estimator = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w{1,}").fit(seen)
    extractor = extractor_of(estimator)
    table = gram_table_of(extractor.columns, extractor.rows)
    assert (table.letters is None) == (count > 126)
    strange = [text.replace(letters[3], "\u9fff").replace(letters[5], "\u2603") for text in seen]
    agree(estimator, [*seen, *strange, "a1 \U0001f600"])


def test_words_with_spaces_are_left_to_another_way() -> None:
    """There a term says not where its words part."""
    extractor = extractor_of(CountVectorizer(token_pattern=r"[^,]+").fit(["a b,c"]))
    assert find_places(["a b,c" * 999], extractor.rows, extractor.columns) is None


def test_the_kernel_compares_long_words_letter_by_letter() -> None:
    """One whose hash is that of a term is none."""
    estimator = CountVectorizer(vocabulary=["abcdefgh_one"])
    extractor = extractor_of(estimator)
    table = gram_table_of(extractor.columns, extractor.rows)
    table.words.slots.pairs[:] = TermTable([b"abcdefgh_two"]).slots.pairs
    starts, _, _ = rows_of(["abcdefgh_two"], estimator)
    assert starts.tolist() == [0, 0]
