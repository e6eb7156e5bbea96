"""Documents, mappings and lists of names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matrix.data import SIZE, rows, target
from sklearn.feature_extraction import text
from sklearn.preprocessing import StandardScaler

__all__ = [
    "UNSEEN",
    "WORDS",
    "counts",
    "documents",
    "fit_texts",
    "mappings",
    "tables",
    "text_beside_numbers",
    "tokens",
]

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
    """Texts of 0 to 30 words, some often and some never seen in fitting; the second of more
    than one is empty.
    """
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


def fit_texts(
    estimator: Any, made: Callable[[int], Any] = documents, y: str = "three_text"
) -> Callable[[], Any]:
    """Return a function that fits the estimator."""
    return lambda: estimator.fit(made(SIZE), target(y))


@cache
def _shares(n: int) -> np.ndarray:
    shares = 1 / np.arange(1, n + 1)
    return shares / shares.sum()


def text_beside_numbers() -> list[Any]:
    """Return transformers of a text column and of two number columns."""
    numbers = ("numbers", StandardScaler(), ["count", "decimal"])
    return [("text", text.TfidfVectorizer(), "text"), numbers]
