"""Each way to use a model wrongly has an error of its own, with a way out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fitted import fit, matrix, table
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hbconv


def model(name="linear", **options):
    return hbconv.convert(fit(name), "reference", **options)


def test_an_unfitted_model():
    with pytest.raises(
        hbconv.NotFittedError,
        match=r"LogisticRegression.* is not fitted. Call fit before converting it",
    ):
        hbconv.convert(LogisticRegression(), "reference")
    with pytest.raises(hbconv.NotFittedError, match="is not fitted"):
        hbconv.convert(make_pipeline(StandardScaler(), PCA()), "reference")


def test_an_unsupported_estimator():
    estimator = SpectralClustering().fit(matrix())
    with pytest.raises(hbconv.ConversionError, match="SpectralClustering"):
        hbconv.convert(estimator, "reference")


def test_an_unsupported_parameter():
    estimator = make_pipeline(FunctionTransformer(lambda x: x - x[0]), Ridge()).fit(
        matrix(), matrix()[:, 0]
    )
    with pytest.raises(
        hbconv.UnsupportedError, match=r"FunctionTransformer with func=.*functiontransformer"
    ):
        hbconv.convert(estimator, "reference")


@pytest.mark.parametrize("thing", [3, "model.pkl", None, [1, 2], LogisticRegression])
def test_things_that_are_no_models(thing):
    with pytest.raises(hbconv.ConversionError):
        hbconv.convert(thing, "reference")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "torhc"}, r"Unknown backend 'torhc'. Did you mean 'torch'"),
        ({"device": "cdua"}, r"Unknown device 'cdua'. Did you mean 'cuda'"),
        ({"device": "gpu"}, r"Unknown device 'gpu'. Did you mean 'cuda'"),
        ({"device": "cpu:x"}, r"Unknown device 'cpu:x'"),
        (
            {"device": "cuda"},
            r"Backend 'reference' runs on cpu, not on 'cuda'. Use backend='torch' for CUDA",
        ),
        (
            {"device": "cuda:99", "backend": "torch"},
            r"Device 'cuda:99' is not available: torch sees \d+ CUDA devices. Use device='cpu'",
        ),
        ({"strategy": "gem"}, r"Unknown strategy 'gem'. Did you mean 'gemm'"),
        ({"precision": "exactly"}, r"Unknown precision 'exactly'. Did you mean 'exact'"),
        ({"tree_ops": "cores"}, r"Unknown tree_ops 'cores'. Did you mean 'core'"),
        ({"rows": 0}, r"rows=0 must be a positive whole number"),
        ({"memory": -1}, r"memory=-1 must be"),
        ({"threads": 1.5}, r"threads=1.5 must be"),
        ({"threads": True}, r"threads=True must be"),
    ],
    ids=str,
)
def test_options_that_do_not_exist(options, message):
    with pytest.raises(hbconv.OptionError, match=message):
        hbconv.convert(fit("linear"), **{"backend": "reference", **options})


def test_a_package_that_is_not_installed(monkeypatch):
    from hbconv.backends import find_backend

    monkeypatch.setattr(find_backend("onnx"), "needs", ("onnx", "no_such_package"))
    with pytest.raises(
        hbconv.MissingPackageError,
        match=r"needs no_such_package. Install with: pip install 'hbconv\[onnx\]'",
    ):
        hbconv.convert(fit("linear"), "onnx")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_the_source_refuses(bad):
    x = matrix().copy()
    x[5, 2] = bad
    for name in ("linear", "regressor"):
        with pytest.raises(ValueError, match="contains"):
            fit(name).predict(x)
        with pytest.raises(hbconv.InputError, match=r"Input X contains .*which refuses it"):
            model(name).predict(x)


def test_nan_that_the_source_takes():
    x = matrix().copy()
    x[5, 2] = np.nan
    np.testing.assert_array_equal(model("scaler").transform(x), fit("scaler").transform(x))
    with pytest.raises(hbconv.InputError, match="infinity"):
        model("scaler").transform(np.full((1, 6), np.inf))


def test_values_that_overflow_on_the_way_are_refused_where_the_source_refuses_them():
    x = np.float32(matrix())
    x[3, 1] = 3e38
    scaler = StandardScaler().fit(matrix() / 1e3)
    source = make_pipeline(scaler, LogisticRegression()).fit(matrix() / 1e3, matrix()[:, 0] > 0)
    with pytest.raises(ValueError, match="contains infinity"), np.errstate(over="ignore"):
        source.predict(x)
    with pytest.raises(hbconv.InputError, match="LogisticRegression"):
        hbconv.convert(source, "reference").predict(x)


def test_rows_that_do_not_fit():
    with pytest.raises(hbconv.InputError, match=r"X has 2 columns, but Pipeline expects 6"):
        model().predict(matrix()[:, :2])
    with pytest.raises(hbconv.InputError, match=r"reshape\(1, -1\)"):
        model().predict(matrix()[0])
    with pytest.raises(hbconv.InputError, match=r"Columns are missing: 'colour', 'fare'"):
        model("mixed").predict(table()[["age"]])
    with pytest.raises(hbconv.InputError, match=r"Column 'age' holds the text 'old'"):
        model("mixed").predict(table().assign(age="old"))
    with pytest.raises(hbconv.InputError, match=r"Column 'colour' holds numbers"):
        model("mixed").predict(table().assign(colour=1.5))
    with pytest.raises(hbconv.InputError, match=r"stand more than once in the table: 'age'"):
        model("mixed").predict(pd.concat([table(), table()[["age"]]], axis=1))


def test_a_method_that_the_source_does_not_have():
    found = model("regressor")
    assert not hasattr(found, "predict_proba")
    with pytest.raises(
        AttributeError, match=r"This Model of Ridge has no attribute 'predict_proba'"
    ):
        found.predict_proba(matrix())


def test_fitting_a_model():
    with pytest.raises(hbconv.HbconvError, match="Fit the estimator it came from"):
        model().fit(matrix())


def test_the_module_of_a_backend_that_has_none():
    with pytest.raises(
        hbconv.BackendError,
        match=r"Backend 'reference' has no torch module: for_target\(backend='torch'\) has",
    ):
        _ = model().module


def test_a_file_suffix_that_nothing_is_written_for(tmp_path):
    with pytest.raises(
        hbconv.OptionError, match=r"Unknown file suffix '.onx'. Did you mean '.onnx'"
    ):
        model().export(tmp_path / "m.onx")
    assert not list(tmp_path.iterdir())


def test_a_sample_of_one_dimension():
    with pytest.raises(hbconv.InputError, match="two-dimensional"):
        model(sample=matrix()[0])
