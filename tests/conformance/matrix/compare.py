"""Compare an answer with the source's: the same form, shape and dtype, values within tolerance,
labels unless scores tie.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from matrix.case import Case, fitted
from sources import dense
from tolerances import allowed, precision

__all__ = ["answers", "ask", "compare", "compare_values"]


def ask(case: Case, method: str, x: Any) -> Any:
    """Ask the source, whatever it warns of."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = case.ask(fitted(case), method, x)
        return list(answer) if isinstance(answer, Iterator) else answer


def answers(case: Case, method: str, x: Any) -> bool:
    """Return whether the source takes these rows; vectorizers fail on a row that is no text or
    no mapping, and on no rows in ways of their own.
    """
    try:
        ask(case, method, x)
    except Exception:
        return False
    return True


def compare(case: Case, method: str, x: Any, got: Any) -> float:
    """Compare an answer with the source's; return the largest difference, as a share of what is
    allowed.

    No rows give what the source does. Where it refuses them, they give no rows, of the right width
    and dtype: a model that scores batches need not refuse.
    """
    if len(x):
        want = ask(case, method, x)
        assert hasattr(got, "toarray") == hasattr(want, "toarray"), "sparse or not"
        assert (isinstance(got, list | Iterator), isinstance(got, tuple)) == (
            isinstance(want, list),
            isinstance(want, tuple),
        ), "of the same form"
        return _near(case, method, x, dense(got), dense(want))
    if method == "radius_neighbors":  # Lists of no rows have no width.
        assert [part.shape for part in got] == [(0,), (0,)]
        return 0.0
    return compare_values(case, method, x, dense(got))


def compare_values(case: Case, method: str, x: Any, got: np.ndarray) -> float:
    """Compare an answer laid out as one array with the source's; return the largest difference,
    as a share of what is allowed.
    """
    want = (
        dense(ask(case, method, x))
        if len(x) or answers(case, method, x)
        else dense(ask(case, method, case_rows_like(case, x)))[:0]
    )
    return _near(case, method, x, got, want)


def _near(case: Case, method: str, x: Any, got: np.ndarray, want: np.ndarray) -> float:
    if got.dtype == object:  # As ONNX Runtime returns text of any width.
        got = got.astype(str).astype(object)
        want = want.astype(str).astype(object)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), (
        method,
        got.shape,
        want.shape,
        got.dtype,
        want.dtype,
    )
    if len(x) == 0:
        return 0.0
    if want.dtype.kind != "f":
        wrong = got != want
        assert not (wrong & ~undecided(case, x, wrong)).any(), (
            f"{method}: rows {np.flatnonzero(wrong)[:9]}"
        )
        return 0.0
    if (
        method == "predict_log_proba"
    ):  # The logarithm of a probability near 0 magnifies its rounding without bound.
        got = np.exp(got)
        want = np.exp(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    limit = allowed(case.kind, precision(x, want), x, want)
    if method == "predict_std":
        limit = np.maximum(limit, _rounding_of_deviations(case, x, want))
    with np.errstate(invalid="ignore"):
        share = np.where(same, 0.0, np.abs(got - want) / limit)
    far = ~(share <= 1)
    assert not far.any(), (
        f"{method}: {far.sum()} of {far.size} entries, such as {got[far][:3]} for {want[far][:3]}"
    )
    return float(share.max(initial=0.0))


def _rounding_of_deviations(case: Case, x: Any, want: np.ndarray) -> np.ndarray:
    """How far deviations of a process are apart for the rounding of its variances.

    A deviation is the root of what is left of the variance of a row before any is fitted, which the
    source computes in the dtype of the rows, and rounds in an order of its own.
    """
    process = fitted(case)
    if not hasattr(process, "kernel_"):
        return np.zeros_like(want)
    rows = np.asarray(x)
    prior = process.kernel_.diag(rows.astype(np.float64)).reshape(-1, *[1] * (want.ndim - 1))
    dtype = "float32" if rows.dtype == np.float32 else "float64"
    rounding = 8 * np.finfo(dtype).eps * prior * process._y_train_std**2
    return np.sqrt(want**2 + rounding) - want


def case_rows_like(case: Case, x: Any) -> Any:
    """Rows of the dtypes of x: two, since a source may answer a single one in another shape."""
    rows = case.rows(2)
    return rows.astype(x.dtypes if hasattr(x, "dtypes") else x.dtype)


def undecided(case: Case, x: Any, wrong: np.ndarray) -> np.ndarray:
    """Entries whose two best scores tie within the tolerance, so that rounding decides the
    label.
    """
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
