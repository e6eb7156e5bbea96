"""Answers to rows of a scipy matrix, through pipelines: their class and layout, stored and
loaded; refusals as the source's.
"""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

import hbconv
from hbconv.errors import InputError

RNG = np.random.default_rng(1)
X = np.abs(RNG.normal(size=(40, 5))) * (RNG.random((40, 5)) < 0.6)
FORMS = (sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array)

PIPELINES = {
    "kept, given": make_pipeline(MaxAbsScaler(), Binarizer(threshold=0.5)),
    "a matrix, then rows": make_pipeline(PolynomialFeatures(2), MaxAbsScaler()),
    "rows, then columns": make_pipeline(StandardScaler(with_mean=False), SimpleImputer()),
    "columns, then as they are": make_pipeline(QuantileTransformer(n_quantiles=5), FunctionTransformer(), MaxAbsScaler()),
    "nothing": make_pipeline("passthrough", FunctionTransformer()),
    "a union": make_union(MaxAbsScaler(), RobustScaler(with_centering=False)),
    "columns": make_column_transformer((MaxAbsScaler(), [0, 1]), (StandardScaler(with_mean=False), [2]), remainder="passthrough", sparse_threshold=1.0),
    "missing": make_pipeline(SimpleImputer(), MissingIndicator(features="all")),
    "encoded": make_pipeline(Binarizer(), MaxAbsScaler(), PolynomialFeatures(2, interaction_only=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_form_follows_the_rows_as_in_the_source(name, backend, tmp_path):
    source = PIPELINES[name].fit(sp.csr_matrix(X))
    model = hbconv.convert(source, backend)
    model.save(tmp_path / "m.hbc")
    for answers in (model, hbconv.load(tmp_path / "m.hbc")):
        for form in (np.asarray, *FORMS) if name != "columns" else (sp.csr_matrix,):
            got, want = answers.transform(form(X)), source.transform(form(X))
            assert type(got) is type(want)
            np.testing.assert_allclose(
                *(a.toarray() if sp.issparse(a) else a for a in (got, want)), rtol=1e-12
            )


def test_always_sparse_answers_follow_the_configuration():
    """Those that do not follow the rows are a matrix, or an array where scikit-learn is told so."""
    source = OneHotEncoder().fit(X[:, :1].round())
    model = hbconv.convert(source, "reference")
    for interface in ("spmatrix", "sparray"):
        with sklearn.config_context(sparse_interface=interface):
            assert type(model.transform(X[:, :1].round())) is type(
                source.transform(X[:, :1].round())
            )


@pytest.mark.parametrize("n", [0, 1, 40])
def test_any_number_of_sparse_rows(n):
    model = hbconv.convert(PolynomialFeatures(2).fit(X), "reference")
    got = model.transform(sp.csr_matrix(X[:n]))
    assert sp.issparse(got)
    np.testing.assert_array_equal(got.toarray(), model.transform(X[:n]))


def test_one_model_reads_sparse_rows_otherwise_than_others():
    """RobustScaler centres an array, and only scales a sparse matrix: whichever comes first,
    each is answered as it should be.
    """
    source = make_pipeline(RobustScaler(), RandomForestClassifier(5, random_state=0)).fit(
        X, X[:, 0] > 0.5
    )
    model = hbconv.convert(
        source, "tvm" if "tvm" in hbconv.backends.backend_names() else "reference"
    )
    for x in (sp.csr_matrix(X), X, sp.csr_matrix(X), X):
        np.testing.assert_array_equal(model.predict_proba(x), source.predict_proba(x))
    assert not np.array_equal(source.predict_proba(X), source.predict_proba(sp.csr_matrix(X)))


REFUSED = {
    "centred": (StandardScaler(), "centres"),
    "inside": (make_pipeline(MaxAbsScaler(), StandardScaler()), "step 'standardscaler"),
    "trees by histograms": (HistGradientBoostingRegressor(max_iter=2), "takes no sparse matrix"),
    "machine": (SVC(), "fitted on dense rows"),
    "search tree": (KNeighborsRegressor(algorithm="kd_tree"), "kd_tree"),
    "zeros are missing": (SimpleImputer(missing_values=0), "zeros for missing"),
    "function": (FunctionTransformer(np.exp), "numpy.exp"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_sparse_rows_are_refused_as_in_the_source(name):
    """Rows of an array are not."""
    estimator, message = REFUSED[name]
    source = estimator.fit(X, np.arange(40) % 2)
    model = hbconv.convert(source, "reference")
    method = model.methods[0]
    with pytest.raises((TypeError, ValueError)):
        getattr(source, method)(sp.csr_matrix(X))
    with pytest.raises(InputError, match=message):
        getattr(model, method)(sp.csr_matrix(X))
    assert len(getattr(model, method)(X)) == 40


def test_negative_entries_are_refused_in_a_sparse_matrix_alone():
    source = QuantileTransformer(n_quantiles=5).fit(X)
    model = hbconv.convert(source, "reference")
    with pytest.raises(ValueError, match="non-negative"):
        source.transform(sp.csr_matrix(-X))
    with pytest.raises(InputError, match="no negative"):
        model.transform(sp.csr_matrix(-X))
    np.testing.assert_array_equal(model.transform(-X), source.transform(-X))


def test_a_file_from_before_forms_loads(tmp_path):
    """What its outputs did not say has a default."""
    model = hbconv.convert(OneHotEncoder().fit(X[:, :1].round()), "reference")
    model.save(tmp_path / "m.hbc")
    with zipfile.ZipFile(tmp_path / "m.hbc") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["manifest.json"].decode()
    for new in (
        '"layout": "csr", ',
        '"arrays": false, ',
        ', "layout": "csr"',
        ', "arrays": false',
        ', "why_dense": ""',
        '"why_dense": "", ',
        ', "layouts": {}, "patches": {}',
    ):
        text = text.replace(new, "")
    assert text != members["manifest.json"].decode()
    assert "layout" not in text
    json.loads(text)
    with zipfile.ZipFile(tmp_path / "old.hbc", "w") as archive:
        for name, data in (members | {"manifest.json": text.encode()}).items():
            archive.writestr(name, data)
    old = hbconv.load(tmp_path / "old.hbc")
    assert (old.transform(X[:, :1].round()) != model.transform(X[:, :1].round())).nnz == 0


def test_a_validated_function_keeps_the_layout_of_its_rows_both_ways():
    source = FunctionTransformer(np.expm1, np.log1p, accept_sparse=True, validate=True).fit(X)
    model = hbconv.convert(source, "reference")
    for method in ("transform", "inverse_transform"):
        for form in FORMS:
            got, want = (getattr(one, method)(form(X)) for one in (model, source))
            assert type(got) is type(want)
            np.testing.assert_allclose(got.toarray(), want.toarray(), rtol=1e-12)


def test_a_function_that_validates_dense_rows_refuses_sparse_ones_both_ways():
    source = FunctionTransformer(np.expm1, np.log1p, validate=True).fit(X)
    model = hbconv.convert(source, "reference")
    for method in ("transform", "inverse_transform"):
        with pytest.raises(TypeError, match="Sparse data was passed"):
            getattr(source, method)(sp.csr_matrix(X))
        with pytest.raises(InputError, match=r"X\.toarray"):
            getattr(model, method)(sp.csr_matrix(X))
