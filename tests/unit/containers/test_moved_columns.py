"""A column keeps its type through selections, concatenations and frames: alone, beside texts and in
chains of ColumnTransformers by position.
"""

import numpy as np
import pandas as pd
import pytest
from agreement import label
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import hbconv
from hbconv.containers import Columns, Concat, Graph, Map, Output, Schema, Select, Type
from hbconv.containers.moved_columns import of_objects, select

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "v": RNG.normal(size=40).astype(np.float32),
        "w": RNG.normal(size=40),
        "i": RNG.integers(0, 4, 40),
        "s": RNG.choice(["a", "b"], 40),
        "u": RNG.choice(["x", "y", ""], 40),
    }
)
TABLE.loc[3:6, "u"] = np.nan
TARGET = RNG.random(40) > 0.5
ENCODE = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
CODE = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)

FIRST = [SimpleImputer(), StandardScaler(), "passthrough"]
REST = ["passthrough", StandardScaler(), SimpleImputer(strategy="most_frequent"), "drop"]
OUTPUTS = ["default", "pandas", "polars"]


def chain(first, rest, output):
    """Numbers first, texts passed; then texts by position."""
    one = ColumnTransformer([("n", first, [0, 1])], remainder="passthrough")
    two = ColumnTransformer([("e", ENCODE, [3, 4]), ("i", CODE, [2])], remainder=rest)
    one.set_output(transform=output)
    return make_pipeline(one, two, LogisticRegression())


@pytest.mark.filterwarnings("ignore:X has feature names", "ignore:Found unknown categories")
@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize("rest", REST, ids=label)
@pytest.mark.parametrize("first", FIRST, ids=label)
def test_two_stages_by_position(first, rest, as_array):
    rows = TABLE.to_numpy() if as_array else TABLE
    for output in OUTPUTS[: 2 if as_array else 3]:  # polars takes no array of texts and NaN
        source = chain(first, rest, output).fit(rows, TARGET)
        found = hbconv.convert(source, "reference").predict_proba(rows)
        np.testing.assert_allclose(found, source.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_three_stages_on_each_backend(backend):
    rest = ColumnTransformer([("m", MinMaxScaler(), [-1])], remainder="passthrough")
    source = make_pipeline(*chain(FIRST[0], REST[1], "default")[:2], rest, LogisticRegression())
    source.fit(TABLE, TARGET)
    found = hbconv.convert(source, backend).predict_proba(TABLE)
    np.testing.assert_allclose(found, source.predict_proba(TABLE), rtol=0, atol=1e-6)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("given", [np.nan, None])
def test_a_missing_text_is_none_behind_polars_alone(given, output):
    rows = TABLE[["w", "u"]].astype({"u": object})
    rows.loc[3:6, "u"] = given
    passed = ColumnTransformer([("n", "passthrough", ["w"])], remainder="passthrough")
    passed.set_output(transform=output)
    source = make_pipeline(passed, ColumnTransformer([("e", CODE, [1])])).fit(rows)
    asked = pd.DataFrame({"w": 0.0, "u": ["x", None, np.nan, "new"]}, dtype=object)
    model = hbconv.convert(source, "reference")
    for frame in (rows, asked.iloc[:3], asked):
        np.testing.assert_array_equal(model.transform(frame), source.transform(frame))


def test_floats_of_polars_are_read_as_float64():
    rows = TABLE[["v", "w"]].astype("float32")
    for output in OUTPUTS:
        steps = make_pipeline(SimpleImputer(), StandardScaler()).set_output(transform=output)
        source = make_pipeline(ColumnTransformer([("n", steps, ["w", "v"])]), StandardScaler())
        source.fit(rows)
        found = hbconv.convert(source, "reference").transform(rows)
        np.testing.assert_array_equal(found, source.transform(rows), output)


# The nodes


def typed(node, dtypes):
    schema = node.schema if isinstance(node, Columns) else leaf(node).schema
    graph = Graph(schema, {"transform": Output(node)})
    return graph.with_schema(schema.with_dtypes(dtypes)).outputs["transform"].node


def leaf(node):
    return node if isinstance(node, Columns) else leaf(node.inputs[0])


TWO = Columns.of(Schema.table(["number", "other"]))


@pytest.mark.parametrize(
    ("dtypes", "dtype"),
    [
        (("float32", "float32"), "float32"),
        (("float32", "float64"), "float64"),
        (("float32", "string"), "float64"),
        (("int64", "string"), "float64"),
    ],
)
def test_numbers_have_the_dtype_of_their_array(dtypes, dtype):
    """Beside a text they are objects, of which the source makes float64."""
    array = Concat((select(TWO, [0]), select(TWO, [1])))
    assert typed(select(array, [0]), dtypes).type == Type(1, dtype)


def test_no_columns_of_objects_are_no_columns():
    array = Concat((select(TWO, [0]), select(TWO, [1])))
    made = typed(Select(array, np.array([], np.int32)), ("float64", "string"))
    assert made.type == Type(0, "float64")


def test_other_nodes_stay():
    node = Map(TWO, "exp")
    assert of_objects(node) is node


# Columns that are passed on, and then dropped


def dropped(output="default"):
    """A chain that reads v and w alone, of a table of numbers and texts."""
    one = ColumnTransformer([("w", StandardScaler(), [1])], remainder="passthrough")
    two = ColumnTransformer([("k", "passthrough", [0, 1])])
    return make_pipeline(one.set_output(transform=output), two)


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_column_that_is_dropped_later_may_hold_anything(output):
    source = dropped(output).fit(TABLE)
    model = hbconv.convert(source, "reference")
    rows = TABLE.astype({"v": "float64"})
    want = np.asarray(source.transform(rows)).astype(float)
    for given in (rows, rows.assign(s=1.5), rows.assign(u=None), rows.to_dict("records")):
        np.testing.assert_allclose(model.transform(given), want, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.transform({"v": 2.0, "w": 0.5}), model.transform(
        rows.assign(v=2.0, w=0.5)[:1]))  # fmt: skip


@pytest.mark.parametrize("other", ["float32", "float64", "int64"])
def test_a_dropped_number_has_its_part_in_the_dtype(other):
    """Numbers of one array have a common dtype; beside a text they are float64."""
    rows = TABLE[["v", "w", "i"]].astype("float32")
    source = dropped().fit(rows)
    for given in (rows.astype({"i": other}), rows.assign(i="text")):
        found = hbconv.convert(source, "reference").transform(given)
        want = source.transform(given)
        assert found.dtype == ("float64" if want.dtype == object else want.dtype)
        np.testing.assert_allclose(found, want.astype(found.dtype), rtol=1e-6)
