"""Columns read by transformers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matrix.case import Case
from matrix.data import table_rows
from matrix.fitting import fit
from matrix.tables import encode, fit_mixed
from matrix.texts import fit_texts, tables, text_beside_numbers
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    MinMaxScaler,
    OrdinalEncoder,
    StandardScaler,
)


def text_columns() -> Iterator[Case]:
    """Texts beside numbers."""
    yield Case(
        "sklearn.compose.ColumnTransformer",
        "text beside numbers",
        fit_texts(ColumnTransformer(text_beside_numbers(), remainder="drop"), tables),
        rows=tables,
    )


def columns() -> Iterator[Case]:
    """ColumnTransformer by names, positions, slices, masks and selectors."""
    case = partial(Case, "sklearn.compose.ColumnTransformer", kind="elementwise")
    yield case(
        "positions, remainder",
        fit(
            ColumnTransformer(
                [("a", StandardScaler(), [2, 0]), ("b", MinMaxScaler(), [-1])],
                remainder="passthrough",
            )
        ),
    )
    yield case(
        "slice, mask, drop",
        fit(
            ColumnTransformer(
                [
                    ("a", StandardScaler(), slice(1, 4)),
                    ("b", "drop", [0]),
                    ("c", "passthrough", np.arange(8) == 5),
                ]
            )
        ),
    )
    yield case(
        "remainder estimator",
        fit(ColumnTransformer([("a", "passthrough", [1])], remainder=MinMaxScaler())),
    )
    yield case("names", fit_mixed(encode(SimpleImputer())), rows=table_rows)
    by_type = [
        ("n", SimpleImputer(), make_column_selector(dtype_include="number")),
        ("t", ordinal(), make_column_selector(dtype_exclude="number")),
    ]
    yield case("selectors", fit_mixed(ColumnTransformer(by_type)), rows=table_rows)


def ordinal() -> OrdinalEncoder:
    """Return an encoder that takes unknown text."""
    return OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)


CASES = (*text_columns(), *columns())
