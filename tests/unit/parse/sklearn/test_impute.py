"""Imputers: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agreement import agree, label, refuses_as_source, transform
from matrix.data import fit_rows, target, with_missing
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)

import hbconv
from hbconv.errors import InputError, UnsupportedError
from hbconv.parse import parse

NAN = np.nan
TRAIN = np.array(
    [[1.1, NAN, 3.0, NAN], [0.1, 2.0, 3.0, NAN], [NAN, 2.5, 7.3, NAN], [4.0, 2.0, -1.0, NAN]]
)
ROWS = np.array(
    [
        [NAN, NAN, NAN, 1.0],
        [1.1, -0.0, 5e-324, NAN],
        [0.0, 1e30, NAN, NAN],
        [-1.0, 2.0, 3.0, 4.0],
        [NAN, 1.0, 2.0, NAN],
    ]
)
COUNTS = np.array([[1, -1, 3], [-1, 2, 3], [4, 2, -1], [1, 2, 9]])
MORE_COUNTS = np.array([[-1, -1, -1], [0, 5, -1], [7, -1, 2]])


@pytest.mark.parametrize("keep_empty_features", [False, True])
@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("fitted", ["float32", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fills_numbers(strategy, add_indicator, keep_empty_features, fitted, dtype):
    imputer = SimpleImputer(
        strategy=strategy, add_indicator=add_indicator, keep_empty_features=keep_empty_features
    )
    imputer.fit(TRAIN.astype(fitted))
    agree(imputer, ROWS.astype(dtype))


def test_fills_with_a_function_of_the_column():
    agree(SimpleImputer(strategy=lambda column: column.max() / 3).fit(TRAIN[:, :3]), ROWS[:, :3])


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
def test_ints_have_no_missing_values(strategy):
    imputer = SimpleImputer(strategy=strategy).fit(COUNTS)
    agree(imputer, MORE_COUNTS)


@pytest.mark.parametrize("rows", [MORE_COUNTS, MORE_COUNTS > 0, MORE_COUNTS.astype("uint8")])
def test_a_float_is_not_filled_into_ints(rows):
    refuses_as_source(SimpleImputer(strategy="constant").fit(TRAIN[:, :3]), rows, "step")
    agree(SimpleImputer(strategy="constant").fit(COUNTS), MORE_COUNTS * 0.5)


def test_bools_alone_are_refused():
    """Beside a number they are numbers, and where floats are needed they are made first."""
    imputer = SimpleImputer(strategy="most_frequent").fit(COUNTS)
    bools = MORE_COUNTS > 0
    model = hbconv.convert(imputer, "reference")
    for rows in (bools, pd.DataFrame(bools), bools.tolist()):
        with pytest.raises(ValueError, match="bool"):
            imputer.transform(rows)
        with pytest.raises(InputError, match="bools alone"):
            model.transform(rows)
    mixed = pd.DataFrame({0: [1, 0, 2], 1: bools[:, 1], 2: bools[:, 2]})
    np.testing.assert_array_equal(model.transform(mixed), imputer.transform(mixed))
    agree(SimpleImputer().fit(COUNTS), bools)
    part = ColumnTransformer([("i", imputer, [1])], remainder="passthrough").fit(COUNTS)
    refused = pd.DataFrame({0: [1, 2], 1: [True, False], 2: [1, 2]})
    with pytest.raises(InputError, match="bools alone"):
        hbconv.convert(part, "reference").transform(refused)


@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "mean"},
        {"strategy": "median"},
        {"strategy": "most_frequent"},
        {"strategy": "constant", "fill_value": 42},
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_fills_a_number_that_means_missing(options, dtype, add_indicator):
    imputer = SimpleImputer(missing_values=-1, add_indicator=add_indicator, **options).fit(COUNTS)
    agree(imputer, MORE_COUNTS.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounds_the_missing_number_as_numpy_does(dtype):
    rows = np.array([[0.1], [np.nextafter(0.1, 1)], [np.float32(0.1)], [2.0]]).astype(dtype)
    agree(SimpleImputer(missing_values=0.1).fit(np.array([[0.1], [3.0]])), rows)


def test_a_fraction_does_not_fit_a_column_of_ints():
    imputer = SimpleImputer(missing_values=-1, strategy="constant", fill_value=2.5).fit(
        COUNTS.astype(float)
    )
    refuses_as_source(imputer, MORE_COUNTS, "cannot be cast")


@pytest.mark.parametrize(
    ("missing", "row", "message"),
    [(NAN, np.inf, "infinity"), (-1, NAN, "NaN"), (-1, -np.inf, "NaN, infinity")],
)
def test_refuses_what_the_source_refuses(missing, row, message):
    imputer = SimpleImputer(missing_values=missing).fit(COUNTS.astype(float))
    refuses_as_source(imputer, np.full((1, 3), row), message)


WORDS = pd.DataFrame(
    {
        "a": ["x", "y", "x", np.nan],
        "b": [None, "é", "é", ""],
        "c": ["?", "u", "u", "v"],
        "n": [1.0, 2.0, 2.0, np.nan],
    },
    dtype=object,
)
MORE_WORDS = pd.DataFrame(
    {
        "a": [np.nan, "yy", "x", "y"],
        "b": ["", "é", np.nan, None],
        "c": ["u", "?", "v", "w"],
        "n": [2.0, 1.0, np.nan, 3.0],
    },
    dtype=object,
)


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ],
)
@pytest.mark.parametrize("imputer", [
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="constant"),
    SimpleImputer(strategy="constant", fill_value="none given"),
    SimpleImputer(strategy="most_frequent", missing_values="?"),
    SimpleImputer(strategy="most_frequent", missing_values=None),
    SimpleImputer(strategy="most_frequent", missing_values="u"),
    make_pipeline(SimpleImputer(strategy="constant", fill_value="?"), SimpleImputer(strategy="most_frequent", missing_values="?")),
])  # fmt: skip
def test_folds_text_into_the_vocabulary(imputer, encoder):
    for columns in (["a"], ["b"], ["c"], ["a", "b", "c"]):
        train = WORDS[columns]
        rows = MORE_WORDS[columns]
        if not isinstance(imputer, SimpleImputer) or not isinstance(imputer.missing_values, float):
            train = train.replace(np.nan, "x")
            rows = rows.replace(np.nan, "x")
        pipeline = make_pipeline(imputer, encoder)
        try:
            pipeline.fit(train)
        except TypeError:
            continue  # a fill of None beside texts: the source refuses to sort them
        agree(pipeline, rows)


@pytest.mark.parametrize("missing", ["?", None])
def test_refuses_nan_in_text_unless_it_is_missing(missing):
    imputer = SimpleImputer(strategy="constant", missing_values=missing).fit(WORDS[["c"]])
    refuses_as_source(
        make_pipeline(imputer, OneHotEncoder().fit(WORDS[["c"]])),
        pd.DataFrame({"c": [np.nan]}, dtype=object),
        "NaN in column 0",
    )


def test_fills_text_and_numbers_together():
    pipeline = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    agree(pipeline.fit(WORDS[["a", "n", "c"]]), MORE_WORDS[["a", "n", "c"]])


@pytest.mark.parametrize("missing", [np.nan, "?"])
def test_shows_missing_text(missing):
    inner = SimpleImputer(strategy="most_frequent", missing_values=missing, add_indicator=True)
    words = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    pipeline = make_pipeline(
        inner, ColumnTransformer([("words", words, [1, 0]), ("shown", StandardScaler(), [2])])
    )
    train, rows = (
        frame[["a", "c"]] if missing != "?" else frame[["a", "c"]].replace(np.nan, "x")
        for frame in (WORDS, MORE_WORDS)
    )
    agree(pipeline.fit(train), rows)


def test_text_reaches_its_encoder_through_what_only_moves_it():
    mover = ColumnTransformer(
        [
            ("later", FunctionTransformer(), ["c", "a"]),
            ("first", SimpleImputer(strategy="most_frequent"), ["a"]),
        ]
    )
    agree(make_pipeline(mover, OneHotEncoder(handle_unknown="ignore")).fit(WORDS), MORE_WORDS)


@pytest.mark.parametrize("value", [None, "2", "a"])
@pytest.mark.parametrize("imputer", [
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="constant", fill_value=3, add_indicator=True),
    MissingIndicator(features="all"),
], ids=str)  # fmt: skip
def test_objects_that_the_source_would_leave_among_numbers_are_refused(imputer, value):
    imputer.fit(pd.DataFrame({"a": [1.0, 2.0, 2.0, np.nan]}, dtype=object))
    agree(imputer, pd.DataFrame({"a": [np.nan, 3.0, True]}, dtype=object))
    with pytest.raises(InputError, match=f"Column 'a' holds {value!r} among numbers"):
        transform(imputer, pd.DataFrame({"a": [1.0, value, np.nan]}, dtype=object))


def test_none_is_nan_where_the_source_reads_floats():
    agree(
        SimpleImputer(add_indicator=True).fit(np.array([[1.0], [2.0], [np.nan]])),
        pd.DataFrame({"a": [1.0, None]}, dtype=object).to_numpy(),
    )


def test_pandas_na_is_missing_in_every_column():
    agree(SimpleImputer(missing_values=pd.NA).fit(TRAIN), ROWS)
    frame = pd.DataFrame({"a": ["x", None, "x", np.nan]}, dtype=object)
    agree(
        make_pipeline(
            SimpleImputer(missing_values=pd.NA, strategy="most_frequent"), OneHotEncoder()
        ).fit(frame),
        frame,
    )


@pytest.mark.parametrize("features", ["missing-only", "all"])
@pytest.mark.parametrize("sparse", [False, True, "auto"])
def test_indicator(features, sparse):
    indicator = MissingIndicator(features=features, sparse=sparse, error_on_new=False).fit(TRAIN)
    agree(indicator, ROWS)
    agree(indicator, ROWS.astype(np.float32))
    agree(indicator, np.zeros((2, 4), dtype=np.int64))


def test_indicator_of_a_number_and_of_a_text():
    agree(MissingIndicator(missing_values=-1).fit(COUNTS), MORE_COUNTS)
    agree(MissingIndicator(missing_values="?", features="all").fit(WORDS[["c"]]), MORE_WORDS[["c"]])
    frame = pd.DataFrame({"a": ["x", None, ""]}, dtype=object)
    agree(MissingIndicator(missing_values=None, features="all").fit(frame), frame[::-1])


def test_indicator_refuses_columns_that_had_no_missing_values():
    indicator = MissingIndicator().fit(TRAIN[:, :3])
    refuses_as_source(indicator, np.array([[1.0, 1.0, NAN]]), "no missing values when fitting")
    refuses_as_source(indicator, np.array([[1.0, np.inf, 1.0]]), "infinity")


@pytest.mark.parametrize(("imputer", "train", "parameter"), [
    (SimpleImputer(missing_values=np.float64(0.1)), TRAIN[:1, :1], "missing_values"),
    (SimpleImputer(strategy="most_frequent"), np.array([[pd.Timestamp("2020")]], dtype=object), "statistics_"),
])  # fmt: skip
def test_refuses_by_name(imputer, train, parameter):
    with pytest.raises(UnsupportedError, match=f"{parameter}="):
        parse(
            make_pipeline(imputer, OneHotEncoder()).fit(train)
            if train.dtype == object
            else imputer.fit(train)
        )


OBJECTS = {
    "bools": [True, False, None, True],
    "ints": [1, 2, None, 1],
    "ints and texts": [1, "b", None, 1],
    "NaN": [2.0, NAN, 2.0, 3.0],
    "bytes": [b"a", b"b", b"a", b"a"],
    "texts": ["a", "b", None, NAN],
}
"""Columns of objects, as a database gives them."""
IMPUTERS = [
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="most_frequent", missing_values=None),
    SimpleImputer(strategy="most_frequent", missing_values=pd.NA),
    SimpleImputer(strategy="constant", fill_value="missing"),
    SimpleImputer(strategy="constant", fill_value="missing", missing_values=None),
    SimpleImputer(strategy="constant", fill_value=1, missing_values=None),
]


@pytest.mark.parametrize("imputer", IMPUTERS, ids=label)
@pytest.mark.parametrize("values", OBJECTS.values(), ids=OBJECTS)
def test_fills_objects(values, imputer):
    """What the source can fit is answered, for its own values and for others, or refused alike."""
    rows = pd.DataFrame({"x": pd.Series(values * 5, dtype=object)})
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    try:
        source = make_pipeline(imputer, encode).fit(rows)
    except (TypeError, ValueError):
        return
    model = hbconv.convert(source, "reference")
    for value in (*values, "new", 7, 1.0, True):
        row = pd.DataFrame({"x": pd.Series([value], dtype=object)})
        try:
            found = model.transform(row)
        except InputError:
            continue
        np.testing.assert_array_equal(found, source.transform(row))
    np.testing.assert_array_equal(model.transform(rows), source.transform(rows))


@pytest.mark.parametrize("dtype", [object, "string", "string[pyarrow]"])
def test_compares_no_na(dtype):
    """The source raises at pandas.NA, unless that is the missing value."""
    words = pd.DataFrame({"x": pd.Series(["a", "b", "a", pd.NA], dtype=dtype)})
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    for missing in (NAN, None):
        imputer = SimpleImputer(strategy="most_frequent", missing_values=missing)
        source = make_pipeline(imputer, encode).fit(words[:3].astype(object))
        model = hbconv.convert(source, "reference")
        with pytest.raises((TypeError, ValueError)):
            source.transform(words)
        with pytest.raises(InputError, match="<NA>"):
            model.transform(words)
    imputer = SimpleImputer(strategy="most_frequent", missing_values=pd.NA)
    source = make_pipeline(imputer, encode).fit(words)
    found = hbconv.convert(source, "reference").transform(words)
    np.testing.assert_array_equal(found, source.transform(words))


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("missing", [NAN, None, "b"])
def test_compares_no_na_in_columns_that_nothing_reads(missing, as_array):
    """The source compares all columns that it is given, whatever becomes of them."""
    words = pd.DataFrame({"x": ["a", "b", "a"], "y": ["c", "d", "c"]}, dtype=object)
    imputer = SimpleImputer(strategy="most_frequent", missing_values=missing)
    encode = ColumnTransformer([("x", OneHotEncoder(handle_unknown="ignore"), [0])])
    asked = words.copy()
    asked.loc[1, "y"] = pd.NA
    rows, asked = (f.to_numpy() if as_array else f for f in (words, asked))
    source = make_pipeline(imputer, encode).fit(rows)
    with pytest.raises(TypeError, match="NA is ambiguous"):
        source.transform(asked)
    with pytest.raises(InputError, match=r"<NA> in row 1\. The step 'simpleimputer/SimpleImputer'"):
        hbconv.convert(source, "reference").transform(asked)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
@pytest.mark.parametrize("values", [["a", "b", None, "a"], [True, None, False, True]], ids=str)
def test_what_is_left_missing_is_so_in_a_frame(values, output):
    """pandas makes NaN of None among texts alone; the imputer fills NaN, and leaves None."""
    rows = pd.DataFrame({"x": pd.Series(values * 3, dtype=object)})
    imputer = SimpleImputer(strategy="most_frequent").set_output(transform=output)
    encode = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    source = make_pipeline(imputer, encode).fit(rows)
    found = hbconv.convert(source, "reference").transform(rows)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(source.transform(rows)))


MIXED = pd.DataFrame(
    {
        "port": ["S", NAN, "C", "S", "Q", "C"] * 4,
        "level": [1, 2, 3, 1, 2, 2] * 4,
        "alone": [True, False, True, True, False, False] * 4,
    }
)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("columns", [["port", "level", "alone"], ["level", "port"]], ids=len)
@pytest.mark.parametrize("encoder", [OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    TargetEncoder(cv=2)], ids=label)  # fmt: skip
@pytest.mark.parametrize("fill_value", ["missing", "S"])
def test_fills_texts_and_numbers_together(columns, encoder, fill_value):
    """scikit-learn's own example of mixed columns, for years."""
    rows, target = MIXED[columns], np.arange(len(MIXED)) % 5 > 1
    imputer = SimpleImputer(strategy="constant", fill_value=fill_value)
    source = make_pipeline(imputer, encoder).fit(rows, target)
    asked = rows.assign(level=[1, 2, 9, 3.0, NAN, 2] * 4)
    for given in (rows, asked, rows[:1], rows.to_numpy()):
        agree(source, given)


