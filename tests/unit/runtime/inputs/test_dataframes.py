"""Every kind of column, in every kind of table, through estimators of every kind: the source's
answer in its dtype, or both refuse.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from pairwise import failing, pairs_covered
from row_table import (
    COLUMNS,
    ESTIMATORS,
    FRAMES,
    OTHER,
    TARGET,
    covered_columns,
    fitted_on,
    may_fit,
    table,
)
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from sources import dense

import hbconv
from hbconv.errors import HbconvError, InputError

BEYOND = {
    ("pandas", "dates"): "as numbers they depend on their unit",
    ("pandas", "dates of a zone"): "likewise",
    ("pandas", "time spans"): "likewise",
    ("pandas", "periods"): "no numbers",
    ("pandas", "intervals"): "no numbers",
    ("objects", "decimals"): "no categories",
    ("Arrow", "decimals"): "no categories",
}
"""Columns that some estimators of the source take, and hbconv refuses by name."""


def quietly(call, *arguments):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return call(*arguments)


def answer(estimator, x):
    method = "transform" if hasattr(estimator, "transform") else "predict_proba"
    try:
        return dense(quietly(getattr(estimator, method), x))
    except (TypeError, ValueError) as error:
        return error


def assert_column_is_read(storage, value, name):
    """Assert that a column is answered as the source does, in other rows and another order too."""
    estimator = fitted_on(storage, value, name)
    if estimator is None:
        return  # The source does not fit to it.
    try:
        model = hbconv.convert(estimator, "reference")
    except HbconvError:
        assert (storage, value) in BEYOND
        return
    whole = table(storage, value)
    for x in (whole, whole[::-3], whole[["column", "other"]]):
        compare(answer(model, x), answer(estimator, x), (storage, value))


def compare(found, expected, column):
    if isinstance(found, Exception):
        assert isinstance(found, InputError)
        assert isinstance(expected, Exception) or column in BEYOND
        return
    assert not isinstance(expected, Exception), expected
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@cache
def chosen_columns():
    return covered_columns()


def test_every_column_is_chosen():
    """Except those that no estimator of the source is fitted to."""
    found = {(storage, value) for storage, value, _ in chosen_columns()}
    assert {c for c in COLUMNS if any(may_fit(*c, name) for name in ESTIMATORS)} == found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_kind_of_column(name, pytestconfig):
    whole = [(*column, name) for column in COLUMNS]
    chosen = [row for row in chosen_columns() if row[-1] == name]
    rows = whole if pytestconfig.getoption("--whole") else chosen
    assert failing(assert_column_is_read, rows) == {}
    left_out = [row for row in rows if not may_fit(*row) and fitted_on(*row) is not None]
    assert left_out == []


def test_a_column_that_is_read_otherwise_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "BEYOND", {})
    rows = [("objects", "decimals", "one hot"), ("str", "texts", "ordinal")]
    rows += [("pandas", "dates", "columns, scaled")]
    assert [*failing(assert_column_is_read, rows)] == [", ".join(rows[0]), ", ".join(rows[2])]


TYPED = {
    "float64": ("numpy", "float64"),
    "float64 with NaN": ("numpy with NaN", "float64"),
    "int64": ("numpy", "int64"),
    "bool": ("numpy", "bool"),
    "category of texts": ("category", "texts"),
    "str": ("str", "texts"),
    "str with NaN": ("str with NaN", "texts"),
    "objects, texts": ("objects", "texts"),
}
"""Columns whose values every form of a table keeps."""
READERS = [name for name in ESTIMATORS if name != "most frequent, one hot"]


def assert_table_is_read(frame, name, column):
    """Assert that a form of a table is answered as the source answers the same table of pandas.

    A missing text of Arrow or polars is what the model knows as missing.
    """
    estimator = fitted_on(*TYPED[column], name)
    whole = table(*TYPED[column])
    if estimator is None or isinstance(answer(estimator, whole), Exception):
        return
    model = hbconv.convert(estimator, "reference")
    if model.schema.conventions.tables_only or (
        name == "boosting" and column == "category of texts"
    ):
        return
    x = FRAMES[frame](whole)
    compare(
        answer(model, x),
        answer(estimator, x if isinstance(x, pd.DataFrame) else whole),
        TYPED[column],
    )


def is_asked(frame, name, column):
    return may_fit(*TYPED[column], name) and (name, column) != ("boosting", "category of texts")


@cache
def chosen_tables():
    return pairs_covered({"frame": [*FRAMES], "name": READERS, "column": [*TYPED]}, is_asked)


@pytest.mark.parametrize("frame", FRAMES)
def test_every_kind_of_table(frame, pytestconfig):
    chosen = [row for row in chosen_tables() if row[0] == frame]
    whole = product([frame], READERS, TYPED)
    rows = whole if pytestconfig.getoption("--whole") else chosen
    assert failing(assert_table_is_read, rows) == {}


def test_a_table_that_is_read_otherwise_is_found(monkeypatch):
    monkeypatch.setitem(FRAMES, "dict", lambda f: {name: f[name][::-1] for name in f})
    found = failing(assert_table_is_read, [("dict", "mean", "int64"), ("Arrow", "mean", "int64")])
    assert [*found] == ["dict, mean, int64"]


MATRICES = {
    "lists": np.ndarray.tolist,
    "objects": lambda x: x.astype(object),
    "float32": np.float32,
    "Fortran order": np.asfortranarray,
    "big-endian": lambda x: x.astype(">f8"),
    "every other row": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1][::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes()).reshape(x.shape),
    "masked, nothing missing": np.ma.array,
    "tensor": torch.from_numpy,
    "tensor, float32": lambda x: torch.from_numpy(x).float(),
    "CSR": scipy.sparse.csr_matrix,
    "CSC": scipy.sparse.csc_matrix,
    "COO": scipy.sparse.coo_matrix,
    "CSR array": scipy.sparse.csr_array,
    "BSR": scipy.sparse.bsr_matrix,
    "LIL": scipy.sparse.lil_matrix,
    "DOK": scipy.sparse.dok_array,
    "pandas, sparse": lambda x: pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(x)),
}


DRAWN = np.random.default_rng(3)
MATRIX = DRAWN.normal(size=(50, 4)).round(1) * (DRAWN.random((50, 4)) < 0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: StandardScaler(with_mean=False),
        LogisticRegression,
        lambda: GradientBoostingClassifier(n_estimators=3),
    ],
    ids=["scaler", "logistic", "boosting"],
)
def test_every_form_of_a_matrix(make):
    estimator = make().fit(MATRIX, MATRIX[:, 0] > 0)
    model = hbconv.convert(estimator, "reference")
    expected = answer(estimator, MATRIX)

    def assert_read(form):
        rtol = 1e-6 if "float32" in form else 1e-12
        found = answer(model, MATRICES[form](MATRIX))
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-7)

    assert failing(assert_read, [(form,) for form in MATRICES]) == {}


def named_and_plain():
    x = pd.DataFrame(OTHER[:39].reshape(13, 3), columns=["a", "b", "c"])
    return x, StandardScaler().fit(x), StandardScaler().fit(x.to_numpy())


def warned(call, x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call(x)
    return [(w.category, str(w.message)) for w in caught], found


@pytest.mark.parametrize("x", ["named", "other names", "numbered", "array", "polars"])
@pytest.mark.parametrize("which", [1, 2], ids=["fitted on names", "fitted on an array"])
def test_warnings_about_names_are_those_of_the_source(which, x):
    frame, estimator = named_and_plain()[0], named_and_plain()[which]
    rows = {
        "named": frame, "other names": frame.rename(columns=str.upper),
        "numbered": frame.set_axis(range(3), axis=1), "array": frame.to_numpy(),
        "polars": pl.from_pandas(frame),
    }[x]  # fmt: skip
    model = hbconv.convert(estimator, "reference")
    if which == 1 and x == "other names":
        with pytest.raises(ValueError, match="yet now missing"):
            estimator.transform(rows)
        with pytest.raises(
            InputError, match=r"Columns are missing: 'a', 'b', 'c'\. The table has 'A', 'B', 'C'\."
        ):
            model.transform(rows)
        return
    (expected_warnings, expected), (found_warnings, found) = (
        warned(estimator.transform, rows),
        warned(model.transform, rows),
    )
    assert found_warnings == expected_warnings
    np.testing.assert_array_equal(found, expected)


def test_a_mapping_has_no_order():
    frame, estimator, plain = named_and_plain()
    model = hbconv.convert(estimator, "reference")
    rows = {name: frame[name].to_numpy() for name in ("c", "a", "b")}
    np.testing.assert_array_equal(model.transform(rows), estimator.transform(frame))
    with pytest.raises(InputError, match="not fitted on the columns 'extra', and refuses them"):
        model.transform(rows | {"extra": ["text"] * len(frame)})
    with pytest.raises(InputError, match="X has 2 columns, but StandardScaler expects 3"):
        hbconv.convert(plain, "reference").transform(frame.to_numpy()[:, :2])


# Mistakes that other compilers make, each by its name.


def test_an_unknown_number_is_no_category_cut_to_an_int():
    model = hbconv.convert(OneHotEncoder(handle_unknown="ignore").fit([[1], [2]]), "reference")
    assert model.transform([[1.7], [2.0]]).toarray().tolist() == [[0, 0], [0, 1]]


def test_a_text_longer_than_any_category_is_not_cut_to_one():
    model = hbconv.convert(
        OneHotEncoder(handle_unknown="ignore").fit(np.array([["abcd"], ["b"]])), "reference"
    )
    for rows in (
        np.array([["abcdXYZ"]]),
        np.array([["abcdXYZ"]], dtype=object),
        pa.table({"x0": ["abcdXYZ"]}),
    ):
        assert quietly(model.transform, rows).toarray().tolist() == [[0, 0]]


def test_texts_need_not_be_ascii():
    rows = np.array([["é"], ["日本"], ["\N{GRINNING FACE}"], ["e"]], dtype=object)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(rows[:3])
    np.testing.assert_array_equal(
        hbconv.convert(encoder, "reference").transform(rows).toarray(),
        encoder.transform(rows).toarray(),
    )


def test_a_label_never_seen_is_not_the_first_class():
    model = hbconv.convert(LabelEncoder().fit([3, 7]), "reference")
    assert model.transform([7, 3]).tolist() == [1, 0]
    with pytest.raises(InputError, match="previously unseen labels"):
        model.transform([4])


def test_columns_in_another_order_are_not_taken_by_position():
    frame = pd.DataFrame({"small": OTHER, "large": OTHER[::-1] * 100})
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, TARGET)
    with pytest.raises(
        InputError, match=r"another order .*Give X\[list\(model.feature_names_in_\)\]"
    ):
        hbconv.convert(estimator, "reference").predict_proba(frame[["large", "small"]])


def test_texts_can_be_imputed():
    frame = pd.DataFrame({"t": ["a", None, "b", "b"]}, dtype=object)
    estimator = make_pipeline(
        SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder()
    ).fit(frame)
    np.testing.assert_array_equal(
        hbconv.convert(estimator, "reference").transform(frame).toarray(),
        estimator.transform(frame).toarray(),
    )


def test_a_sample_may_hold_a_column_of_objects():
    frame = pd.DataFrame({"t": table("objects", "texts")["column"], "n": OTHER})
    parts = ColumnTransformer([("t", OneHotEncoder(), ["t"]), ("n", StandardScaler(), ["n"])])
    estimator = make_pipeline(parts, LogisticRegression()).fit(frame, TARGET)
    np.testing.assert_allclose(
        hbconv.convert(estimator, "torch", sample=frame).predict_proba(frame),
        estimator.predict_proba(frame),
        rtol=1e-10,
    )


def test_a_lazy_frame_is_collected_first():
    model = hbconv.convert(named_and_plain()[1], "reference")
    with pytest.raises(InputError, match=r"Call .collect\(\) first"):
        model.transform(pl.LazyFrame({"a": [1.0]}))
