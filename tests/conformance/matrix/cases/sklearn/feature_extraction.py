"""Vectorizers of texts and mappings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import SIZE
from matrix.texts import counts, documents, fit_texts, mappings, tokens
from sklearn import feature_extraction
from sklearn.feature_extraction import text
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler


def vectorizers() -> Iterator[Case]:
    """Texts to sparse rows."""
    name = "sklearn.feature_extraction.text.{}".format
    case = partial(Case, kind="elementwise", rows=documents)
    count = text.CountVectorizer
    weigh = text.TfidfVectorizer
    hashed = partial(text.HashingVectorizer, n_features=64)
    yield case(name("CountVectorizer"), "words", fit_texts(count()))
    yield case(
        name("CountVectorizer"),
        "n-grams, binary, float32",
        fit_texts(count(ngram_range=(1, 2), binary=True, dtype=np.float32)),
    )
    yield case(
        name("CountVectorizer"),
        "a vocabulary, int32",
        fit_texts(
            count(vocabulary={"cat": 1, "the": 0, "déjà vu": 2}, ngram_range=(1, 2), dtype=np.int32)
        ),
    )
    yield case(
        name("CountVectorizer"),
        "stop words, rare and frequent terms",
        fit_texts(count(stop_words="english", min_df=3, max_df=0.9, max_features=5)),
    )
    yield case(name("TfidfVectorizer"), "words", fit_texts(weigh()))
    yield case(
        name("TfidfVectorizer"),
        "sublinear, l1, float32",
        fit_texts(weigh(sublinear_tf=True, norm="l1", smooth_idf=False, dtype=np.float32)),
    )
    yield case(
        name("TfidfVectorizer"),
        "characters, no norm",
        fit_texts(weigh(analyzer="char", ngram_range=(2, 3), norm=None, strip_accents="unicode")),
    )
    yield case(
        name("TfidfVectorizer"),
        "characters of words, no idf",
        fit_texts(weigh(analyzer="char_wb", ngram_range=(1, 4), use_idf=False, lowercase=False)),
    )
    yield case(name("HashingVectorizer"), "l2", fit_texts(hashed()))
    yield case(
        name("HashingVectorizer"),
        "l1, binary, float32",
        fit_texts(hashed(norm="l1", binary=True, alternate_sign=False, dtype=np.float32)),
    )
    yield case(
        name("HashingVectorizer"),
        "no norm, ints",
        fit_texts(hashed(norm=None, dtype=np.int64, strip_accents="ascii", token_pattern=r"\w+")),
    )
    counted = partial(Case, name("TfidfTransformer"), kind="elementwise", rows=counts)
    yield counted("l2", fit_texts(text.TfidfTransformer(), counts))
    yield counted(
        "sublinear, l1", fit_texts(text.TfidfTransformer(sublinear_tf=True, norm="l1"), counts)
    )
    yield counted(
        "float32, no norm",
        lambda: text.TfidfTransformer(norm=None).fit(counts(SIZE).astype(np.float32)),
    )
    yield counted(
        "behind a scaler, no idf",
        lambda: make_pipeline(MaxAbsScaler(), text.TfidfTransformer(use_idf=False)).fit(
            counts(SIZE)
        ),
    )


def features() -> Iterator[Case]:
    """Mappings and sequences to sparse rows."""
    name = "sklearn.feature_extraction.{}".format
    case = partial(Case, kind="elementwise", rows=mappings)
    mapped = feature_extraction.DictVectorizer
    hashed = feature_extraction.FeatureHasher
    yield case(name("DictVectorizer"), "sparse", fit_texts(mapped(), mappings))
    yield case(
        name("DictVectorizer"),
        "dense, float32, unsorted",
        fit_texts(mapped(sparse=False, dtype=np.float32, separator=": ", sort=False), mappings),
    )
    yield case(name("FeatureHasher"), "mappings", fit_texts(hashed(16), mappings))
    yield case(
        name("FeatureHasher"),
        "names, float32",
        fit_texts(hashed(16, input_type="string", dtype=np.float32, alternate_sign=False), tokens),
        rows=tokens,
    )


CASES = (*vectorizers(), *features())
