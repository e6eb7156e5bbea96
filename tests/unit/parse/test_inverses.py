"""``inverse_transform`` on rows that ``transform`` never returns, and of what the matrix lacks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import NMF, PCA, DictionaryLearning, KernelPCA, TruncatedSVD
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiLabelBinarizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

import hbconv
from hbconv.errors import InputError, OptionError

RNG = np.random.RandomState(0)
X = RNG.randn(60, 5) * (RNG.rand(60, 5) > 0.3)
Y = (X[:, 0] > 0).astype(int)
ROWS = RNG.randn(7, 5) * (RNG.rand(7, 5) > 0.3)
TEXTS = np.array(
    [["a", "x"], ["b", "y"], ["c", "x"], ["a", "y"], ["a", "x"], ["d", "x"]], dtype=object
)
NUMBERS = np.array([[1, 10], [2, 20], [3, 10], [1, 20], [1, 10], [4, 10]])


def asked(estimator: Any, x: Any) -> Any:
    """Return the answer, or the error in its place."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return estimator.inverse_transform(x)
    except Exception as error:
        return error


def assert_inverts(estimator: Any, *rows: Any) -> None:
    """Assert that a model answers rows, or refuses them, as the estimator does."""
    model = hbconv.convert(estimator, "reference")
    for x in rows:
        want = asked(estimator, x.copy())
        if isinstance(x, np.ndarray):
            x.setflags(write=False)
        got = asked(model, x)
        if isinstance(want, Exception):
            assert isinstance(got, InputError), got
        else:
            assert_equal(got, want)


def assert_equal(got: Any, want: Any) -> None:
    assert type(got) is type(want), got
    if isinstance(want, list):
        assert repr(got) == repr(want)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if sp.issparse(want):
        got = got.toarray()
        want = want.toarray()
    if want.dtype.kind == "f":
        tolerance = 1e-10 if want.dtype == np.float64 else 2e-4
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        return
    assert got.tolist() == want.tolist()


def forms(x: Any) -> list[Any]:
    """Return the same rows in all forms, and damaged ones."""
    missing = x.copy()
    missing[0, 0] = np.nan
    infinite = x.copy()
    infinite[0, 0] = np.inf
    return [
        x,
        x.astype(np.float32),
        np.round(x).astype(np.int64),
        sp.csr_matrix(x),
        sp.csc_matrix(x),
        sp.csr_array(x.astype(np.float32)),
        missing,
        infinite,
        sp.csr_matrix(missing),
        x[:1],
    ]


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_scaling=False),
        QuantileTransformer(n_quantiles=20),
        QuantileTransformer(n_quantiles=20, output_distribution="normal"),
    ],
    ids=str,
)
def test_scalers_take_every_form(scaler: Any) -> None:
    assert_inverts(scaler.fit(X), *forms(ROWS), pd.DataFrame(ROWS, columns=list("vwxyz")))


@pytest.mark.parametrize(
    "reducer",
    [
        PCA(3, whiten=True),
        TruncatedSVD(3),
        NMF(3, tol=0, max_iter=5),
        KernelPCA(3, kernel="rbf", fit_inverse_transform=True),
        DictionaryLearning(3, max_iter=3, split_sign=True, transform_algorithm="threshold"),
        GaussianRandomProjection(3, random_state=0),
        SparseRandomProjection(3, random_state=0, compute_inverse_components=True),
        FeatureAgglomeration(3),
    ],
    ids=str,
)
def test_decompositions_take_every_form(reducer: Any) -> None:
    reducer.fit(np.abs(X))
    width = reducer.transform(np.abs(X[:2])).shape[1]
    assert_inverts(reducer, *forms(np.tile(ROWS, 2)[:, :width]))


@pytest.mark.parametrize("selector", [SelectKBest(k=3), VarianceThreshold(0.1)], ids=str)
def test_selectors_put_columns_back(selector: Any) -> None:
    """Those of a sparse matrix are not looked at."""
    width = selector.fit(X, Y).get_support().sum()
    assert_inverts(selector, *forms(ROWS[:, :width]))


