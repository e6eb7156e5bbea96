import warnings

import numpy as np
import pandas as pd
import pytest
from agreement import agree, label, transform
from lightgbm import LGBMRegressor
from sklearn import config_context
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sources import quietly

import hbconv
from hbconv.errors import InputError, NotFittedError, UnsupportedError
from hbconv.parse import parse

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 5))
ROWS = RNG.normal(size=(9, 5))
TABLE = pd.DataFrame(
    {
        "age": X[:, 0].astype(np.float32),
        "sex": ["f", "m", "é"] * 10,
        "fare": X[:, 1],
        "class": np.arange(30) % 3,
        "old": np.arange(30) % 2 == 0,
    }
)


@pytest.mark.parametrize(
    "columns",
    [
        [0, 2],
        [2, 0],
        [-1, 1],
        slice(1, 4),
        [True, False, False, True, False],
        lambda X: [3, 1],
        2 * [3],
        [],
        slice(0, None),
    ],
    ids=label,
)
@pytest.mark.parametrize("remainder", ["drop", "passthrough", MinMaxScaler()], ids=label)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_takes_columns_of_a_matrix(columns, remainder, dtype):
    transformer = ColumnTransformer(
        [("a", StandardScaler(), columns), ("b", "drop", [4]), ("c", "passthrough", [0])],
        remainder=remainder,
    )
    agree(transformer.fit(X), (ROWS * 10).astype(dtype))


@pytest.mark.parametrize(
    "columns",
    [
        ["fare", "age"],
        slice("fare", "old"),
        [2, 0],
        [-1],
        make_column_selector(dtype_include=np.number),
        make_column_selector(pattern="^a|^f"),
        lambda t: ["class"],
    ],
)
@pytest.mark.parametrize("remainder", ["drop", OrdinalEncoder()], ids=label)
def test_takes_columns_of_a_table(columns, remainder):
    agree(
        ColumnTransformer([("a", StandardScaler(), columns)], remainder=remainder).fit(TABLE), TABLE
    )


def test_each_part_of_a_table_keeps_its_dtype():
    parts = [("narrow", StandardScaler(), ["age"]), ("same", "passthrough", ["age"])]
    agree(ColumnTransformer(parts).fit(TABLE), TABLE)
    agree(
        ColumnTransformer([*parts, ("wide", MinMaxScaler(), ["class", "fare"])]).fit(TABLE), TABLE
    )
    agree(
        ColumnTransformer(
            [("ints", "passthrough", ["class"]), ("bools", "passthrough", ["class"])]
        ).fit(TABLE),
        TABLE,
    )


@pytest.mark.parametrize(
    "columns",
    [
        ["int8", "float32"],
        ["float32", "bool"],
        ["int8", "uint16", "float32"],
        ["int8", "int64"],
        ["int8", "bool", "float64"],
    ],
)
def test_small_ints_beside_float32_stay_float32(columns):
    """As numpy promotes them, also where each is a part of its own."""
    table = pd.DataFrame({name: np.arange(4).astype(name) for name in columns})
    parts = ColumnTransformer([(name, "passthrough", [name]) for name in columns]).fit(table)
    assert hbconv.convert(parts, "reference").transform(table).dtype == parts.transform(table).dtype
    agree(make_pipeline(parts, MaxAbsScaler()).fit(table), table)


