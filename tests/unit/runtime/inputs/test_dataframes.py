"""Every kind of column, in every kind of table, through estimators of every kind: the source's
answer in its dtype, or both refuse.
"""

from __future__ import annotations

import decimal
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, OrdinalEncoder, StandardScaler
from sources import dense

import hbconv
from hbconv.errors import HbconvError, InputError

ROWS = 40
RNG = np.random.default_rng(0)
SIZES, MISSING, OTHER, TARGET = (
    RNG.integers(0, 5, ROWS),
    RNG.random(ROWS) < 0.2,
    RNG.normal(size=ROWS),
    RNG.integers(0, 2, ROWS),
)
WORDS = np.array(["a", "bb", "é日本", "", "a long word"], dtype=object)[SIZES]


def holed(values, hole=None):
    values = np.array(values, dtype=object)
    values[MISSING] = hole
    return values


def strings(values, storage):
    return pd.array(values, dtype=pd.StringDtype(storage))


def arrow(values, kind):
    return pd.array(values, dtype=pd.ArrowDtype(kind))


DECIMALS = [decimal.Decimal(size) / 2 for size in SIZES.tolist()]
PLAIN = {
    dtype: SIZES.astype(dtype)
    for dtype in (
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
    )
}
NULLABLE = {
    dtype: pd.array(holed(SIZES.tolist()), dtype=dtype)
    for dtype in (
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt32",
        "UInt64",
        "Float32",
        "Float64",
    )
}
COLUMNS = {
    **PLAIN,
    **NULLABLE,
    "float64 with NaN": np.where(MISSING, np.nan, SIZES.astype(float)),
    "Int64, all there": pd.array(SIZES, dtype="Int64"),
    "boolean": pd.array(holed((SIZES > 2).tolist()), dtype="boolean"),
    "category of texts": pd.Categorical(WORDS),
    "category of texts, ordered": pd.Categorical(
        WORDS, categories=["a long word", "a", "bb", "é日本", ""], ordered=True
    ),
    "category of texts, some missing": pd.Categorical(holed(WORDS)),
    "category of ints": pd.Categorical(SIZES),
    "category of floats": pd.Categorical(SIZES / 2),
    "category of ints, some missing": pd.Categorical(holed(SIZES.tolist())),
    "category of bools": pd.Categorical(SIZES > 2),
    "objects, texts": pd.Series(WORDS, dtype=object),
    "objects, texts and None": pd.Series(holed(WORDS), dtype=object),
    "objects, texts and NaN": pd.Series(holed(WORDS, np.nan), dtype=object),
    "objects, texts and NA": pd.Series(holed(WORDS, pd.NA), dtype=object),
    "str": pd.array(WORDS, dtype="str"),
    "str with NaN": pd.array(holed(WORDS), dtype="str"),
    "string[python]": strings(WORDS, "python"),
    "string[pyarrow]": strings(WORDS, "pyarrow"),
    "string[python] with NA": strings(holed(WORDS), "python"),
    "string[pyarrow] with NA": strings(holed(WORDS), "pyarrow"),
    "Arrow string": arrow(WORDS, pa.string()),
    "Arrow dictionary": arrow(WORDS, pa.dictionary(pa.int32(), pa.string())),
    "Arrow int64": arrow(SIZES, pa.int64()),
    "Arrow int64 with null": arrow(holed(SIZES.tolist()), pa.int64()),
    "Arrow float": arrow(SIZES / 2, pa.float32()),
    "Arrow bool with null": arrow(holed((SIZES > 2).tolist()), pa.bool_()),
    "objects, decimals": pd.Series(DECIMALS, dtype=object),
    "Arrow decimal": arrow(DECIMALS, pa.decimal128(10, 2)),
    "objects, ints": pd.Series(SIZES.tolist(), dtype=object),
    "objects, floats and NaN": pd.Series(holed((SIZES / 2).tolist(), np.nan), dtype=object),
    "objects, ints and None": pd.Series(holed(SIZES.tolist()), dtype=object),
    "objects, ints and NA": pd.Series(holed(SIZES.tolist(), pd.NA), dtype=object),
    "objects, bools": pd.Series((SIZES > 2).tolist(), dtype=object),
    "objects, bools and None": pd.Series(holed((SIZES > 2).tolist()), dtype=object),
    "objects, texts of numbers": pd.Series(list(map(str, SIZES.tolist())), dtype=object),
    "objects, ints and texts": pd.Series(
        [size if size % 2 else str(size) for size in SIZES.tolist()], dtype=object
    ),
    "objects, bytes": pd.Series([word.encode() for word in WORDS], dtype=object),
    "dates": pd.to_datetime(SIZES, unit="D"),
    "dates of a zone": pd.to_datetime(SIZES, unit="D", utc=True),
    "time spans": pd.to_timedelta(SIZES, unit="D"),
    "periods": pd.PeriodIndex.from_ordinals(SIZES, freq="D"),
    "intervals": pd.arrays.IntervalArray.from_breaks(np.arange(ROWS + 1)),
    "sparse": pd.arrays.SparseArray(SIZES.astype(float)),
    "complex": SIZES + 1j,
}

