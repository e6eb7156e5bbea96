"""Every estimator on every backend, in both dtypes, for none, one, few and many rows, against the fitted estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from matrix.case import Case, as_dtype, fitted
from matrix.estimators import CASES, first_settings
from matrix.tolerances import allowed, precision
from sources import dense

import hbconv
from hbconv.backends import backend_names
from hbconv.errors import InputError
from hbconv.parse import parser_names

EVERY_SETTING = ("reference", "torch")
"""Backends that run every setting; the others, slower to compile, run the first of each estimator that is not read as another is."""

ROWS = (1000, 0, 1, 7)


def _pairs() -> list[Any]:
    firsts = {case for case in first_settings() if not case.same_as}
    return [pytest.param(case, b, id=f"{case}-{b}") for case in CASES for b in backend_names() if b in EVERY_SETTING or case in firsts]


def test_table_has_every_estimator() -> None:
    """No parser without a row, no row without a parser."""
    assert {case.estimator for case in CASES} == set(parser_names())


def test_settings_are_named_once() -> None:
    """Each case can be named on the command line."""
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("case", "backend"), _pairs())
def test_answers_as_the_source(case: Case, backend: str, dtype: str, n: int) -> None:
    """The same methods; the same values within tolerance, labels exactly; the same shapes and dtypes."""
    x = as_dtype(case.rows(n), dtype)
    for method in case.names:
        got = getattr(_compiled(case, backend), method)(x)
        compare(case, method, x, got)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_has_the_methods_of_the_source(case: Case) -> None:
    """No method more, none less."""
    assert set(_compiled(case, "reference").graph.outputs) == set(case.names)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_takes_integers(case: Case) -> None:
    """Whole numbers are computed with as the source does, in its dtypes; some settings of the source take none."""
    x = as_dtype(case.rows(7), "int64") if not hasattr(case.rows(1), "columns") else case.rows(7)
    for method in case.names:
        if answers(case, method, x):
            compare(case, method, x, getattr(_compiled(case, "reference"), method)(x))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_refuses_what_the_source_refuses(case: Case, bad: float) -> None:
    """NaN and infinite values are refused where the source's first method refuses them, else answered as it does.

    A model refuses rows for all its methods alike. In the source, ``apply`` differs from ``predict`` here and there: it lets
    NaN pass in GradientBoostingRegressor, and stops infinity in XGBoost.
    """
    x = as_dtype(case.rows(20), "float64").copy()
    if hasattr(x, "columns"):
        x.iloc[3:20:2, x.shape[1] // 2 - 1 :: -1] = bad if x.dtypes.iloc[0].kind == "f" else x.iloc[0, 0]
    else:
        x[3:20:2, ::3] = bad
    refused = not answers(case, case.names[0], x)
    for method in case.names:
        answer = getattr(_compiled(case, "reference"), method)
        if refused:
            with pytest.raises(InputError):
                answer(x)
        elif answers(case, method, x):
            compare(case, method, x, answer(x))


@cache
def _compiled(case: Case, backend: str) -> Any:
    return hbconv.convert(fitted(case), backend=backend)


def ask(case: Case, method: str, x: Any) -> Any:
    """Ask the source, whatever it warns of."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = case.ask(fitted(case), method, x)
        return list(answer) if isinstance(answer, Iterator) else answer


def answers(case: Case, method: str, x: Any) -> bool:
    """Return whether the source takes these rows."""
    try:
        ask(case, method, x)
    except ValueError:
        return False
    return True


def compare(case: Case, method: str, x: Any, got: Any) -> None:
    """Compare an answer with the source's.

    No rows give no rows, of the right width and dtype: where the source refuses them, a model that scores batches need not.
    """
    if len(x) == 0:
        want = dense(ask(case, method, case_rows_like(case, x)))[:0]
    else:
        want = ask(case, method, x)
        assert hasattr(got, "toarray") == hasattr(want, "toarray"), "sparse or not"
        assert (isinstance(got, list | Iterator), isinstance(got, tuple)) == (isinstance(want, list), isinstance(want, tuple)), "of the same form"
        want = dense(want)
    got = dense(got)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (method, got.shape, want.shape, got.dtype, want.dtype)
    if len(x) == 0:
        return
    if want.dtype.kind != "f":
        wrong = got != want
        assert not (wrong & ~undecided(case, x, wrong)).any(), f"{method}: rows {np.flatnonzero(wrong)[:9]}"
        return
    if method.endswith("log_proba"):  # The logarithm of a probability near 0 magnifies its rounding without bound.
        got, want = np.exp(got), np.exp(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= allowed(case.kind, precision(x, want), x, want)
    far = ~(same | near)
    assert not far.any(), f"{method}: {far.sum()} of {far.size} entries, such as {got[far][:3]} for {want[far][:3]}"


def case_rows_like(case: Case, x: Any) -> Any:
    """One row, of the dtypes of x."""
    row = case.rows(1)
    return row.astype(x.dtypes if hasattr(x, "dtypes") else x.dtype)


def undecided(case: Case, x: Any, wrong: np.ndarray) -> np.ndarray:
    """Entries whose two best scores tie within the tolerance, so that rounding decides the label."""
    method = next((m for m in ("decision_function", "predict_proba") if m in case.names), None)
    if method is None or not wrong.any():
        return np.zeros_like(wrong)
    scores = dense(ask(case, method, x))
    limit = allowed(case.kind, precision(x, scores), x, scores)
    if scores.ndim == 1:
        return np.abs(scores) <= limit
    if wrong.ndim == 2:
        return np.abs(scores - (0.5 if method == "predict_proba" else 0.0)) <= limit
    best = np.sort(scores, axis=1)[:, -2:]
    return best[:, 1] - best[:, 0] <= limit[:, 0]
