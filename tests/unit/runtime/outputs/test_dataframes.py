"""What transform returns: frames where the source does or where asked, tensors for tensors; the
names of its columns; its warnings.
"""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
import scipy.sparse
import sklearn
import torch
from fitted import available_backends, fit, matrix
from matrix.case import fitted
from matrix.compiled import compiled
from matrix.estimators import case_names, first_names
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sources import library

import hbconv
from hbconv.errors import InputError, OptionError

RNG = np.random.default_rng(0)
ROWS = 12
TARGET = RNG.integers(0, 2, ROWS)
NUMBERS = pd.DataFrame(
    {
        "a": RNG.normal(size=ROWS).astype(np.float32),
        "b": RNG.integers(0, 9, ROWS),
        "c": RNG.integers(0, 9, ROWS).astype(np.int8),
    },
    index=np.arange(ROWS) * 2 + 5,
)
TABLE = NUMBERS.assign(
    d=RNG.integers(0, 2, ROWS) == 1,
    e=pd.array([None, *range(ROWS - 1)], dtype="Int64"),
    t=RNG.choice(["x", "y"], ROWS),
)
ONE_HOT, SMALL_ONE_HOT = (
    OneHotEncoder(sparse_output=False),
    OneHotEncoder(sparse_output=False, dtype=np.uint8),
)


def nested():
    inner = make_column_transformer(
        (StandardScaler(), ["a"]), ("passthrough", ["b", "c"]), verbose_feature_names_out=False
    )
    return make_union(
        inner, make_pipeline(make_column_transformer((OrdinalEncoder(dtype=np.int64), ["c"])))
    )


PARTS = [("s", StandardScaler(), ["a", "b"]), ("o", ONE_HOT, ["t"]), ("u", SMALL_ONE_HOT, ["t"])]

