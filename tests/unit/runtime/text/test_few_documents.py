"""Few documents are counted as many are."""

from __future__ import annotations

import pytest
from extracted_rows import agree, extractor_of, rows_of
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from hbconv.errors import InputError
from hbconv.runtime.text.few_documents import MOST_CHARACTERS, are_few


@pytest.mark.parametrize(("estimator", "few"), [
    (CountVectorizer(), True), (CountVectorizer(ngram_range=(1, 3)), True),
    (HashingVectorizer(norm=None), True),
    (HashingVectorizer(norm=None, ngram_range=(1, 2)), False),
    (CountVectorizer(analyzer="char"), False), (CountVectorizer(analyzer="char_wb"), False),
])  # fmt: skip
def test_few_are_chosen_by_their_characters(estimator: CountVectorizer, few: bool) -> None:
    """And by what is counted."""
    if not isinstance(estimator, HashingVectorizer):
        estimator.fit(["ab"])
    extractor = extractor_of(estimator)
    assert are_few(["ab " * 9], extractor) == few
    assert not are_few(["ab " * MOST_CHARACTERS], extractor)
    agree(estimator, ["ab " * 9, "", "ab cd " * MOST_CHARACTERS])


def test_no_documents_have_no_entries() -> None:
    """And one without a known term has none."""
    estimator = CountVectorizer().fit(["cat sat"])
    assert [part.tolist() for part in rows_of([], estimator)] == [[0], [], []]
    assert [part.tolist() for part in rows_of(["dog", ""], estimator)] == [[0, 0, 0], [], []]


def test_signs_cancel_in_each_row_apart() -> None:
    """A column whose values cancel keeps its entry, 0."""
    names = " ".join(f"w{i}" for i in range(40))
    for width in (1, 2, 3, 2**20):
        estimator = HashingVectorizer(n_features=width, norm=None)
        agree(estimator, [names, names[:50], names[60:], f"{names} {names}"])


@pytest.mark.parametrize("document", ["ab \ud800\ud800 cd", "ab\ud800cd"])
def test_halves_of_surrogate_pairs(document: str) -> None:
    """Where they are hashed they are refused; elsewhere they are characters like others."""
    agree(CountVectorizer(token_pattern=r"\S+").fit([document]), [document, "ab"])
    with pytest.raises(InputError, match="feature names must be strings"):
        rows_of([document], HashingVectorizer(token_pattern=r"\S+"))
