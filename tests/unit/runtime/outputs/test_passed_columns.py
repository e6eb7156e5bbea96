"""Columns that transform passes unchanged: handed on from the rows, without a run of a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from feature_engine import imputation, selection
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklego import preprocessing
from skrub import DropCols, SelectCols

import hbconv
from hbconv.errors import InputError
from hbconv.runtime.program import Program

RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame({name: RNG.normal(size=12) for name in "abcd"})
MIXED = NUMBERS.assign(
    i=np.arange(12), f=np.arange(12, dtype=np.float32), flag=np.arange(12) % 2 == 0
)
X = NUMBERS.to_numpy()

PASSING = {
    "some": (preprocessing.ColumnSelector(["c", "a"]), MIXED),
    "all": (preprocessing.ColumnSelector(list("abcd")), NUMBERS),
    "by type": (preprocessing.TypeSelector(include="number"), NUMBERS),
    "selected": (SelectCols(["f", "i", "b"]), MIXED),
    "kept": (DropCols(["b"]), MIXED),
    "not dropped": (selection.DropFeatures(["b"]), MIXED),
    "none dropped": (selection.DropDuplicateFeatures(), NUMBERS),
    "selected by scikit-learn": (VarianceThreshold().set_output(transform="pandas"), NUMBERS),
}


def frames(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return rows in other orders, with labels of other kinds, and none."""
    labelled = rows.copy()
    labelled.index = pd.MultiIndex.from_product([range(4), list("xyz")], names=["p", "q"])
    labelled.columns = pd.Index(list(rows.columns), dtype=object, name="of columns")
    labelled.attrs["made"] = "here"
    missing = rows.copy()
    missing.iloc[2, 1] = np.nan
    missing.iloc[3, 1] = -np.inf
    return [rows, rows[::-1], rows[3:4], labelled, missing, rows[:0]]


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("name", PASSING)
def test_columns_that_pass_are_those_of_the_rows(name: str, precision: Any) -> None:
    """To the last bit in float32 too, with index, names and attributes as the source leaves them."""
    source, rows = PASSING[name]
    model = hbconv.convert(source.fit(rows), "reference", precision=precision)
    for given in frames(rows):
        found = model.transform(given)
        want = source.transform(given if len(given) else rows)[: len(given)]
        pd.testing.assert_frame_equal(found, want, check_exact=True)
        assert found.columns.dtype == want.columns.dtype
        assert found.attrs == want.attrs