@pytest.mark.parametrize("min_frequency", [None, 2])
@pytest.mark.parametrize("handle", ["error", "ignore", "infrequent_if_exist", "warn"])
@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize("data", [TEXTS, NUMBERS, NUMBERS * 1.5], ids=["texts", "ints", "floats"])
def test_one_hot_encoders(data: Any, drop: Any, handle: str, min_frequency: Any) -> None:
    """Rows of zeros are dropped categories, unknown ones, or refused."""
    encoder = OneHotEncoder(
        drop=drop, handle_unknown=handle, min_frequency=min_frequency, sparse_output=False
    ).fit(data)
    x = encoder.transform(data)
    zeros = x.copy()
    zeros[1] = 0
    scores = RNG.rand(*x.shape)
    rows = (x, zeros, scores, x.astype(bool), x.astype(np.float32), x * np.nan)
    assert_inverts(encoder, *rows, sp.csr_matrix(x), sp.csr_matrix(zeros))


@pytest.mark.parametrize("min_frequency", [None, 2])
@pytest.mark.parametrize("unknown", [None, -1, np.nan, 99])
@pytest.mark.parametrize("data", [TEXTS, NUMBERS, NUMBERS * 1.5], ids=["texts", "ints", "floats"])
def test_ordinal_encoders(data: Any, unknown: Any, min_frequency: Any) -> None:
    """Negative codes count from the end, and those beyond are refused."""
    handle = {} if unknown is None else {"handle_unknown": "use_encoded_value"}
    encoder = OrdinalEncoder(unknown_value=unknown, min_frequency=min_frequency, **handle).fit(data)
    x = encoder.transform(data)
    rows = [x, x.astype(np.float32), x.astype(np.int64)]
    for value in (unknown if unknown is not None else 0, -1, 0.7, 9, -9, np.nan):
        changed = x.copy()
        changed[0] = value
        rows.append(changed)
    assert_inverts(encoder, *rows)


@pytest.mark.parametrize("missing", [np.nan, -2])
def test_an_ordinal_encoder_gives_missing_values_back(missing: float) -> None:
    data = np.where(TEXTS == "d", None, TEXTS)
    encoder = OrdinalEncoder(encoded_missing_value=missing).fit(data)
    assert_inverts(encoder, np.asarray(encoder.transform(data)))


@pytest.mark.parametrize("data", [["a", "a"], [7, 7], [0.5, 0.5]], ids=["texts", "ints", "floats"])
@pytest.mark.parametrize(
    "encoder",
    [
        OrdinalEncoder(),
        OneHotEncoder(sparse_output=False),
        OneHotEncoder(drop="first", sparse_output=False),
        OneHotEncoder(drop="if_binary", sparse_output=False),
        OneHotEncoder(drop="if_binary", handle_unknown="ignore", sparse_output=False),
    ],
    ids=str,
)
def test_a_column_may_have_one_category(encoder: Any, data: list[Any]) -> None:
    """A row of zeros is that category where another column drops one."""
    rows = np.array([data, ["b", "c"]], dtype=object).T
    x = encoder.fit(rows).transform(rows)
    assert_inverts(encoder, x, x * 0)


def test_a_missing_value_may_be_infrequent() -> None:
    """Its place among all categories is beyond the frequent ones, and is refused."""
    data = np.array([["a"], ["b"], ["c"], ["a"], ["a"], ["d"], [np.nan]], dtype=object)
    encoder = OrdinalEncoder(max_categories=2).fit(data)
    x = encoder.transform(data)
    assert_inverts(encoder, x, np.where(x == 0, np.nan, x))


def test_categories_of_an_array_of_objects_have_one_dtype() -> None:
    data = pd.DataFrame({"a": [True, False, True], "b": [1, 2, 2], "c": [1.5, 2, 2]})
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1).fit(data)
    x = encoder.transform(data)
    got = hbconv.convert(encoder, "reference").inverse_transform(x)
    assert repr(got.tolist()) == repr(encoder.inverse_transform(x).tolist())


