"""Models are read from .skops files by their paths."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skops import io

import hbconv

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] > 0


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "path"])
def test_a_file_converts_as_its_model(tmp_path, kind):
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    io.dump(source, tmp_path / "model.skops")
    model = hbconv.convert(kind(tmp_path / "model.skops"), backend="reference")
    assert model.predict(X).tolist() == source.predict(X).tolist()
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)


def test_unknown_types_are_not_run(tmp_path):
    source = make_pipeline(FunctionTransformer(pytest.approx), LogisticRegression())
    io.dump(source, tmp_path / "model.skops")
    with pytest.raises(hbconv.ConversionError, match=r"types that are not trusted: .*approx"):
        hbconv.convert(tmp_path / "model.skops")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(hbconv.ConversionError, match="No file"):
        hbconv.convert(tmp_path / "model.skops")
    with pytest.raises(
        hbconv.ConversionError, match=r"reads \.skops files, and this is model\.pkl"
    ):
        hbconv.convert(tmp_path / "model.pkl")
    (tmp_path / "model.skops").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(hbconv.ConversionError, match=r"model\.skops"):
        hbconv.convert(tmp_path / "model.skops")
