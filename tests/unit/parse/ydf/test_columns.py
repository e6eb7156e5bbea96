"""Columns of YDF's models: kinds, dtypes, spellings, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import ydf
from ydf_forests import NUMBERS, boosted, copied, hostile, table, trained

import hbconv
from hbconv.errors import InputError, UnsupportedError

COUNT = np.arange(60)


@pytest.fixture(scope="module")
def model() -> Any:
    """Boosted trees over all kinds of columns."""
    return boosted()


@pytest.fixture(scope="module")
def converted(model: Any) -> hbconv.Model:
    """The same model, converted."""
    return hbconv.convert(model, "reference")


def _rows() -> pd.DataFrame:
    return table(60, 3)


SPELLINGS: dict[str, Any] = {
    "ints": COUNT,
    "small ints": COUNT.astype(np.int8),
    "nullable ints": pd.array(COUNT, dtype="Int64"),
    "bools": COUNT % 2 == 0,
    "bytes": np.array([b"1", b"2", b""] * 20, object),
    "a mixture": np.array([1, "1", b"1", True, np.int8(1), "01"] * 10, object),
    "missing": np.array([np.nan, None, pd.NA, "", "1", "99"] * 10, object),
    "categories": pd.Categorical(COUNT.astype(str)),
    "categories of ints": pd.Categorical(COUNT),
    "text of pandas": pd.array(COUNT.astype(str), dtype="string"),
    "nothing": np.full(60, None),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_categories_by_their_text(model: Any, converted: hbconv.Model, name: str) -> None:
    """Whole numbers, bools and bytes count as their text."""
    rows = _rows().assign(digit=SPELLINGS[name])
    np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))


TRUTHS: dict[str, Any] = {
    "bools": COUNT % 2 == 0,
    "nullable": pd.array(COUNT % 2 == 0, dtype="boolean"),
    "Arrow's": pd.array(COUNT % 2 == 0, dtype="bool[pyarrow]"),
    "categories": pd.Categorical(COUNT % 2 == 0),
    "categories of objects": pd.Categorical((COUNT % 2 == 0).astype(object)),
    "objects": np.array([True, False, None] * 20, object),
    "text": np.array(["true", "false", "True"] * 20, object),
    "text before a null character": np.array(["true\0", "false\0\0", "tr\0ue"] * 20, object),
    "text of pandas before a null character": pd.array(
        ["true\0", "false\0\0", "tr\0ue"] * 20, dtype="string"
    ),
    "many texts": np.array(["true", "false\0", b"true\0", True, "tr\0ue", "\0"] * 300, object),
    "fixed text": np.array(["true", "false", "True\0"] * 20),
}


@pytest.mark.parametrize("name", TRUTHS)
def test_bools_count_as_true_and_false(name: str) -> None:
    """In columns of every dtype, among categories "true", "false", "True", and one with a null."""
    fitted = pd.DataFrame({"told": np.array(["true", "false", "True", "tr\0ue"] * 40, object)})
    fitted["value"] = np.tile([1.0, 3.0, 7.0, 15.0], 40)
    told = ydf.Column("told", ydf.Semantic.CATEGORICAL, min_vocab_frequency=1)
    model = ydf.CartLearner(
        label="value", task=ydf.Task.REGRESSION, features=[told], validation_ratio=0.0
    ).train(fitted)
    rows = pd.DataFrame({"told": TRUTHS[name]})
    want = model.predict(rows)
    assert len(np.unique(want)) > 1
    np.testing.assert_array_equal(hbconv.convert(model, "reference").predict(rows), want)


def test_missing_nullable_bools_are_missing(model: Any, converted: hbconv.Model) -> None:
    """The source refuses them; None in a column of objects is answered by both."""
    truths = [True, False, None] * 20
    want = model.predict(_rows().assign(digit=np.array(truths, object)))
    rows = _rows().assign(digit=pd.array(truths, dtype="boolean"))
    np.testing.assert_array_equal(converted.predict(rows), want)


NUMBERS_AS: dict[str, Callable[[pd.Series], Any]] = {
    "float64": lambda x: x.astype("float64") * (1 + 1e-9),
    "beyond float32": lambda x: x.astype("float64") * 1e300,
    "denormals": lambda x: x.astype("float64") * 1e-310,
    "float16": lambda x: x.astype("float16"),
    "ints": lambda x: (x.fillna(0) * 3).astype("int64") * 2**57 + 2**56 + 1,
    "bools": lambda x: x > 0,
    "nullable": lambda x: x.astype("Float64"),
    "text": lambda x: x.fillna(0).astype(str),
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", NUMBERS_AS)
def test_numbers_are_compared_as_float32(model: Any, converted: hbconv.Model, name: str) -> None:
    """Each column is rounded from its own dtype."""
    rows = _rows()
    rows["x0"] = NUMBERS_AS[name](rows.x0)
    np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))


@pytest.mark.filterwarnings("ignore:overflow")
def test_thresholds_of_wider_rows(model: Any, converted: hbconv.Model) -> None:
    """Values of float64 just below a threshold of float32 round up to it."""
    rows = hostile(model)
    rows[list(NUMBERS)] = np.nextafter(rows[list(NUMBERS)].astype("float64"), -np.inf)
    np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "another order": lambda x: x[x.columns[::-1]],
    "more columns": lambda x: x.assign(other="a"),
    "dict": lambda x: {name: x[name].to_numpy() for name in x},
    "lists": lambda x: {name: x[name].tolist() for name in x},
    "records": lambda x: x.to_dict("records"),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
}


@pytest.mark.parametrize("name", FRAMES)
def test_columns_are_found_by_name(model: Any, converted: hbconv.Model, name: str) -> None:
    """In tables of all kinds."""
    rows = _rows().fillna({"colour": "", "digit": ""})
    np.testing.assert_array_equal(converted.predict(FRAMES[name](rows)), model.predict(rows))


REFUSED: dict[str, tuple[str, Any, str]] = {
    "fraction": ("digit", COUNT * 1.5, "no category"),
    "text": ("x1", "a", "needs numbers"),
    "numbers for bools": ("flag", 2, "0 and 1"),
    "a missing bool": ("flag", np.nan, "missing"),
    "an unseen number": ("own", 6, "above 5"),
    "a negative number": ("own", -2, "below -1"),
    "half a category": ("own", 0.5, "not whole"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_rows_by_name(converted: hbconv.Model, name: str) -> None:
    """The message names the column."""
    column, value, message = REFUSED[name]
    with pytest.raises(InputError, match=message):
        converted.predict(_rows().assign(**{column: value}))


def test_takes_columns_that_no_tree_reads() -> None:
    """Trees of single leaves, over text alone."""
    rows = _rows()
    learner = ydf.GradientBoostedTreesLearner(
        label="two", features=["colour"], num_trees=2, min_examples=1000, validation_ratio=0.0
    )
    model = learner.train(table(600))
    converted = hbconv.convert(model, "torch")
    np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))
    assert not converted.apply(rows).any()


def test_takes_no_tree() -> None:
    """The initial prediction is the answer."""
    model = copied(boosted("value", task=ydf.Task.REGRESSION))
    while model.num_trees():
        model.remove_tree(0)
    found = hbconv.convert(model, "reference").predict(_rows())
    np.testing.assert_array_equal(found, model.predict(_rows()))


def test_a_vector_is_columns_of_its_numbers() -> None:
    """YDF names the entries of a column of vectors."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(80, 3)).astype(np.float32)
    data = {"v": vectors, "y": np.where(vectors[:, 0] > 0, "a", "b")}
    model = ydf.RandomForestLearner(label="y", num_trees=2).train(data)
    rows = {f"v.{place}_of_3": vectors[:, place] for place in range(3)}
    found = hbconv.convert(model, "reference").predict(rows)
    np.testing.assert_array_equal(found, model.predict(data))