@pytest.mark.parametrize("union", [
    ColumnTransformer([("both", "passthrough", ["i", "j"])]),
    ColumnTransformer([("i", "passthrough", ["i"]), ("j", "passthrough", ["j"])]),
    FeatureUnion([("same", FunctionTransformer())]),
], ids=["one part", "two parts", "a union"])  # fmt: skip
@pytest.mark.parametrize("dtype", ["int64", "int32", "float32", "float64"])
def test_ints_beyond_float32_reach_lightgbm_as_the_array_that_the_source_gives(union, dtype):
    """LightGBM reads ints of a table as float64, and of an array, such as a transformer makes
    of a table, as float32.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"i": 2**24 + rng.integers(0, 9, 300), "j": rng.integers(0, 9, 300).astype(dtype)}
    )
    model = make_pipeline(
        union, LGBMRegressor(n_estimators=4, min_child_samples=1, max_bin=1000, verbose=-1)
    ).fit(table, table["i"] - 2**24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(
            hbconv.convert(model, "reference").predict(table), model.predict(table)
        )


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OneHotEncoder(sparse_output=False, dtype=np.uint8),
        OneHotEncoder(dtype=np.float32),
    ],
    ids=label,
)
def test_is_sparse_where_the_source_is(encoder, threshold):
    transformer = ColumnTransformer(
        [("texts", encoder, ["sex", "class"]), ("rest", "passthrough", ["age"])],
        sparse_threshold=threshold,
    )
    agree(transformer.fit(TABLE), TABLE)
    agree(
        ColumnTransformer(
            [("texts", encoder, ["sex"]), ("more", encoder, ["class"])], sparse_threshold=threshold
        ).fit(TABLE),
        TABLE,
    )


@pytest.mark.parametrize("weight", [2, 0.1, np.float64(0.1), np.float32(3)], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights(weight, dtype):
    parts = [("a", StandardScaler(), [0, 1]), ("b", "passthrough", [2])]
    agree(
        ColumnTransformer(parts, transformer_weights={"a": weight, "b": 0.3}).fit(X),
        ROWS.astype(dtype),
    )
    union = FeatureUnion(
        [("a", StandardScaler()), ("b", MinMaxScaler())], transformer_weights={"b": weight}
    )
    agree(union.fit(X), ROWS.astype(dtype))


def test_names_do_not_change_the_values():
    transformer = ColumnTransformer(
        [("a", StandardScaler(), ["age"])], verbose_feature_names_out=False, remainder="drop"
    ).fit(TABLE)
    agree(transformer, TABLE)
    assert parse(transformer).traits.names_out.default == ("age",)


def test_drops_everything():
    assert agree(ColumnTransformer([("a", "drop", [0])]).fit(X), ROWS).shape == (9, 0)


@pytest.mark.parametrize("output", ["default", "pandas", "polars"])
def test_what_selects_from_a_table_keeps_its_dtypes(output):
    """A transformer that makes a table leaves float32 beside float64 as it is, for the next to
    select; an array has one dtype.
    """
    first = ColumnTransformer(
        [("a", StandardScaler(), ["age"]), ("b", "passthrough", ["fare", "class"])]
    ).set_output(transform=output)
    inner = ColumnTransformer([("c", MaxAbsScaler(), [0]), ("d", StandardScaler(), [0])])
    agree(
        make_pipeline(
            first, ColumnTransformer([("e", inner, [0, 2]), ("f", MinMaxScaler(), [2, 0])])
        ).fit(TABLE),
        TABLE,
    )
    union = FeatureUnion([("a", StandardScaler()), ("b", "passthrough")]).set_output(
        transform=output
    )
    agree(
        make_pipeline(union, ColumnTransformer([("e", MaxAbsScaler(), [1, 3])])).fit(
            TABLE[["age", "class"]]
        ),
        TABLE[["age", "class"]],
    )


@pytest.mark.parametrize("second", ["pandas", "polars", "default"])
@pytest.mark.parametrize("first", ["pandas", "polars"])
def test_nulls_of_texts_between_frames_of_two_libraries(first, second):
    """Pandas makes NaN of the nulls of a frame of polars, which an encoder knows apart from None."""
    table = pd.DataFrame({"c": ["a", None, "b", "nan"] * 6, "n": np.arange(24.0)})
    passing = [
        ColumnTransformer([("p", "passthrough", [0])], remainder="passthrough").set_output(
            transform=library
        )
        for library in (first, second)
    ]
    encoder = ColumnTransformer(
        [("c", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), [0])]
    )
    agree(make_pipeline(*passing, encoder).fit(table), table)


@pytest.mark.parametrize("missing", [None, np.nan])
def test_pandas_makes_nan_of_missing_texts_of_an_array(missing):
    rows = np.array([["a", 1.0], [missing, 2.0], ["b", 0.5]] * 8, dtype=object)
    passing = ColumnTransformer([("p", "passthrough", [0, 1])]).set_output(transform="pandas")
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    agree(make_pipeline(passing, ColumnTransformer([("c", encoder, [0])])).fit(rows), rows)


def test_columns_of_an_array_keep_their_dtypes_in_a_frame_beside_texts():
    """Objects are searched for missing texts there, which says nothing of the encoder's floats."""
    rows = np.array([["a", "x"], ["b", "y"], ["c", None]] * 8, dtype=object)
    encoder = OrdinalEncoder(dtype=np.float32)
    first = ColumnTransformer([("e", encoder, [0]), ("p", "passthrough", [1])])
    second = ColumnTransformer([("e", "passthrough", [0])])
    steps = make_pipeline(first, second).set_output(transform="pandas").fit(rows)
    assert agree(steps, rows).dtype == np.float32


