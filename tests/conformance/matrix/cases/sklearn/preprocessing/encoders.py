"""Encoders of numbers and of text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from matrix.case import Case
from matrix.data import WIDTH, draw, fit_table, table_rows
from matrix.fitting import Entries
from sklearn import preprocessing


def small_counts(n: int) -> np.ndarray:
    """Whole numbers from 0 to 7, of which the last two were not seen in fitting."""
    return np.random.default_rng(n).integers(0, 8, (n, WIDTH)).astype(np.float64)


def seen_counts(n: int) -> np.ndarray:
    """Whole numbers from 0 to 5, all seen in fitting."""
    return small_counts(n) % 6


def text_rows(n: int) -> Any:
    """Text columns, with a colour never seen."""
    return table_rows(n)[["colour", "size"]]


def seen_text(n: int) -> Any:
    """Text columns, all seen in fitting."""
    return text_rows(n).replace({"mauve": "red"})


def encoders() -> Iterator[Case]:
    """Encoders of numbers and of text."""
    name = "sklearn.preprocessing.{}".format
    p = preprocessing
    counts = draw(np.random.default_rng(0), 200)[:, [0]].repeat(WIDTH, axis=1)
    text = fit_table()[["colour", "size"]]
    one_hot = partial(Entries, name("OneHotEncoder"))
    ordinal = partial(Entries, name("OrdinalEncoder"))
    yield one_hot(
        "text, unknown ignored",
        lambda: p.OneHotEncoder(handle_unknown="ignore").fit(text),
        rows=text_rows,
    )
    yield one_hot("text, error", lambda: p.OneHotEncoder().fit(text), rows=seen_text)
    yield one_hot(
        "text, dense, drop first",
        lambda: p.OneHotEncoder(drop="first", sparse_output=False).fit(text),
        rows=seen_text,
    )
    yield one_hot(
        "text, infrequent",
        lambda: p.OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist").fit(text),
        rows=text_rows,
    )
    yield one_hot(
        "numbers, unknown ignored",
        lambda: p.OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(counts),
        rows=small_counts,
    )
    yield one_hot(
        "numbers, min frequency, float32 out", partial(_frequent, counts), rows=small_counts
    )
    yield ordinal("text, error", lambda: p.OrdinalEncoder().fit(text), rows=seen_text)
    yield ordinal(
        "text, unknown -1",
        lambda: p.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(text),
        rows=text_rows,
    )
    yield ordinal(
        "numbers", lambda: p.OrdinalEncoder(dtype=np.float32).fit(counts), rows=seen_counts
    )
    labels = partial(Entries, name("LabelEncoder"), ask=_ask_labels, methods=("transform",))
    yield labels(
        "numbers", lambda: p.LabelEncoder().fit(counts[:, 0]), rows=lambda n: seen_counts(n)[:, :1]
    )


def _frequent(counts: np.ndarray) -> Any:
    encoder = preprocessing.OneHotEncoder(
        min_frequency=0.15,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        dtype=np.float32,
    )
    return encoder.fit(counts)


def _ask_labels(estimator: Any, method: str, x: Any) -> Any:
    return getattr(estimator, method)(x[:, 0])


CASES = (*encoders(),)
