"""Models are read from .skops files by their paths."""

import io as streams
import pickle
import zipfile

import numpy as np
import pytest
from late import late
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hbconv

io = late("skops.io")
lightgbm = late("lightgbm")
xgboost = late("xgboost")

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


def boosted():
    quiet = {"n_estimators": 4, "n_jobs": 1}
    return (
        xgboost.XGBClassifier(**quiet).fit(X, Y),
        lightgbm.LGBMClassifier(**quiet, verbose=-1).fit(X, Y),
    )


def booster_of(estimator):
    return getattr(estimator, "_Booster", estimator)


def test_loaders_of_boosters_see_no_byte_of_a_file(tmp_path, monkeypatch):
    """Of an estimator, of one in a pipeline, and of a booster by itself."""
    sources = boosted()
    sources += tuple(booster_of(source) for source in sources)
    sources += (make_pipeline(StandardScaler(), sources[0]),)
    sources[-1][0].fit(X)
    for place, source in enumerate(sources):
        io.dump(source, tmp_path / f"{place}.skops")
    wanted = [hbconv.convert(source, backend="reference").predict(X) for source in sources]
    for cls in (xgboost.Booster, lightgbm.Booster):
        monkeypatch.setattr(cls, "__setstate__", never)
        monkeypatch.setattr(cls, "__init__", never)
    for place, want in enumerate(wanted):
        model = hbconv.convert(tmp_path / f"{place}.skops", backend="reference")
        np.testing.assert_array_equal(model.predict(X), want)


def never(*_, **__):
    raise AssertionError("a loader of a library was called")


def test_the_iterations_of_early_stopping_are_kept(tmp_path):
    noise = np.random.default_rng(1).integers(0, 2, len(X))
    stopped = xgboost.XGBClassifier(n_estimators=30, n_jobs=1, early_stopping_rounds=2)
    stopped.fit(X, Y, eval_set=[(X, noise)], verbose=False)
    early = [lightgbm.early_stopping(2, verbose=False)]
    other = lightgbm.LGBMClassifier(n_estimators=30, n_jobs=1, verbose=-1)
    other.fit(X, Y, eval_X=X, eval_y=noise, callbacks=early)
    assert stopped.best_iteration + 1 < 30
    assert 0 < other.best_iteration_ < 30
    for source in (stopped, other):
        io.dump(source, tmp_path / "model.skops")
        model = hbconv.convert(tmp_path / "model.skops", backend="reference")
        np.testing.assert_array_equal(model.predict_proba(X), source.predict_proba(X))


def rewritten(path, change):
    """Replace the texts of a file's schema."""
    out = streams.BytesIO()
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(out, "w") as archive:
        for name in given.namelist():
            data = given.read(name)
            archive.writestr(name, change(data) if name == "schema.json" else data)
    return out.getvalue()


@pytest.mark.parametrize("loader", ["ConstructorFromReduceNode", "TypeNode"])
def test_boosters_are_not_made_in_another_way(tmp_path, loader):
    """Such as by their constructor, which opens the file of a name."""
    io.dump(booster_of(boosted()[0]), tmp_path / "model.skops")
    data = rewritten(
        tmp_path / "model.skops",
        lambda schema: schema.replace(b'"ObjectNode"', f'"{loader}"'.encode(), 1),
    )
    with pytest.raises(hbconv.ConversionError):
        hbconv.convert(data, backend="reference")


def test_lists_of_categories_that_differ_are_refused(tmp_path):
    io.dump(boosted()[1], tmp_path / "model.skops")
    listed = b"pandas_categorical:null", b"pandas_categorical:[[1]]"
    data = rewritten(tmp_path / "model.skops", lambda schema: schema.replace(*listed))
    with pytest.raises(hbconv.ConversionError, match="two lists of categories"):
        hbconv.convert(data, backend="reference")


def test_members_that_share_bytes_are_refused(tmp_path):
    io.dump(LogisticRegression().fit(X, Y), tmp_path / "model.skops")
    with zipfile.ZipFile(tmp_path / "model.skops", "a") as archive:
        first = max(archive.infolist(), key=lambda info: info.file_size)
        for number in range(9):
            twin = zipfile.ZipInfo(f"{number}.npy")
            for field in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(twin, field, getattr(first, field))
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
        archive._didModify = True
    with pytest.raises(hbconv.ConversionError, match=r"model\.skops"):
        hbconv.convert(tmp_path / "model.skops")


def test_files_with_models_of_catboost_are_tried_in_another_process(tmp_path, monkeypatch):
    import hbconv.sources.library_files as library_files

    catboost = pytest.importorskip("catboost")
    source = catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False)
    io.dump(source.fit(X, X[:, 0]), tmp_path / "model.skops")
    tried = []
    monkeypatch.setattr(library_files, "require_readable", lambda path: tried.append(path.name))
    model = hbconv.convert(tmp_path / "model.skops", backend="reference")
    assert tried == ["model.skops"]
    np.testing.assert_allclose(model.predict(X), source.predict(X), rtol=1e-6)