@pytest.mark.parametrize("name", PASSING)
def test_no_program_runs_where_all_columns_pass(name: str, monkeypatch: Any) -> None:
    """The values would be thrown away."""
    source, rows = PASSING[name]
    model = hbconv.convert(source.fit(rows), "reference")

    def run(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(Program, "run", run)
    assert model.transform(rows).shape == source.transform(rows).shape


@pytest.mark.parametrize("name", PASSING)
def test_a_change_of_the_answer_changes_no_rows(name: str) -> None:
    """Nor does a change of the rows, or of the labels of one answer, change another."""
    source, rows = PASSING[name]
    model = hbconv.convert(source.fit(rows), "reference")
    given = rows.copy()
    found = model.transform(given)
    other = model.transform(given)
    found.iloc[:, 0] = 7
    found.columns.name = "mine"
    found.index.name = "mine"
    given.iloc[:, :4] = 1.0
    pd.testing.assert_frame_equal(other, source.transform(rows))
    assert given.columns.name is None
    assert given.index.name is None
    assert model.transform(rows).columns.name is None


def test_refusals_stay_where_all_columns_pass() -> None:
    """Of columns that are missing or of another type, and of texts among numbers."""
    chosen = preprocessing.ColumnSelector(["c", "a"]).fit(NUMBERS)
    typed = preprocessing.TypeSelector(include="number").fit(NUMBERS)
    finite = FunctionTransformer(validate=True, feature_names_out="one-to-one")
    finite = finite.set_output(transform="pandas").fit(NUMBERS)
    refused = [
        (chosen, NUMBERS[["a", "b"]], "missing: 'c'"),
        (chosen, NUMBERS.assign(a="text"), "holds the text"),
        (typed, NUMBERS.astype({"b": "float32"}), "'b' is not float64"),
        (finite, NUMBERS.assign(b=np.inf), "infinity"),
    ]
    for source, rows, message in refused:
        model = hbconv.convert(source, "reference")
        with pytest.raises(InputError, match=message):
            model.transform(rows)
        with pytest.raises(InputError, match=message):
            model.transform(rows)


@pytest.mark.parametrize(
    "variables", [["b"], ["a", "d"], list("abcd"), [f"n{i}" for i in range(9)]]
)
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_columns_that_stay_beside_computed_ones_are_those_of_the_rows(
    variables: list[str], precision: Any
) -> None:
    """Few are set in their places; many, or those that move, are put side by side."""
    more = {f"n{i}": RNG.normal(size=12) for i in range(9)}
    rows = MIXED.assign(**more, wide=np.arange(12, dtype="int64") + 2**60)
    rows.loc[4, variables] = np.nan
    source = imputation.ArbitraryNumberImputer(-7.5, variables=variables).fit(rows)
    model = hbconv.convert(source, "reference", precision=precision)
    for given in (rows, rows[rows.columns[::-1]], rows[2:5]):
        found = model.transform(given)
        want = source.transform(given)
        pd.testing.assert_frame_equal(found, want, rtol=1e-6)
        passed = [name for name in rows if name not in variables]
        pd.testing.assert_frame_equal(found[passed], want[passed], check_exact=True)
        found.iloc[:, 0] = 3.0
    assert not (rows["a"] == 3.0).any()


def test_polars_hands_on_its_columns() -> None:
    """Under the names of the source."""
    source = preprocessing.ColumnSelector(["flag", "i", "a"]).fit(MIXED)
    rows = pl.from_pandas(MIXED)
    assert hbconv.convert(source, "reference").transform(rows).equals(source.transform(rows))


IDENTITIES = [FunctionTransformer(), preprocessing.IdentityTransformer()]


@pytest.mark.parametrize("source", IDENTITIES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint8", "bool", ">f8"])
def test_rows_that_the_source_returns_are_returned(source: Any, dtype: str) -> None:
    """The array itself, at each call, in its own dtype; so are frames."""
    for precision in ("exact", "fast"):
        model = hbconv.convert(source.fit(X), "reference", precision=precision)
        rows = (X * 9).astype(dtype)
        assert source.transform(rows) is rows
        for given in (rows, rows[:1], rows[:0], rows, np.asfortranarray(rows)):
            assert model.transform(given) is given


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("source", IDENTITIES, ids=str)
def test_frames_that_the_source_returns_are_returned(source: Any, tmp_path: Any) -> None:
    """Of pandas and polars, by a model of a file too."""
    model = hbconv.convert(source.fit(MIXED), "reference")
    model.save(tmp_path / "m.hbc")
    for each in (model, hbconv.load(tmp_path / "m.hbc")):
        for rows in (MIXED, pl.from_pandas(MIXED), MIXED[::-1], MIXED[:1]):
            assert each.transform(rows) is rows
        with pytest.raises(InputError, match="holds the text"):
            each.transform(MIXED.assign(a="text"))


@pytest.mark.parametrize("source", IDENTITIES, ids=str)
def test_rows_that_do_not_fit_are_refused_at_each_call(source: Any) -> None:
    """By an array that goes the fast way as well."""
    model = hbconv.convert(source.fit(X), "reference")
    model.transform(X)
    for rows in (X[:, :2], X[0], np.full((2, 4), "text")):
        with pytest.raises(InputError):
            model.transform(rows)


COPIES = [
    preprocessing.IdentityTransformer(check_X=True),
    make_pipeline(StandardScaler(with_mean=False, with_std=False), FunctionTransformer()),
    VarianceThreshold(),
]


@pytest.mark.parametrize("source", COPIES, ids=["checked", "behind a step", "selected"])
@pytest.mark.parametrize("size", [5, 5000])
def test_rows_that_the_source_copies_are_copied(source: Any, size: int) -> None:
    """So a change of the answer changes no rows."""
    rows = RNG.normal(size=(size, 4))
    model = hbconv.convert(source.fit(rows), "reference")
    before = rows.copy()
    for _ in range(2):
        found = model.transform(rows)
        assert not np.shares_memory(source.transform(rows), rows)
        found[...] = 7.0
        np.testing.assert_array_equal(rows, before)