def test_a_text_filled_into_a_number_is_a_text_alone():
    """It is unknown to an encoder of numbers, where its place is a category too."""
    encode = OrdinalEncoder(
        categories=[[0, 1, 2]], handle_unknown="use_encoded_value", unknown_value=-1
    )
    imputer = SimpleImputer(strategy="constant", fill_value="none", missing_values=0)
    rows = np.array([[1], [2], [0]], dtype=object)
    agree(make_pipeline(imputer, encode).fit(rows), rows)
    scaled = make_pipeline(imputer, StandardScaler()).fit(rows[:2])
    with pytest.raises(UnsupportedError, match="fill columns of numbers with a number"):
        hbconv.convert(scaled, "reference")


def test_text_that_leaves_without_an_encoder_is_refused():
    with pytest.raises(
        UnsupportedError,
        match=r"text columns \(step 'SimpleImputer'\) is not supported. Answers are numbers or labels: encode text",
    ):
        hbconv.convert(SimpleImputer(strategy="most_frequent").fit(WORDS[["a"]]))


def test_many_rounds_before_a_regressor() -> None:
    """Eighty predictions, each of all before it, and a step behind that looks at the result."""
    x = with_missing(fit_rows())
    source = make_pipeline(IterativeImputer(max_iter=10, tol=0.0), Ridge())
    with pytest.warns(match="Early stopping"):
        source.fit(x, target("value"))
    np.testing.assert_allclose(
        hbconv.convert(source, backend="reference").predict(x), source.predict(x), rtol=1e-9
    )


