"""Encoders of numbers and texts, labels as zeros and ones, target means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matrix.case import Case
from matrix.data import WIDTH, draw, fit_rows, fit_table, table_rows, target
from matrix.fitting import Entries
from sklearn import preprocessing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.preprocessing import (
    LabelBinarizer,
    MultiLabelBinarizer,
    TargetEncoder,
)


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


def counts(n: int) -> np.ndarray:
    """Two columns of whole numbers, some of them never seen."""
    return np.random.default_rng(n).integers(0, 9, (n, 2)).astype(np.float64)


def seen(n: int) -> np.ndarray:
    """One column of two whole numbers."""
    return counts(n)[:, :1] % 2


def flags(n: int) -> np.ndarray:
    """Three columns of zeros and ones."""
    return np.random.default_rng(n).integers(0, 2, (n, 3)).astype(np.float64)


def label_encoders() -> Iterator[Case]:
    """Labels as zeros and ones."""
    case = partial(Case, "sklearn.preprocessing.LabelBinarizer", kind="elementwise")
    yield case(
        "six classes",
        lambda: LabelBinarizer(neg_label=-1, pos_label=2).fit(np.arange(6)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "sparse",
        lambda: LabelBinarizer(sparse_output=True).fit(np.arange(3)),
        rows=lambda n: counts(n)[:, :1],
    )
    yield case(
        "two classes, 0 for the second",
        lambda: LabelBinarizer(neg_label=-1, pos_label=0).fit([0, 1]),
        rows=seen,
    )
    yield case(
        "one class", lambda: LabelBinarizer().fit([4, 4]), rows=lambda n: np.full((n, 1), 4.0)
    )
    yield case(
        "several labels", lambda: LabelBinarizer(neg_label=-3).fit(flags(9).astype(int)), rows=flags
    )


def label_sets(n: int) -> np.ndarray:
    """Sets of labels, some of them empty, some labels never seen and some met twice."""
    rng = np.random.default_rng(n)
    made = np.empty(n, dtype=object)
    made[:] = [
        tuple(rng.choice(["red", "green", "blue", "mauve"], rng.integers(0, 4))) for _ in range(n)
    ]
    return made


def label_set_encoders() -> Iterator[Case]:
    """Sets of labels as zeros and ones."""
    case = partial(
        Case, "sklearn.preprocessing.MultiLabelBinarizer", kind="elementwise", rows=label_sets
    )
    yield case("dense", lambda: MultiLabelBinarizer().fit([{"red", "blue"}, {"green"}]))
    yield case(
        "sparse, in another order",
        lambda: MultiLabelBinarizer(classes=["red", "blue"], sparse_output=True).fit([["blue"]]),
    )


def fit_colours(y: str, **settings: Any) -> Callable[[], Any]:
    """Return a function that fits a target encoder on two text columns, one of them with
    missing values.
    """
    return lambda: TargetEncoder(random_state=0, **settings).fit(colours(fit_table()), target(y))


def colours(table: pd.DataFrame) -> pd.DataFrame:
    """Two text columns."""
    return table[["colour", "size"]].replace("S", None)


def colour_rows(n: int) -> pd.DataFrame:
    """New rows of two text columns."""
    return colours(table_rows(n))


def target_encoders() -> Iterator[Case]:
    """Encoders by the mean target."""
    case = partial(Case, "sklearn.preprocessing.TargetEncoder", kind="elementwise")
    yield case(
        "regression",
        lambda: TargetEncoder(random_state=0).fit(fit_rows()[:, [0, 4]], target("value")),
        rows=counts,
    )
    yield case("binary, missing values", fit_colours("two_text"), rows=colour_rows)
    yield case("classes, smooth", fit_colours("three_text", smooth=3.0), rows=colour_rows)


CASES = (
    *encoders(),
    *label_encoders(),
    *label_set_encoders(),
    *target_encoders(),
)