@pytest.mark.parametrize("encode", ["onehot", "onehot-dense", "ordinal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_become_their_centres(encode: str, dtype: Any) -> None:
    bins = KBinsDiscretizer(3, encode=encode, strategy="uniform")
    x = bins.fit(X.astype(dtype)).transform(ROWS)
    x = x.toarray() if sp.issparse(x) else x
    assert_inverts(bins, x, x + 0.3, x + 5, -x, x * 0, x.astype(np.float32), sp.csr_matrix(x))


@pytest.mark.parametrize("labels", [list("abca"), list("ab"), [1, 2, 3], [True, False], ["q"]])
def test_labels(labels: Any) -> None:
    """Codes of no class, and floats, are refused."""
    encoder = LabelEncoder().fit(labels)
    last = len(encoder.classes_) - 1
    codes = ([0, last], [last + 1], [-1], [0.0], [np.nan])
    assert_inverts(encoder, *map(np.array, codes), pd.Series([0, last]))


@pytest.mark.parametrize("labels", [list("abca"), list("ab"), [1, 2, 3], ["q"]])
@pytest.mark.parametrize("shown", [(0, 1), (-1, 1), (-2, 3)])
def test_binarized_labels(labels: Any, shown: tuple[int, int]) -> None:
    """Scores count by the largest, or by the middle between the two labels."""
    binarizer = LabelBinarizer(neg_label=shown[0], pos_label=shown[1]).fit(labels)
    x = binarizer.transform(labels)
    scores = RNG.randn(*x.shape)
    positive = sp.csr_matrix(np.maximum(scores, 0))
    assert_inverts(binarizer, x, x * 0.5, scores, x.astype(np.float32), positive)


def test_sets_of_labels() -> None:
    sets = MultiLabelBinarizer().fit([("a", "b"), ("c",)])
    x = sets.transform([("a", "c"), ()])
    assert_inverts(sets, x, x.astype(float), 2 * x, sp.csr_matrix(x), sp.csc_matrix(2 * x))


@pytest.mark.parametrize("sparse", [True, False])
def test_terms_and_names(sparse: bool) -> None:
    """Lists have an item for each row, made of what is not 0."""
    names = DictVectorizer(sparse=sparse).fit([{"a": 1, "b": "x"}, {"b": "y", "c": 3}])
    assert_inverts(names, *forms(ROWS[:, :4]))
    terms = CountVectorizer().fit(["a bb cc bb", "dd cc", "", "ee bb"])
    assert_inverts(terms, *forms(ROWS[:, :4]), terms.transform(["bb ee", ""]))


@pytest.mark.parametrize(
    "whole",
    [
        make_pipeline(StandardScaler(), PCA(2)),
        make_pipeline(MaxAbsScaler(), "passthrough", SelectKBest(k=2)),
        make_pipeline(FunctionTransformer(np.log1p, np.expm1), MinMaxScaler()),
        make_pipeline(StandardScaler(), KBinsDiscretizer(3, strategy="uniform")),
        FrozenEstimator(MaxAbsScaler().fit(X)),
        GridSearchCV(PCA(), {"n_components": [2, 3]}),
    ],
    ids=lambda whole: type(whole).__name__,
)
def test_estimators_around_others_invert_what_these_do(whole: Any) -> None:
    whole.fit(np.abs(X), Y)
    x = whole.transform(np.abs(ROWS))
    x = x.toarray() if sp.issparse(x) else x
    assert_inverts(whole, x, x.astype(np.float32), sp.csr_matrix(x))


def test_a_pipeline_has_the_method_where_all_its_steps_do() -> None:
    model = hbconv.convert(
        make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y), "reference"
    )
    assert not hasattr(model, "inverse_transform")


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (SimpleImputer(add_indicator=True), "depends on the other rows"),
        (
            FunctionTransformer(np.abs, np.spacing, check_inverse=False),
            "inverse_func=<ufunc 'spacing'>",
        ),
        (make_pipeline(SimpleImputer(add_indicator=True), MaxAbsScaler()), "SimpleImputer"),
    ],
    ids=str,
)
def test_what_is_refused_is_refused_alone_and_by_name(estimator: Any, reason: str) -> None:
    """``transform`` is answered all the same."""
    x = np.where(X == 0, np.nan, X)
    model = hbconv.convert(estimator.fit(x), "reference")
    assert model.transform(x[:3]).shape == estimator.transform(x[:3]).shape
    with pytest.raises(AttributeError, match=reason):
        _ = model.inverse_transform
    assert model.inverse is None