TRANSFORMERS = {
    "columns": (lambda: ColumnTransformer(PARTS, remainder="passthrough"), TABLE),
    "columns of numbers": (lambda: make_column_transformer((MaxAbsScaler(), ["a"]), ("passthrough", ["c", "b"])), NUMBERS),
    "pipeline": (lambda: make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
    "pipeline that ends in nothing": (lambda: make_pipeline(MaxAbsScaler(), "passthrough"), NUMBERS),
    "components": (lambda: make_pipeline(StandardScaler(), PCA(2)), NUMBERS),
    "union": (lambda: make_union(StandardScaler(), MinMaxScaler(), SelectKBest(k=1)), NUMBERS),
    "nested": (nested, NUMBERS),
    "codes": (lambda: OrdinalEncoder(dtype=np.float32), TABLE[["t", "b"]]),
    "rows": (Normalizer, NUMBERS),
}  # fmt: skip


@pytest.mark.parametrize(("make", "x"), TRANSFORMERS.values(), ids=TRANSFORMERS)
def test_a_frame_of_pandas_is_that_of_the_source(make, x):
    """The index, the names, and the dtype of each column."""
    source = make().set_output(transform="pandas").fit(x, TARGET)
    pd.testing.assert_frame_equal(
        hbconv.convert(source, "reference").transform(x), source.transform(x), rtol=1e-6
    )
    pd.testing.assert_frame_equal(
        hbconv.convert(source, "reference").transform(x[::-3]), source.transform(x[::-3]), rtol=1e-6
    )


@pytest.mark.parametrize("name", ["columns", "pipeline", "components", "union", "codes", "rows"])
def test_a_frame_of_polars_is_that_of_the_source(name):
    make, x = TRANSFORMERS[name]
    x = pl.from_pandas(x)
    source = make().set_output(transform="polars").fit(x, TARGET)
    polars.testing.assert_frame_equal(
        hbconv.convert(source, "reference").transform(x), source.transform(x), rel_tol=1e-6
    )


NOTHING = {
    "a selection": lambda: SelectKBest(k=0),
    "an indicator": MissingIndicator,
    "columns that pass": lambda: make_column_transformer(("passthrough", [])),
    "no transformers": lambda: make_column_transformer(("drop", ["a"])),
    "a union of nothing": lambda: make_union(SelectKBest(k=0), SelectKBest(k=0)),
    "a union with nothing": lambda: make_union(SelectKBest(k=0), StandardScaler()),
}


@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.parametrize("make", NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_without_columns_has_rows(make, library):
    """And an index, of pandas."""
    for x in (NUMBERS, pl.from_pandas(NUMBERS)):
        source = make().set_output(transform=library).fit(x, TARGET)
        found, want = hbconv.convert(source, "reference").transform(x), source.transform(x)
        assert type(found) is type(want)
        assert found.shape == want.shape
        assert found.shape[0] == ROWS
        assert list(getattr(found, "index", ())) == list(getattr(want, "index", ()))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_arrays_become_frames_where_asked(library):
    source = StandardScaler().fit(matrix())
    model = hbconv.convert(source, "reference")
    assert isinstance(model.transform(matrix()), np.ndarray)
    assert model.set_output(transform=library) is model
    found, expected = (
        model.transform(matrix()),
        source.set_output(transform=library).transform(matrix()),
    )
    assert type(found) is type(expected)
    assert list(found.columns) == list(expected.columns)
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())
    assert isinstance(model.set_output(transform="default").transform(matrix()), np.ndarray)
    assert isinstance(model.set_output().transform(matrix()), np.ndarray)


def test_scikit_learns_configuration_holds_where_nothing_else_was_chosen():
    model = hbconv.convert(StandardScaler().fit(NUMBERS), "reference")
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(model.transform(NUMBERS), pd.DataFrame)
        assert isinstance(model.set_output(transform="default").transform(NUMBERS), np.ndarray)
    assert isinstance(hbconv.convert(fit("linear"), "reference").predict(matrix()), np.ndarray)


def test_a_stored_model_keeps_its_container(tmp_path):
    model = hbconv.convert(
        StandardScaler().set_output(transform="pandas").fit(NUMBERS), "reference"
    )
    model.save(tmp_path / "m.hbc")
    for other in (
        hbconv.load(tmp_path / "m.hbc"),
        pickle.loads(pickle.dumps(model.set_output(transform="polars"))),
        model.for_target(backend="torch"),
    ):
        assert type(other.transform(NUMBERS)) is (
            pd.DataFrame
            if other.backend == "reference" and other.parsed.traits.frame_format.library == "pandas"
            else pl.DataFrame
        )


def test_scikit_learn_sets_the_container_of_a_model_in_a_pipeline():
    model = hbconv.convert(StandardScaler().fit(NUMBERS), "reference")
    pipeline = make_pipeline(model, MaxAbsScaler().fit(NUMBERS)).set_output(transform="pandas")
    assert list(pipeline.transform(NUMBERS).columns) == ["a", "b", "c"]


def test_what_cannot_be_a_frame_says_so():
    model = hbconv.convert(OneHotEncoder().fit(TABLE[["t"]]), "reference").set_output(
        transform="pandas"
    )
    with pytest.raises(InputError, match=r"sparse matrix.*Call set_output\(transform='default'\)"):
        model.transform(TABLE[["t"]])
    with pytest.raises(OptionError, match="transform='frame' is no output"):
        model.set_output(transform="frame")
    assert not hasattr(hbconv.convert(fit("linear"), "reference"), "set_output")


@pytest.mark.parametrize("backend", available_backends())
def test_tensors_become_tensors(backend):
    model, rows = hbconv.convert(fit("linear"), backend), torch.from_numpy(matrix())
    for method in model.methods:
        found, expected = getattr(model, method)(rows), getattr(model, method)(matrix())
        assert isinstance(found, torch.Tensor) == (expected.dtype.kind not in "OUS")
        np.testing.assert_array_equal(found, expected)


def test_tensors_become_lists_and_tuples_of_tensors():
    rows = torch.from_numpy(matrix())
    forest, trees = (hbconv.convert(fit(name), "reference") for name in ("forest", "regressor"))
    assert isinstance(forest.apply(rows), torch.Tensor)
    assert trees.predict(rows).dtype == torch.float64
    assert isinstance(
        hbconv.convert(fit("scaler"), "reference").transform(rows.float()), torch.Tensor
    )
    assert all(
        isinstance(stage, torch.Tensor)
        for stage in hbconv.runtime.outputs.tensors.as_tensors([matrix(), matrix()], rows)
    )
    assert scipy.sparse.issparse(
        hbconv.runtime.outputs.tensors.as_tensors(scipy.sparse.csr_matrix(matrix()), rows)
    )


SUPPORT = json.loads((Path(hbconv.__file__).parent / "support.json").read_text("utf-8"))


def cases():
    """Yield the names of cases: the first of each transformer runs always, of others a share."""
    firsts = set(first_names())
    for name in case_names():
        if not name.same_as:
            is_transformer = "transform" in SUPPORT[name.estimator].get("methods", ())
            always = is_transformer and name in firsts
            yield pytest.param(name, marks=() if always else pytest.mark.share("case"))


@pytest.mark.parametrize("case", [*cases()], ids=str, indirect=True)
def test_names_of_columns_are_those_of_the_source(case):
    """By themselves, for other names of the input columns, for too few of them, and for those
    of fitting.
    """
    source = fitted(case)
    model = compiled(case, "reference")
    if "transform" not in model.methods:
        assert not hasattr(model, "get_feature_names_out")
        return
    width = model.n_features_in_
    given = (
        None,
        [f"column {i}" for i in range(width)],
        [f"column {i}" for i in range(width + 1)],
        getattr(source, "feature_names_in_", None),
    )
    for names in given:
        found, expected = names_of(model, names), names_of(source, names)
        in_other_words = isinstance(expected, str) and library(source) != "sklearn"
        assert isinstance(found, str) if in_other_words else found == expected


def names_of(estimator, names):
    try:
        found = (
            estimator.get_feature_names_out()
            if names is None
            else estimator.get_feature_names_out(names)
        )
    except AttributeError:
        return None
    except (ValueError, IndexError) as error:
        return str(error)
    assert not isinstance(estimator, hbconv.Model) or found.dtype == object
    return [*map(str, found)]


@pytest.mark.parametrize(("options", "columns"), [
    ({"handle_unknown": "ignore", "drop": "first"}, ["t", "b"]),
    ({"handle_unknown": "ignore"}, []),
    ({"handle_unknown": "warn"}, ["t", "b"]),
    ({"handle_unknown": "warn", "max_categories": 2}, ["b"]),
    ({"handle_unknown": "infrequent_if_exist", "drop": "if_binary"}, ["t"]),
    ({"handle_unknown": "infrequent_if_exist", "min_frequency": 2}, []),
])  # fmt: skip
def test_unknown_categories_are_warned_of_as_by_the_source(options, columns):
    source = OneHotEncoder(**options).fit(TABLE[["t", "b"]])
    rows = TABLE[["t", "b"]].assign(**{name: {"t": "z", "b": 77}[name] for name in columns})
    assert warned(hbconv.convert(source, "reference"), rows) == warned(source, rows)
    assert len(warned(source, rows)) == bool(columns)


def warned(estimator, rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.transform(rows)
    return [(warning.category, str(warning.message)) for warning in caught]


def test_names_with_places_for_input_columns():
    source = PolynomialFeatures(2).fit(matrix()[:, :2])
    model = hbconv.convert(
        make_pipeline(source, Binarizer().fit(source.transform(matrix()[:, :2]))), "reference"
    )
    assert model.get_feature_names_out(["age", "x1"]).tolist() == [
        "1",
        "age",
        "x1",
        "age^2",
        "age x1",
        "x1^2",
    ]


def test_a_frame_of_no_columns_is_that_of_the_source():
    source = make_column_transformer(("drop", ["c"])).set_output(transform="pandas")
    frame = pd.DataFrame({"c": [1.0, 2.0]}, index=[7, 3])
    source.fit(frame)
    found = hbconv.convert(source, "reference").transform(frame)
    pd.testing.assert_frame_equal(found, source.transform(frame))
