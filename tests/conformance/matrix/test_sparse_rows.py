"""Every estimator that reads a matrix of floats, given a scipy matrix: the source's answer, in
its form, or both refuse.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from matrix.case import Case, fitted
from matrix.compare import allowed, precision
from matrix.estimators import case_names
from sources import ask, dense

import hbconv
from hbconv.errors import InputError

Rows = np.ndarray[Any, np.dtype[np.float64]]

REFUSED_HERE = (
    "has a kernel that",
    "takes for missing what",
    "takes the entries of",
    "LabelBinarizer",
    "numpy.square",
    "which no sparse matrix holds",
    "holds numbers alone",
)
"""What hbconv refuses by name and the source answers: it lacks sense, or needs every absent
entry told from a zero.
"""

ANSWERED_HERE = (
    "Buffer dtype mismatch",
    "not subscriptable",
    "DMatrix object",
    "CatBoost",
    "has no attribute",
    "scipy distance",
    "Unexpected input type",
)
"""What the source refuses for the dtype or class of rows alone, of which docs/fidelity.md tells."""


def _unsorted(x: Rows) -> Any:
    """Rows whose columns descend."""
    columns = [np.flatnonzero(row)[::-1] for row in x]
    starts = np.cumsum([0, *map(len, columns)])
    data = np.concatenate([row[c] for row, c in zip(x, columns, strict=True)])
    return sp.csr_matrix((data, np.concatenate(columns), starts), shape=x.shape)


def _stored_zeros(x: Rows) -> Any:
    """Rows in which every entry is stored."""
    columns = np.tile(np.arange(x.shape[1]), len(x))
    starts = np.arange(len(x) + 1) * x.shape[1]
    return sp.csr_matrix((x.ravel().copy(), columns, starts), shape=x.shape)


def _twice(x: Rows) -> Any:
    """Entries that each stand twice, at half their value."""
    rows, columns = np.nonzero(x)
    data = np.tile(x[rows, columns] / 2, 2)
    return sp.coo_matrix((data, (np.tile(rows, 2), np.tile(columns, 2))), shape=x.shape)


FORMS = {
    "csr": sp.csr_matrix,
    "csc": sp.csc_array,
    "array": sp.csr_array,
    "unsorted": _unsorted,
    "stored zeros": _stored_zeros,
    "twice": _twice,
}

MISREAD = {
    "FunctionTransformer": ("twice",),
    "PolynomialFeatures": ("unsorted",),
    "NearestCentroid": ("unsorted",),
    "NearestNeighbors[power 0.5]": ("unsorted",),
    "AdditiveChi2Sampler": ("stored zeros",),
    "QuantileTransformer": ("stored zeros",),
    "TfidfTransformer[sublinear, l1]": ("stored zeros",),
}
"""Forms of one matrix that the source itself answers differently: it looks at each entry, or
takes entries for sorted.
"""


@cache
def _rows(case: Case) -> Rows | None:
    x = case.rows(9)
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype != np.float64:
        return None
    return np.where(np.random.default_rng(0).random(x.shape) < 0.4, 0.0, x)


@cache
def _model(case: Case) -> Any:
    return hbconv.convert(fitted(case), "reference")


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("sweep")
def test_a_sparse_matrix_is_answered_as_the_source_does(case: Case) -> None:
    """Values, and the class and layout of a sparse answer; positive rows too, since some take
    no others.
    """
    x = _rows(case)
    if x is None:
        return  # It reads no matrix of floats.
    for values in (x, np.abs(x)):
        for name, make in FORMS.items():
            if any(
                str(case).startswith(known) and name in forms for known, forms in MISREAD.items()
            ):
                continue
            for method in case.names:
                _compare(case, method, values, make)


def _compare(case: Case, method: str, values: Rows, make: Any) -> None:
    answers = getattr(_model(case), method)
    try:
        want = _asked(case, method, make(values))
    except Exception as error:  # each library has its own
        if not any(known in repr(error) for known in ANSWERED_HERE) and method == case.names[0]:
            with pytest.raises(InputError):
                answers(make(values))
        return
    try:
        got = answers(make(values))
    except InputError as error:
        assert any(known in str(error) for known in REFUSED_HERE), error  # noqa: PT017
        return
    if hasattr(want, "tocsr"):
        assert type(got) is type(want)
    got = dense(got)
    want = dense(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    limit = np.broadcast_to(
        10 * allowed(case.kind, precision(values, want), values, want), want.shape
    )
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        assert (same | (np.abs(got - want) <= limit)).all()


def _asked(case: Case, method: str, x: Any) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = ask(fitted(case), method, x)
        return list(answer) if method.startswith("staged") else answer
