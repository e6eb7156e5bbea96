"""``inverse_transform`` of every estimator that has it, on every backend, against the estimator.

Its rows are those that ``transform`` of the fitted estimator returns.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from matrix.case import Case, as_dtype, fitted
from matrix.compiled import compiled
from matrix.estimators import case_names
from sources import dense
from tolerances import allowed, precision

from hbconv.backends import backend_names
from hbconv.parse import parser_names
from hbconv.parse.inverses import inverse_names

INVERTED = tuple(name for name in case_names() if name.estimator in inverse_names())
ROWS = (20, 1, 0)


def _backends(case: Case) -> list[str]:
    """Run every setting on the reference, and the first that is inverted on all backends."""
    settings = (name.made() for name in INVERTED if name.estimator == case.estimator)
    return backend_names() if case is next(filter(_is_inverted, settings)) else ["reference"]


def _is_inverted(case: Case) -> bool:
    return compiled(case, "reference").parsed.inverse is not None


def _transformed(case: Case, n: int, dtype: str) -> Any:
    """Return what ``transform`` gives for rows, or for no rows none of them."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = fitted(case).transform(as_dtype(case.rows(max(n, 2)), dtype))
    return made[:n]


def _ask(case: Case, x: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return fitted(case).inverse_transform(x.copy())


def _compare(case: Case, x: Any, got: Any) -> None:
    want = _ask(case, x)
    assert type(got) is type(want) or isinstance(want, np.ndarray)
    assert hasattr(got, "tocsr") == hasattr(want, "tocsr")
    if isinstance(want, list):
        assert [_plain(item) for item in got] == [_plain(item) for item in want]
        return
    got, want = dense(got), dense(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if want.dtype.kind not in "fc":
        assert np.array_equal(got, want)
        return
    limit = allowed(case.kind, precision(dense(x), want), dense(x), want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore"):
        assert (same | (np.abs(got - want) <= limit)).all()


def _plain(item: Any) -> Any:
    return item.tolist() if isinstance(item, np.ndarray) else item


def test_every_inverse_is_read() -> None:
    """Each estimator with the method has a reader, though that may refuse it."""
    import sklearn.experimental.enable_halving_search_cv
    import sklearn.experimental.enable_iterative_imputer  # noqa: F401

    for name in parser_names():
        module, _, attribute = name.rpartition(".")
        if module.startswith("sklearn."):
            cls = getattr(importlib.import_module(module), attribute, None)
            if cls is not None and "inverse_transform" in dir(cls):
                assert name in inverse_names()


@pytest.mark.parametrize("case", INVERTED, ids=str, indirect=True)
def test_an_inverse_is_answered_or_refused_by_name(case: Case) -> None:
    """A model has the method where its source has it, or says why it has not."""
    model = compiled(case, "reference")
    has = hasattr(fitted(case), "inverse_transform")
    refused = model.parsed.refused.get("inverse_transform", "")
    assert hasattr(model, "inverse_transform") == (has and not refused)
    assert not refused or type(fitted(case)).__name__ in refused


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", INVERTED, ids=str, indirect=True)
@pytest.mark.share("light")
def test_inverts_as_the_source(case: Case, dtype: str) -> None:
    """The same values, shapes, dtypes and forms, for few rows, one and none."""
    if dtype not in case.dtypes or not _is_inverted(case):
        return
    for backend in _backends(case):
        model = compiled(case, backend)
        for n in ROWS:
            x = _transformed(case, n, dtype)
            got = model.inverse_transform(x)
            if n:
                _compare(case, x, got)
            else:
                assert (len(got) if isinstance(got, list) else got.shape[0]) == 0