def _of_sets() -> Any:
    data = {"words": [["a", "b"], ["c"]] * 40, "y": np.array(["a", "b"] * 40)}
    words = ydf.Feature("words", ydf.Semantic.CATEGORICAL_SET)
    return ydf.RandomForestLearner(label="y", num_trees=2, features=[words]).train(data)


def _of_uplift() -> Any:
    data = table(600).assign(treated=np.array(["a", "b"] * 300))
    options = {"task": ydf.Task.CATEGORICAL_UPLIFT, "uplift_treatment": "treated"}
    return ydf.RandomForestLearner(label="two", num_trees=2, features=["x0"], **options).train(data)


def _with_replacements() -> Any:
    model = copied(trained("RandomForestLearner", label="two", split_axis="SPARSE_OBLIQUE"))
    tree = model.get_tree(0)
    tree.root.condition = ydf.tree.NumericalSparseObliqueCondition(
        missing=False,
        score=1.0,
        attributes=[1],
        weights=[1.0],
        threshold=0.0,
        na_replacements=[9.0],
    )
    model.set_tree(0, tree)
    return model


def _of_one_class() -> Any:
    data = table(60).assign(one="a")
    return ydf.RandomForestLearner(label="one", num_trees=2, features=["x0"]).train(data)


def _of_merged_bins() -> Any:
    data = table(600).assign(far=-1e9 - 1e3 * COUNT[np.arange(600) % 60])
    options = {"discretize_numerical_columns": True, "features": ["far", "x0"], "num_trees": 2}
    model = ydf.RandomForestLearner(label="two", **options).train(data)
    tree = model.get_tree(0)
    far = [column.name for column in model.data_spec().columns].index("far")
    tree.root.condition = ydf.tree.DiscretizedNumericalHigherThanCondition(
        missing=True, score=1.0, attribute=far, threshold_idx=1
    )
    model.set_tree(0, tree)
    return model


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (_of_sets, "features='words: CATEGORICAL_SET'"),
        (_of_uplift, "task='CATEGORICAL_UPLIFT'"),
        (_with_replacements, "na_replacements"),
        (_of_one_class, "label_classes=1"),
        (_of_merged_bins, "discretized column='far'"),
    ],
)
def test_refuses_models_by_name(made: Callable[[], Any], message: str) -> None:
    """What has no exact form here."""
    with pytest.raises(UnsupportedError, match=message):
        hbconv.convert(made(), "reference")