def test_polars_makes_no_frame_of_an_array_that_holds_na():
    rows = np.array([["a", 1.0], ["b", 2.0]] * 8, dtype=object)
    passing = ColumnTransformer([("p", "passthrough", [0, 1])]).set_output(transform="polars")
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    source = make_pipeline(passing, ColumnTransformer([("c", encoder, [0])])).fit(rows)
    asked = rows.copy()
    asked[0, 0] = pd.NA
    with pytest.raises(TypeError):
        source.transform(asked)
    with pytest.raises(InputError, match="<NA> in row 0"):
        hbconv.convert(source, "reference").transform(asked)


def test_tables_for_all():
    first = ColumnTransformer([("a", StandardScaler(), ["age"]), ("b", "passthrough", ["fare"])])
    with config_context(transform_output="pandas"):
        agree(
            make_pipeline(first, ColumnTransformer([("e", "passthrough", [0])])).fit(TABLE), TABLE
        )


def test_whole_numbers_of_a_table_between_steps():
    """LightGBM reads ints of a table exactly, those of an array as float32."""
    rows = pd.DataFrame({"a": [2**24 + 1, 2**24 + 2] * 20, "b": np.arange(40)})
    model = LGBMRegressor(n_estimators=2, min_child_samples=1, verbosity=-1, n_jobs=1)
    for output in ("default", "pandas"):
        keep = ColumnTransformer([("a", "passthrough", ["a", "b"])]).set_output(transform=output)
        pipeline = make_pipeline(keep, model).fit(rows, np.arange(40) % 2)
        np.testing.assert_array_equal(
            hbconv.convert(pipeline, backend="reference").predict(rows),
            quietly(pipeline, "predict", rows),
        )


def test_nests():
    inner = ColumnTransformer(
        [("texts", OneHotEncoder(), [0]), ("numbers", StandardScaler(), [1, 2])]
    )
    outer = ColumnTransformer(
        [
            ("inner", inner, ["sex", "fare", "class"]),
            (
                "union",
                FeatureUnion([("a", MaxAbsScaler()), ("b", "passthrough")]),
                ["fare", "class"],
            ),
        ]
    )
    agree(outer.fit(TABLE), TABLE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_union(dtype):
    union = FeatureUnion(
        [
            ("a", StandardScaler()),
            ("b", "drop"),
            ("c", "passthrough"),
            ("d", make_pipeline(MinMaxScaler(), StandardScaler())),
        ]
    )
    agree(union.fit(X), (ROWS * 10).astype(dtype))


def test_union_is_sparse_where_one_part_is():
    agree(
        FeatureUnion([("a", OneHotEncoder()), ("b", OrdinalEncoder())]).fit(
            TABLE[["sex", "class"]]
        ),
        TABLE[["sex", "class"]],
    )


def test_union_of_values_and_missing_marks():
    rows = np.where(ROWS > 1, np.nan, ROWS)
    agree(
        FeatureUnion([("a", SimpleImputer()), ("b", MissingIndicator(features="all"))]).fit(rows),
        rows,
    )


@pytest.mark.parametrize("steps", [
    [("a", StandardScaler()), ("b", "passthrough")],
    [("a", StandardScaler()), ("b", None), ("c", MinMaxScaler())],
    [("a", Pipeline([("b", StandardScaler()), ("c", Pipeline([("d", MinMaxScaler())]))])), ("e", "passthrough")],
    [("a", FunctionTransformer()), ("b", StandardScaler())],
], ids=label)  # fmt: skip
def test_pipeline(steps):
    agree(Pipeline(steps).fit(X), ROWS)


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_a_pipeline_whose_first_step_does_nothing(nothing):
    """Its columns are those of the next."""
    for x, rows in ((X, ROWS), (TABLE[["age", "fare"]], TABLE[["age", "fare"]])):
        agree(Pipeline([("a", nothing), ("b", StandardScaler())]).fit(x), rows)


def test_a_pipeline_has_the_methods_of_its_last_step():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0)
    assert "transform" not in parse(pipeline).outputs
    assert {"predict", "predict_proba"} <= set(parse(pipeline).outputs)


