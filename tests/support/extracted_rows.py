"""Sparse rows that the host makes, beside those of a vectorizer."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np

from hbconv.containers import Entries, topological
from hbconv.containers.extractors import Extractor
from hbconv.parse import parse
from hbconv.runtime.inputs.records import read_items
from hbconv.runtime.text import counters, grams, term_table, vectorize
from hbconv.runtime.text.vectorize import extract

__all__ = ["agree", "extractor_of", "rows_of"]


def extractor_of(estimator: Any) -> Extractor:
    """Return what the parser reads from a vectorizer."""
    (entries,) = (n for n in topological(parse(estimator).output_roots) if isinstance(n, Entries))
    return entries.extractor


def rows_of(x: Any, estimator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the parts of the CSR matrix made of x."""
    return extract(read_items(x).read(0), extractor_of(estimator), "Column 0")


WAYS = {
    "few, by their names": (10**9, 10**9),
    "many, by their names": (10**9, 0),
    "few, all at once": (0, 10**9),
    "many, all at once": (0, 0),
}
"""Characters from which on n-grams become no names; features, characters and keys that are few."""


def agree(estimator: Any, x: Any) -> None:
    """Assert the same entries in the same dtype as the estimator's, whatever way they are found:
    by the kernel, and by each way of numpy.
    """
    want = estimator.transform(x)
    want = want.copy() if hasattr(want, "toarray") else None
    assert want is not None
    want.sum_duplicates()
    with mock.patch.object(counters, "MANY", 0):
        same(want, rows_of(x, estimator), "by the kernel")
    for way, (many, few) in WAYS.items():
        with (
            mock.patch.object(vectorize, "counter_of", return_value=None),
            mock.patch.object(grams, "MANY", dict.fromkeys(grams.MANY, many)),
            mock.patch.object(vectorize, "FEW", few),
            mock.patch.object(grams, "FEW", few),
            mock.patch.object(term_table, "FEW", few),
        ):
            got = rows_of(x, estimator)
        same(want, got, way)


def same(want: Any, got: tuple[np.ndarray, np.ndarray, np.ndarray], way: str) -> None:
    """Assert the entries of a matrix, and their dtype."""
    starts, columns, values = got
    assert values.dtype == want.dtype, way
    np.testing.assert_array_equal(starts, want.indptr, way)
    np.testing.assert_array_equal(columns, want.indices, way)
    np.testing.assert_array_equal(values, want.data, way)
