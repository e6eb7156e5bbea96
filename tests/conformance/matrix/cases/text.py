"""Vectorizers of texts and mappings, and models behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import SIZE, rows, target
from sklearn import feature_extraction
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction import text
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import LinearSVC

WORDS = (
    "the",
    "The",
    "cat",
    "CAT",
    "sat",
    "on",
    "a",
    "mat",
    "don't",
    "x2",
    "déjà",
    "vu",
    "İstanbul",
    "日本",
    "e-mail",
    "_",
    "ÉCOLE",
    "ﬁn",
    "word",
    "end.",
)
UNSEEN = ("dog", "ran", "naïve", "\u0301", "\t\n", "  ", "cat\x00")


def documents(n: int, words: tuple[str, ...] = (*WORDS, *UNSEEN)) -> np.ndarray:
    """Texts of 0 to 30 words, some often and some never seen in fitting; the second of more than one is empty."""
    rng = np.random.default_rng(n)
    made = [
        " ".join(rng.choice(words, rng.integers(0, 30), p=_shares(len(words)))) for _ in range(n)
    ]
    return np.array([*made[:1], *([""] if n > 1 else []), *made[2:]], dtype=object)


def mappings(n: int) -> np.ndarray:
    """Mappings from names to numbers, texts and sequences of texts."""
    rng = np.random.default_rng(n)
    made = np.empty(n, dtype=object)
    for row in range(n):
        names = rng.choice(["a", "b", "c", "d", "e"], 3, replace=False)
        made[row] = {
            names[0]: float(rng.normal()),
            names[1]: rng.choice(["red", "blue", "é"]).item(),
            f"n{rng.integers(5)}": int(rng.integers(3)),
        }
    return made


def tokens(n: int) -> np.ndarray:
    """Lists of names."""
    made = np.empty(n, dtype=object)
    for row, document in enumerate(documents(n)):
        made[row] = document.split()
    return made


def counts(n: int) -> np.ndarray:
    """Counts, most of them 0."""
    rng = np.random.default_rng(n)
    return rng.poisson(0.7, (n, 8)).astype(np.float64)


def tables(n: int) -> pd.DataFrame:
    """Texts beside numbers."""
    table = pd.DataFrame(rows(n)[:, :2], columns=["count", "decimal"])
    table.insert(1, "text", documents(n))
    return table


def fit(
    estimator: Any, made: Callable[[int], Any] = documents, y: str = "three_text"
) -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    return lambda: estimator.fit(made(SIZE), target(y))


@cache
def _shares(n: int) -> np.ndarray:
    shares = 1 / np.arange(1, n + 1)
    return shares / shares.sum()


def vectorizers() -> Iterator[Case]:
    """Texts to sparse rows."""
    name, case = (
        "sklearn.feature_extraction.text.{}".format,
        partial(Case, kind="elementwise", rows=documents),
    )
    count, weigh, hashed = (
        text.CountVectorizer,
        text.TfidfVectorizer,
        partial(text.HashingVectorizer, n_features=64),
    )
    yield case(name("CountVectorizer"), "words", fit(count()))
    yield case(
        name("CountVectorizer"),
        "n-grams, binary, float32",
        fit(count(ngram_range=(1, 2), binary=True, dtype=np.float32)),
    )
    yield case(
        name("CountVectorizer"),
        "a vocabulary, int32",
        fit(
            count(vocabulary={"cat": 1, "the": 0, "déjà vu": 2}, ngram_range=(1, 2), dtype=np.int32)
        ),
    )
    yield case(
        name("CountVectorizer"),
        "stop words, rare and frequent terms",
        fit(count(stop_words="english", min_df=3, max_df=0.9, max_features=5)),
    )
    yield case(name("TfidfVectorizer"), "words", fit(weigh()))
    yield case(
        name("TfidfVectorizer"),
        "sublinear, l1, float32",
        fit(weigh(sublinear_tf=True, norm="l1", smooth_idf=False, dtype=np.float32)),
    )
    yield case(
        name("TfidfVectorizer"),
        "characters, no norm",
        fit(weigh(analyzer="char", ngram_range=(2, 3), norm=None, strip_accents="unicode")),
    )
    yield case(
        name("TfidfVectorizer"),
        "characters of words, no idf",
        fit(weigh(analyzer="char_wb", ngram_range=(1, 4), use_idf=False, lowercase=False)),
    )
    yield case(name("HashingVectorizer"), "l2", fit(hashed()))
    yield case(
        name("HashingVectorizer"),
        "l1, binary, float32",
        fit(hashed(norm="l1", binary=True, alternate_sign=False, dtype=np.float32)),
    )
    yield case(
        name("HashingVectorizer"),
        "no norm, ints",
        fit(hashed(norm=None, dtype=np.int64, strip_accents="ascii", token_pattern=r"\w+")),
    )
    counted = partial(Case, name("TfidfTransformer"), kind="elementwise", rows=counts)
    yield counted("l2", fit(text.TfidfTransformer(), counts))
    yield counted("sublinear, l1", fit(text.TfidfTransformer(sublinear_tf=True, norm="l1"), counts))
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
    name, case = (
        "sklearn.feature_extraction.{}".format,
        partial(Case, kind="elementwise", rows=mappings),
    )
    mapped, hashed = feature_extraction.DictVectorizer, feature_extraction.FeatureHasher
    yield case(name("DictVectorizer"), "sparse", fit(mapped(), mappings))
    yield case(
        name("DictVectorizer"),
        "dense, float32, unsorted",
        fit(mapped(sparse=False, dtype=np.float32, separator=": ", sort=False), mappings),
    )
    yield case(name("FeatureHasher"), "mappings", fit(hashed(16), mappings))
    yield case(
        name("FeatureHasher"),
        "names, float32",
        fit(hashed(16, input_type="string", dtype=np.float32, alternate_sign=False), tokens),
        rows=tokens,
    )


def models() -> Iterator[Case]:
    """Models behind vectorizers: linear ones read the entries alone, others the rows written out."""
    case = partial(Case, "sklearn.pipeline.Pipeline", rows=documents)
    weighed = text.TfidfVectorizer
    yield case("text, logistic regression", fit(make_pipeline(weighed(), LogisticRegression())))
    yield case(
        "text, sgd, two classes",
        fit(
            make_pipeline(
                text.HashingVectorizer(n_features=2**18),
                SGDClassifier(loss="log_loss", random_state=0),
            ),
            y="two",
        ),
    )
    selected = make_pipeline(
        weighed(sublinear_tf=True),
        SelectKBest(chi2, k=9),
        StandardScaler(with_mean=False),
        LinearSVC(random_state=0),
    )
    yield case("text, selected and scaled, linear svc", fit(selected))
    yield case(
        "counts, weighed apart",
        fit(make_pipeline(text.CountVectorizer(), text.TfidfTransformer(), LogisticRegression())),
    )
    yield case("text, projected", fit(make_pipeline(weighed(), TruncatedSVD(3, random_state=0))))
    yield case(
        "text, trees",
        fit(
            make_pipeline(
                text.CountVectorizer(), RandomForestClassifier(5, max_depth=4, random_state=0)
            )
        ),
        kind="trees",
    )
    union = FeatureUnion(
        [
            ("words", weighed()),
            ("characters", text.CountVectorizer(analyzer="char", ngram_range=(2, 2))),
        ],
        transformer_weights={"words": 3.0},
    )
    yield case("texts read twice", fit(make_pipeline(union, LogisticRegression())))
    yield case(
        "mappings",
        fit(make_pipeline(feature_extraction.DictVectorizer(), LogisticRegression()), mappings),
        rows=mappings,
    )
    parts = [("text", weighed(), "text"), ("numbers", StandardScaler(), ["count", "decimal"])]
    yield case(
        "text beside numbers",
        fit(make_pipeline(ColumnTransformer(parts), LogisticRegression()), tables),
        rows=tables,
    )
    yield Case(
        "sklearn.compose.ColumnTransformer",
        "text beside numbers",
        fit(ColumnTransformer(parts, remainder="drop"), tables),
        rows=tables,
    )


CASES = (*vectorizers(), *features(), *models())