def test_targets_are_inverted_to_numbers_alone() -> None:
    """The target of a regressor may be transformed by any of them."""
    y = np.abs(X[:, :2]) + 1
    whole = TransformedTargetRegressor(LinearRegression(), transformer=PCA(2, whiten=True))
    whole.fit(X, y)
    got = hbconv.convert(whole, "reference").predict(ROWS)
    np.testing.assert_allclose(got, whole.predict(ROWS), rtol=1e-10)


@pytest.mark.parametrize(
    "transformer",
    [
        KBinsDiscretizer(2, encode="ordinal", strategy="uniform"),
        KBinsDiscretizer(2, encode="onehot-dense", strategy="uniform"),
        OneHotEncoder(sparse_output=False),
        OrdinalEncoder(),
    ],
    ids=str,
)
def test_targets_are_inverted_to_numbers_of_tables(transformer: Any) -> None:
    """Inverses that take numbers from tables give a target."""
    whole = TransformedTargetRegressor(
        LinearRegression(), transformer=transformer, check_inverse=False
    ).fit(X, Y + 3)
    got = hbconv.convert(whole, "reference").predict(ROWS)
    want = whole.predict(ROWS)
    assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_a_file_keeps_the_inverse(backend: str, tmp_path: Path) -> None:
    """With its compiled programs, where the file is trusted."""
    source = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    model = hbconv.convert(source, backend)
    x = source.transform(ROWS)
    want = model.inverse_transform(x)
    model.save(tmp_path / "model.hbc")
    for trusted in (False, True):
        loaded = hbconv.load(tmp_path / "model.hbc", trusted=trusted)
        assert np.array_equal(loaded.inverse_transform(x), want)
        assert np.array_equal(loaded.transform(ROWS), model.transform(ROWS))
        assert bool(loaded.inverse.compiled)


def test_an_export_holds_the_inverse_alone(tmp_path: Path) -> None:
    """Its rows have other columns than those of the other methods."""
    runtime = pytest.importorskip("onnxruntime")
    source = PCA(2).fit(X)
    model = hbconv.convert(source, "reference")
    path = tmp_path / "inverse.onnx"
    model.export(path, methods=["inverse_transform"])
    session = runtime.InferenceSession(path)
    x = source.transform(ROWS)
    (got,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(got, source.inverse_transform(x), rtol=1e-10)
    with pytest.raises(OptionError, match="a file of its own"):
        model.export(path, methods=["transform", "inverse_transform"])


def test_the_inverse_is_a_model() -> None:
    """It is explained and bound as other models are."""
    source = PCA(2).fit(X)
    model = hbconv.convert(source, "reference")
    x = source.transform(ROWS[:1])
    assert model.inverse.n_features_in_ == 2
    assert "inverse_transform" in str(model.inverse.explain("parsed"))
    np.testing.assert_allclose(
        model.bind("inverse_transform", rows=1)(x), source.inverse_transform(x), rtol=1e-10
    )
    np.testing.assert_allclose(
        model.for_target(backend="torch").inverse_transform(x),
        model.inverse_transform(x),
        rtol=1e-12,
    )


@pytest.mark.parametrize("options", [{"max_categories": 1}, {"min_frequency": 10}])
def test_a_column_of_infrequent_categories_alone(options: dict[str, int]) -> None:
    """Its one code stands for all of them."""
    x = np.array([[1.0], [2.0], [1.0], [2.0]])
    encoder = OrdinalEncoder(**options).fit(x)
    model = hbconv.convert(encoder, "reference")
    codes = encoder.transform(x)
    np.testing.assert_array_equal(model.transform(x), codes)
    assert model.inverse_transform(codes).tolist() == encoder.inverse_transform(codes).tolist()
    with pytest.raises(InputError, match="codes of no category"):
        model.inverse_transform(codes + 1)