ESTIMATORS = {
    "scaler, logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "one hot": lambda: OneHotEncoder(handle_unknown="ignore"),
    "ordinal": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "mean": SimpleImputer,
    "most frequent, one hot": lambda: make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    ),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2),
    "columns, scaled": lambda: ColumnTransformer(
        [("other", "passthrough", ["other"]), ("scaled", StandardScaler(), ["column"])]
    ),
    "columns, one hot": lambda: ColumnTransformer(
        [
            ("scaled", StandardScaler(), ["other"]),
            ("found", OneHotEncoder(handle_unknown="ignore"), ["column"]),
        ]
    ),
}

BEYOND = {
    "dates": "as numbers they depend on their unit", "dates of a zone": "likewise",
    "time spans": "likewise",
    "periods": "no numbers", "intervals": "no numbers", "objects, decimals": "no categories",
    "Arrow decimal": "no categories",
    "objects, bytes": "no imputed texts", "objects, ints and None": "left among imputed numbers",
    "objects, bools and None": "likewise",
    "objects, ints and texts": "likewise",
}  # fmt: skip
"""Columns that some estimators of the source take, and hbconv refuses by name."""


@cache
def source(name, column):
    try:
        return quietly(ESTIMATORS[name]().fit, table(column), TARGET)
    except (TypeError, ValueError):
        return None


@cache
def table(column):
    return pd.DataFrame({"other": OTHER, "column": COLUMNS[column]})


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


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_kind_of_column(name, column):
    estimator = source(name, column)
    if estimator is None:
        return  # The source does not fit to it.
    try:
        model = hbconv.convert(estimator, "reference")
    except HbconvError:
        assert column in BEYOND
        return
    for x in (table(column), table(column)[::-3], table(column)[["column", "other"]]):
        compare(answer(model, x), answer(estimator, x), column)


def compare(found, expected, column):
    if isinstance(found, Exception):
        assert isinstance(found, InputError)
        assert isinstance(expected, Exception) or column in BEYOND
        return
    assert not isinstance(expected, Exception), expected
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


FRAMES = {
    "pandas": lambda f: f,
    "pandas of Arrow": lambda f: pa.Table.from_pandas(f).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_pandas,
    "Arrow": lambda f: pa.Table.from_pandas(f, preserve_index=False),
    "Arrow, chunks": lambda f: pa.concat_tables([pa.Table.from_pandas(f[:7]), pa.Table.from_pandas(f[7:])]),
    "Arrow batch": lambda f: pa.RecordBatch.from_pandas(f, preserve_index=False),
    "dict": lambda f: {name: f[name].to_numpy() for name in f},
    "dict of lists": lambda f: {name: f[name].tolist() for name in f},
    "records": lambda f: f.to_records(index=False),
}  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        "float64",
        "float64 with NaN",
        "int64",
        "bool",
        "category of texts",
        "str",
        "str with NaN",
        "objects, texts",
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "scaler, logistic",
        "one hot",
        "ordinal",
        "mean",
        "boosting",
        "columns, scaled",
        "columns, one hot",
    ],
)
@pytest.mark.parametrize("frame", FRAMES)
def test_every_kind_of_table(frame, name, column):
    """As the source answers for the same table of pandas. A missing text of Arrow or polars is
    what the model knows as missing.
    """
    estimator = source(name, column)
    if estimator is None or isinstance(answer(estimator, table(column)), Exception):
        return
    model = hbconv.convert(estimator, "reference")
    if model.schema.conventions.tables_only or (
        name == "boosting" and column == "category of texts"
    ):
        return
    x = FRAMES[frame](table(column))
    compare(
        answer(model, x),
        answer(estimator, x if isinstance(x, pd.DataFrame) else table(column)),
        column,
    )


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: StandardScaler(with_mean=False),
        LogisticRegression,
        lambda: GradientBoostingClassifier(n_estimators=3),
    ],
    ids=["scaler", "logistic", "boosting"],
)
@pytest.mark.parametrize("form", MATRICES)
def test_every_form_of_a_matrix(form, make):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(50, 4)).round(1) * (rng.random((50, 4)) < 0.5)
    estimator = make().fit(x, x[:, 0] > 0)
    expected, found = (
        answer(estimator, x),
        answer(hbconv.convert(estimator, "reference"), MATRICES[form](x)),
    )
    np.testing.assert_allclose(
        found, expected, rtol=1e-6 if "float32" in form else 1e-12, atol=1e-7
    )


def named_and_plain():
    x = pd.DataFrame(RNG.normal(size=(20, 3)), columns=["a", "b", "c"])
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
    frame = pd.DataFrame({"t": pd.Series(WORDS, dtype=object), "n": OTHER})
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