FUNCTIONS = [
    "absolute",
    "negative",
    "sign",
    "sqrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "arcsin",
    "arccos",
    "arctan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arccosh",
    "arctanh",
    "exp2",
    "cbrt",
    "deg2rad",
    "radians",
    "rad2deg",
    "degrees",
    "rint",
    "square",
    "positive",
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numpy_functions(name, dtype):
    rows = np.concatenate([ROWS, np.array([[0.0, -0.0, 1.0, -1.0, 0.5]]), np.full((1, 5), np.nan)])
    rows = (np.nan_to_num(rows * 10) if dtype == "int64" else rows).astype(dtype)
    own = 6 * np.finfo(np.float32 if dtype == "float32" else np.float64).eps
    agree(FunctionTransformer(getattr(np, name)).fit(X), rows, own if name in COMPOSED else 0.0)


COMPOSED = (
    "arccos", "sinh", "cosh", "arcsinh", "arccosh", "arctanh", "exp2", "cbrt",
)  # fmt: skip
"""Functions that are made of others, where numpy has its own."""


def test_functions_that_validate_refuse_nan():
    rows = np.full((1, 5), np.nan)
    agree(FunctionTransformer(np.exp).fit(X), rows)
    with pytest.raises(ValueError, match="NaN"):
        transform(FunctionTransformer(np.exp, validate=True).fit(X), rows)


@pytest.mark.parametrize("options", [
    {"func": lambda x: x - x.mean(axis=0)}, {"func": np.exp, "kw_args": {"dtype": np.float32}},
    {"func": np.spacing}, {"func": np.cumsum}, {"kw_args": {"a": 1}},
], ids=label)  # fmt: skip
def test_refuses_other_functions(options):
    transformer = FunctionTransformer(**options)
    with pytest.raises(UnsupportedError, match=r"FunctionTransformer with (func|kw_args)="):
        parse(make_pipeline(StandardScaler().fit(X), transformer))


def test_names_the_step_that_is_not_supported():
    class Odd(StandardScaler):
        def transform(self, X):
            return X - X.mean(axis=0)

    with pytest.raises(UnsupportedError, match=r"Odd \(step 'odd/Odd'\).*along the rows"):
        parse(ColumnTransformer([("odd", Odd(), [0])]).fit(X))


def test_says_how_to_convert_what_a_pipeline_does_not_pass_on():
    source = make_pipeline(StandardScaler(), NearestNeighbors(n_neighbors=2)).fit(X)
    with pytest.raises(UnsupportedError, match=r"\(kneighbors, .*Convert pipeline\[-1\] alone"):
        parse(source)
    before, last = (hbconv.convert(part, "reference") for part in (source[:-1], source[-1]))
    found = last.kneighbors(before.transform(X))[1]
    np.testing.assert_array_equal(found, source[-1].kneighbors(source[:-1].transform(X))[1])


def test_refuses_what_was_not_fitted():
    with pytest.raises(NotFittedError, match="Call fit"):
        parse(ColumnTransformer([("a", StandardScaler(), [0])]))


@pytest.mark.parametrize("library", ["default", "pandas", "polars"])
@pytest.mark.parametrize("numbers", ["age", "fare", "class"])
def test_a_text_that_a_later_step_drops_is_no_number(library: str, numbers: str):
    frame = TABLE[[numbers, "old", "sex"]].assign(old="x")
    first = ColumnTransformer([("kept", "passthrough", ["sex"])], remainder="passthrough")
    named = library != "default"
    sex, number = ("kept__sex", f"remainder__{numbers}") if named else (0, 1)
    second = ColumnTransformer(
        [("kept", "passthrough", [sex]), ("fill", SimpleImputer(), [number])]
    )
    if named:
        first.set_output(transform=library)
        second.set_output(transform=library)
    third = ColumnTransformer(
        [("codes", OrdinalEncoder(), ["kept__kept__sex"] if named else [0])],
        remainder=SimpleImputer(),
    )
    source = make_pipeline(first, second, third).fit(frame)
    model = hbconv.convert(source, "reference")
    for rows in (frame, frame.assign(old=3)):
        np.testing.assert_array_equal(model.transform(rows), source.transform(rows))
