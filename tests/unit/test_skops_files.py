"""Models are read from .skops files by their paths."""

import pickle

import numpy as np
import pytest
from late import late
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hbconv

io = late("skops.io")

X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] > 0


@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "path"])
def test_a_file_converts_as_its_model(tmp_path, kind):
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    io.dump(source, tmp_path / "model.skops")
    model = hbconv.convert(kind(tmp_path / "model.skops"), backend="reference")
    assert model.predict(X).tolist() == source.predict(X).tolist()
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)


def test_converted_models_are_written_and_read(tmp_path):
    """Alone, and where a pipeline holds one."""
    source = LogisticRegression().fit(X, Y)
    model = hbconv.convert(source, backend="reference", on_new_dtypes="convert")
    pipeline = make_pipeline(StandardScaler(), FrozenEstimator(model))
    pipeline[0].fit(X)
    for written in (model, pipeline):
        io.dump(written, tmp_path / "model.skops")
        assert io.get_untrusted_types(file=tmp_path / "model.skops") == ["hbconv.model.Model"]
        with pytest.raises(io.exceptions.UntrustedTypesFoundException, match="hbconv"):
            io.load(tmp_path / "model.skops")
        read = io.load(tmp_path / "model.skops", trusted=["hbconv.model.Model"])
        np.testing.assert_array_equal(read.predict_proba(X), written.predict_proba(X))
    assert io.loads(io.dumps(model), trusted=["hbconv.model.Model"]).on_new_dtypes == "convert"


def test_stored_code_of_a_converted_model_does_not_run():
    model = hbconv.convert(LogisticRegression().fit(X, Y), sample=X[:2])
    read = io.loads(io.dumps(model), trusted=["hbconv.model.Model"])
    assert not read.compiled
    assert model.compiled


def test_unknown_types_are_not_run(tmp_path):
    source = make_pipeline(FunctionTransformer(pytest.approx), LogisticRegression())
    io.dump(source, tmp_path / "model.skops")
    with pytest.raises(hbconv.ConversionError, match=r"types that are not trusted: .*approx"):
        hbconv.convert(tmp_path / "model.skops")


def test_other_files_are_refused(tmp_path):
    with pytest.raises(hbconv.ConversionError, match="No file"):
        hbconv.convert(tmp_path / "model.skops")
    (tmp_path / "model.pkl").write_bytes(pickle.dumps([1.0]))
    with pytest.raises(hbconv.ConversionError, match=r"model\.pkl is a pickle"):
        hbconv.convert(tmp_path / "model.pkl")
    (tmp_path / "model.skops").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(hbconv.ConversionError, match=r"model\.skops"):
        hbconv.convert(tmp_path / "model.skops")
