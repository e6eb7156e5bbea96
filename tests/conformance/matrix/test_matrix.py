"""Every estimator on every backend, in both dtypes, for none, one, few and many rows, against
the fitted estimator. An ordinary run takes a share of these cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matrix.case import Case, as_dtype, fitted
from matrix.compare import answers, compare
from matrix.compiled import compiled
from matrix.estimators import case_names, first_names

import hbconv
from hbconv.backends import backend_names
from hbconv.errors import InputError
from hbconv.names import EXPLANATIONS
from hbconv.parse import parser_names
from hbconv.parse.registry import find_entry

FIRST = dict.fromkeys(backend_names(), "case") | {"torch": "light"}
FURTHER = {"reference": "light", "torch": "case"}
"""Backends of the first and of further settings, and the share that an ordinary run takes.

The reference answers every first setting. A setting that is read as another is goes with the
further ones.
"""

ROWS = (1000, 0, 1, 7)


def _combinations() -> Iterator[Any]:
    firsts = {name for name in first_names() if not name.same_as}
    for name in case_names():
        backends = FIRST if name in firsts else FURTHER
        for backend, share in backends.items():
            always = name in firsts and backend == "reference"
            marks = () if always else pytest.mark.share(share)
            yield pytest.param(name, backend, id=f"{name}-{backend}", marks=marks)


JUDGED_ELSEWHERE = {
    "hbconv.Model",
    "hbconv.parse.spark.saved_model.SparkModel",
    "hbconv.parse.treelite.StoredModel",
}
"""Models of files and converted ones: ``tests/unit/parse`` and ``tests/unit/sources/test_model_files.py``."""


def test_table_has_every_estimator() -> None:
    """No parser without a row, no row without a parser."""
    assert {name.estimator for name in case_names()} == set(parser_names()) - JUDGED_ELSEWHERE


def test_cases_stand_where_their_parser_does() -> None:
    """A module of cases has the name of the module of parsers, or of its folder."""
    parsers = {(name.module, find_entry(name.estimator).parse.__module__) for name in case_names()}
    assert [
        (module, parser)
        for module, parser in parsers
        if not f"{parser}.".startswith(f"hbconv.parse.{module}.")
    ] == []


def test_settings_are_named_once() -> None:
    """Each case can be named on the command line."""
    assert len({str(name) for name in case_names()}) == len(case_names())


@pytest.mark.parametrize(("case", "backend"), [*_combinations()], indirect=["case"])
def test_answers_as_the_source(case: Case, backend: str) -> None:
    """The same methods; the same values within tolerance, labels exactly; the same shapes and
    dtypes, for each number of rows, in both dtypes.
    """
    for dtype in ("float64", "float32"):
        model = compiled(case, backend, dtype)
        for n in ROWS:
            x = as_dtype(case.rows(n), dtype)
            if dtype not in case.dtypes:
                _both_refuse(case, model, x)
                continue
            for method in case.names:
                compare(case, method, x, getattr(model, method)(x))


def _both_refuse(case: Case, model: hbconv.Model, x: Any) -> None:
    """Both refuse rows of this dtype, where there are any."""
    answer = getattr(model, case.names[0])
    if len(x) == 0:
        assert len(answer(x)) == 0
        return
    assert not answers(case, case.names[0], x)
    with pytest.raises(InputError):
        answer(x)


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_has_the_methods_of_the_source(case: Case) -> None:
    """No method more, none less."""
    outputs = compiled(case, "reference").graph.outputs
    assert set(outputs) - {*EXPLANATIONS} == set(case.names)


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_takes_integers(case: Case) -> None:
    """Whole numbers are computed with as the source does, in its dtypes; some settings of the
    source take none.
    """
    x = as_dtype(case.rows(7), "int64") if not hasattr(case.rows(1), "columns") else case.rows(7)
    for method in case.names:
        if answers(case, method, x):
            compare(case, method, x, getattr(compiled(case, "reference"), method)(x))


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_computes_in_float32(case: Case) -> None:
    """``precision="fast"`` takes every node, and answers where the exact program does."""
    fast = hbconv.convert(fitted(case), "reference", precision="fast")
    x = case.rows(7)
    for method in case.names:
        if answers(case, method, x):
            exact = getattr(compiled(case, "reference"), method)(x)
            found = getattr(fast, method)(x)
            assert type(found) is type(exact)
            assert getattr(found, "shape", None) == getattr(exact, "shape", None)


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_a_program_answers_narrower_rows_as_the_source(case: Case) -> None:
    """Rows that are converted to the dtype of a program are answered as the source does."""
    if "float64" not in case.dtypes:
        return
    wide = hbconv.convert(fitted(case), "reference", on_new_dtypes="refuse")
    for dtype in ("float32", "int64"):
        if dtype == "int64" and hasattr(case.rows(1), "columns"):
            continue
        x = as_dtype(case.rows(7), dtype)
        for method in case.names:
            if not answers(case, method, x):
                continue
            getattr(wide, method)(case.rows(7))
            found = _unless_refused(wide, method, x)
            if found is not None:
                compare(case, method, x, found)


def _unless_refused(model: hbconv.Model, method: str, x: Any) -> Any:
    try:
        return getattr(model, method)(x)
    except InputError:
        return None


@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_takes_half_precision_or_refuses_it(case: Case) -> None:
    """Rows of float16 are computed with as the source does, or refused where it computes in
    float16 itself.
    """
    x = as_dtype(case.rows(20), "float16")
    if hasattr(x, "columns"):
        x = x.where(
            ~np.isinf(x.select_dtypes("float16")).reindex(columns=x.columns, fill_value=False), 1.0
        )
    elif x.dtype == np.float16:
        x[np.isinf(x)] = 1.0
    for method in case.names:
        if answers(case, method, x):
            try:
                got = getattr(compiled(case, "reference"), method)(x)
            except InputError:
                continue
            compare(case, method, x, got)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("case", case_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_refuses_what_the_source_refuses(case: Case, bad: float) -> None:
    """NaN and infinite values are refused where the source's first method refuses them, else
    answered as it does.

    A model refuses rows for all its methods alike. In the source, ``apply`` differs from
    ``predict`` here and there: it lets NaN pass in GradientBoostingRegressor, and stops infinity
    in XGBoost.
    """
    x = as_dtype(case.rows(20), "float64").copy()
    if hasattr(x, "columns"):
        x.iloc[3:20:2, x.shape[1] // 2 - 1 :: -1] = (
            bad if x.dtypes.iloc[0].kind == "f" else x.iloc[0, 0]
        )
    else:
        x[(slice(3, 20, 2), slice(None, None, 3))[: x.ndim]] = bad
    refused = not answers(case, case.names[0], x)
    for method in case.names:
        answer = getattr(compiled(case, "reference"), method)
        if refused:
            with pytest.raises(InputError):
                answer(x)
        elif answers(case, method, x):
            compare(case, method, x, answer(x))