@pytest.mark.parametrize("backend", ["reference", "torch", "tvm", "onnx"])
def test_answers_a_row_without_values_beside_others(backend) -> None:
    x = with_missing(fit_rows())
    source = make_pipeline(IterativeImputer(max_iter=2, tol=1.0), Ridge()).fit(x, target("value"))
    model = hbconv.convert(source, backend=backend)
    for rows in (x[:5].copy(), x[:50].copy()):
        rows[2:4] = np.nan
        np.testing.assert_allclose(model.predict(rows), source.predict(rows), rtol=1e-9)
    with pytest.raises(InputError, match=r"only missing values.* row that has a value\.$"):
        model.predict(rows[2:4])
    assert model.predict(rows[:0]).shape == (0,)


def test_refuses_rows_without_values() -> None:
    """Alone they keep the first imputation, beside others they do not: the source answers by
    the batch.
    """
    x = with_missing(fit_rows())
    source = IterativeImputer(max_iter=20).fit(x)
    empty = np.full((1, 8), np.nan)
    assert np.any(source.transform(empty)[0] != source.transform(np.vstack([empty, x]))[0])
    with pytest.raises(InputError, match=r"only missing values.* row that has a value\.$"):
        hbconv.convert(source, backend="reference").transform(empty)


@pytest.mark.filterwarnings("ignore:.*Early stopping")
def test_refuses_chance_and_classes() -> None:
    """Draws from the posterior, and estimators that predict no numbers."""
    x = with_missing(fit_rows())
    with pytest.raises(UnsupportedError, match="sample_posterior"):
        hbconv.convert(IterativeImputer(sample_posterior=True, max_iter=2).fit(x))
    x = np.where(np.isnan(x), x, x > np.nanmean(x, axis=0))
    with pytest.raises(UnsupportedError, match="regressor"):
        hbconv.convert(
            IterativeImputer(
                LogisticRegression(), initial_strategy="most_frequent", max_iter=1
            ).fit(x)
        )
