"""Named traps: models and rows that a converter gets silently wrong, or fails on in ordinary use,
each against scikit-learn itself.

Those of trees are in tests/conformance/trees; of neighbours, support vectors, transformers and
estimators around others in tests/unit/parse.
"""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from fitted import available_backends
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, StandardScaler
from sources import compared
from tolerances import brute_force

import hbconv
from hbconv.errors import InputError

BACKENDS = available_backends()
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4)) * [1.0, 3.0, 0.5, 2.0] + [0.0, 5.0, 0.0, -1.0]
VALUE = X[:, 0] - X[:, 1] / 3 + X[:, 2] + 0.2 * RNG.normal(size=150)
TWO = np.where(VALUE > -1.5, "yes", "no")
THREE = np.digitize(VALUE, [-2.5, -0.5])
COLOURS = np.array(["red", "blue", "Zürich", "日本"], dtype=object)[RNG.integers(0, 4, 150)]
TABLE = pd.DataFrame({"colour": COLOURS, "size": RNG.choice(["S", "M"], 150), "x": X[:, 0]})

on_every_backend = pytest.mark.parametrize("backend", BACKENDS)


def same(model, rows, *methods, backend="reference", rtol=1e-9, atol=1e-12):
    """Assert the answers of the source: their form, shape, dtype and values."""
    converted = hbconv.convert(model, backend=backend)
    for method in methods or compared(converted):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = getattr(model, method)(rows)
        got = getattr(converted, method)(rows)
        want, got = (a.toarray() if hasattr(a, "toarray") else np.asarray(a) for a in (want, got))
        assert (got.shape, got.dtype) == (want.shape, want.dtype), method
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=method)
        else:
            np.testing.assert_array_equal(got, want, err_msg=method)


# Silently wrong answers.


@on_every_backend
@pytest.mark.parametrize("y", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("cv", [False, True])
def test_logistic_probabilities_of_two_and_more_classes(cv, y, backend):
    several = LogisticRegressionCV(
        Cs=2,
        cv=2,
        max_iter=1000,
        l1_ratios=(0,),
        use_legacy_attributes=False,
        scoring="neg_log_loss",
    )
    same((several if cv else LogisticRegression()).fit(X, y), X, backend=backend)


@on_every_backend
@pytest.mark.parametrize(
    "options",
    [{"drop": "first"}, {"drop": "if_binary"}, {"min_frequency": 40}, {"max_categories": 2}],
    ids=str,
)
def test_one_hot_options_change_the_width(options, backend):
    same(
        OneHotEncoder(handle_unknown="ignore", **options).fit(TABLE[["colour", "size"]]),
        TABLE[["colour", "size"]],
        backend=backend,
    )


@on_every_backend
def test_a_fraction_is_no_category(backend):
    codes = RNG.integers(0, 3, (60, 2)).astype(float)
    rows = np.array([[1.7, 2.0], [np.nextafter(1.0, 2.0), -0.0], [1.0, 2.9999999]])
    same(OneHotEncoder(handle_unknown="ignore").fit(codes), rows, backend=backend)


def test_an_unknown_category_is_refused_where_the_source_refuses_it():
    model = hbconv.convert(OneHotEncoder().fit(TABLE[["colour"]]), backend="reference")
    with pytest.raises(InputError, match="colour"):
        model.transform(pd.DataFrame({"colour": ["red", "mauve"]}))


@on_every_backend
def test_text_longer_than_any_category_is_unknown(backend):
    fitted = pd.DataFrame({"word": ["abcd", "x", "yz", "abcd"]})
    same(
        OneHotEncoder(handle_unknown="ignore").fit(fitted),
        pd.DataFrame({"word": ["abcdXYZ", "abc", "", "abcd"]}),
        backend=backend,
    )


@pytest.mark.parametrize("unseen", [[7], [-1], [2]])
def test_an_unseen_label_is_refused(unseen):
    model = hbconv.convert(LabelEncoder().fit([1, 3, 5]), backend="reference")
    np.testing.assert_array_equal(model.transform([5, 1, 3]), [2, 0, 1])
    with pytest.raises(InputError):
        model.transform(unseen)


@on_every_backend
def test_several_targets_stay_columns(backend):
    same(Ridge().fit(X, np.stack([VALUE, -VALUE], axis=1)), X, backend=backend)


# Failures in ordinary use.


@on_every_backend
def test_text_beyond_ascii(backend):
    rows = pd.DataFrame({"colour": ["Zürich", "日本", "Zurich", "日", ""]})
    same(OneHotEncoder(handle_unknown="ignore").fit(TABLE[["colour"]]), rows, backend=backend)


def test_imputing_text():
    holes = TABLE[["colour", "size"]].astype(object).mask(RNG.random((150, 2)) < 0.2, np.nan)
    model = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    ).fit(holes)
    same(model, holes)


@on_every_backend
@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_a_table_with_a_column_of_strings(dtype, backend):
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["colour"]), remainder=StandardScaler()
        ),
        LogisticRegression(),
    )
    columns = ["colour", "x"]
    model.fit(TABLE[columns], TWO)
    same(model, TABLE[columns].astype({"colour": dtype}), backend=backend)


@on_every_backend
@pytest.mark.parametrize(
    "model",
    [LinearRegression(), make_pipeline(StandardScaler(), PCA(2))],
    ids=["predict", "transform"],
)
def test_a_table_of_many_columns(model, backend):
    table = pd.DataFrame(X, columns=list("abcd"))
    same(model.fit(table, VALUE), table, backend=backend)


@on_every_backend
def test_sparse_rows(backend):
    rows = X.copy()
    rows[::2, 2] = 0.0
    same(LogisticRegression().fit(rows, TWO), csr_matrix(rows), backend=backend)
    near = KNeighborsClassifier(3, algorithm="brute").fit(rows, TWO)
    same(near, csr_matrix(rows), "predict", "predict_proba", backend=backend)
    same(near, csr_matrix(rows), "kneighbors", backend=backend, atol=brute_force(rows, rows))


@on_every_backend
def test_an_empty_batch(backend):
    converted = hbconv.convert(
        make_pipeline(StandardScaler(), LogisticRegression()).fit(X, TWO), backend=backend
    )
    assert converted.predict_proba(X[:0]).shape == (0, 2)
    assert converted.predict(X[:0]).dtype == TWO.dtype


def test_onnx_needs_no_exporter(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    same(StandardScaler().fit(X), X, backend="onnx")
