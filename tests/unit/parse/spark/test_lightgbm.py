"""LightGBM models in folders of SynapseML, judged by ``lightgbm`` on the model text."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import hbconv
from hbconv.cli import main
from hbconv.errors import ConversionError, InputError, UnsupportedError
from tests.support.synapse_models import STORED, serialized, write_pipeline, write_stage

NAMES = ("a", "b", "c", "kind")
CLASSIFIER = "LightGBMClassificationModel"
REGRESSOR = "LightGBMRegressionModel"
RANKER = "LightGBMRankerModel"
COLUMNS = {
    "predictionCol": "prediction",
    "probabilityCol": "probability",
    "rawPredictionCol": "rawPrediction",
    "actualNumClasses": 2,
}
MODELS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary"},
    "sigmoid": {"objective": "binary", "sigmoid": 0.7, "boosting": "dart"},
    "forest": {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "two": {"objective": "multiclass", "num_class": 2},
    "ova": {"objective": "multiclassova", "num_class": 3},
    "regression": {"objective": "regression", "reg_sqrt": True},
    "poisson": {"objective": "poisson"},
    "tweedie": {"objective": "tweedie"},
    "quantile": {"objective": "quantile", "alpha": 0.8},
    "linear": {"objective": "regression", "linear_tree": True},
    "zeros": {"objective": "regression", "zero_as_missing": True},
    "no missing": {"objective": "gamma", "use_missing": False},
    "ranker": {"objective": "lambdarank"},
}
CLASSES = {"binary", "sigmoid", "forest", "multiclass", "two", "ova"}


@cache
def text_of(name: str) -> str:
    """Train a small model on numbers, gaps, zeros and categories, and return its text."""
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=(500, len(NAMES)))
    x[rng.random(x.shape) < 0.2] = 0.0
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 3] = rng.integers(0, 40, len(x))
    settings = MODELS[name]
    score = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) * (x[:, 3] % 3) + rng.normal(size=500)
    n_classes = settings.get("num_class", 2)
    classes = np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))
    y = classes if name in CLASSES or name == "ranker" else np.exp(score / 4)
    group = [100] * 5 if name == "ranker" else None
    data = lgb.Dataset(x, y, group=group, feature_name=list(NAMES), categorical_feature=[3])
    fixed = {"num_leaves": 9, "verbose": -1, "num_threads": 1, "seed": 1, "min_data_in_leaf": 5}
    return str(lgb.train(fixed | settings, data, 7).model_to_string())


@cache
def hostile_rows(name: str) -> pd.DataFrame:
    """Rows at each threshold and beside it, and numbers that are no usual ones."""
    booster = lgb.Booster(model_str=text_of(name))
    tests = booster.trees_to_dataframe().dropna(subset="threshold")
    tests = tests[tests["decision_type"] == "<="]
    edges = tests["threshold"].astype(float).to_numpy()
    odd = [0.0, -0.0, 1e-35, -1e-35, 1e-36, 5e-324, -1e-40, np.inf, -np.inf, np.nan, 1e300, -1e300]
    pool = [*edges, *np.nextafter(edges, np.inf), *np.nextafter(edges, -np.inf), *odd]
    rng = np.random.default_rng(0)
    rows = rng.choice(pool, (600, len(NAMES)))
    kinds = [-1.0, -0.5, 0.0, 0.9, 3.0, 39.0, 40.0, 1e6, 2**31, 1e300, np.inf, -np.inf, np.nan]
    rows[:, 3] = rng.choice([*kinds, *range(40)], len(rows))
    return pd.DataFrame(rows, columns=list(NAMES))


def predicted(name: str, rows: pd.DataFrame, **asked: Any) -> npt.NDArray[Any]:
    """Return what lightgbm says, row by row in float64."""
    booster = lgb.Booster(model_str=text_of(name))
    return np.asarray(booster.predict(rows.to_numpy(np.float64), **asked))


def folder_of(path: Path, name: str, stored: str = "scala_2_12", **parameters: Any) -> Path:
    """Write the pipeline of a model."""
    kind = CLASSIFIER if name in CLASSES else RANKER if name == "ranker" else REGRESSOR
    booster = serialized(text_of(name), stored)
    return write_pipeline(path / "model", kind, COLUMNS | parameters, booster, NAMES)


def two_sided(p: npt.NDArray[Any], first: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what SynapseML makes of one number of two classes."""
    return p if p.ndim == 2 else np.column_stack([first, p])


@pytest.mark.parametrize("backend", ["reference", "torch", "tvm", "onnx"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.share("light")
def test_answers_as_the_native_library(tmp_path: Path, name: str, backend: str) -> None:
    """Scores and classes exactly, what is made by functions within rounding."""
    if name == "linear" and backend == "onnx":
        backend = "torchscript"
    model = hbconv.convert(folder_of(tmp_path, name), backend)
    rows = hostile_rows(name)
    want = predicted(name, rows)
    if name not in CLASSES:
        np.testing.assert_allclose(model.predict(rows), want, rtol=1e-14, atol=0)
        return
    raw = predicted(name, rows, raw_score=True)
    scores = two_sided(raw, -raw)
    np.testing.assert_array_equal(model.raw_scores(rows), scores)
    np.testing.assert_array_equal(model.predict(rows), scores.argmax(axis=1).astype(float))
    np.testing.assert_allclose(model.predict_proba(rows), two_sided(want, 1 - want), rtol=1e-13)


@pytest.mark.parametrize("name", ["binary", "multiclass", "zeros"])
def test_leaves_and_contributions(tmp_path: Path, name: str) -> None:
    """What the columns leafPrediction and featuresShap hold."""
    model = hbconv.convert(folder_of(tmp_path, name), "reference")
    rows = hostile_rows(name)
    np.testing.assert_array_equal(model.apply(rows), predicted(name, rows, pred_leaf=True))
    want = predicted(name, rows, pred_contrib=True)
    np.testing.assert_allclose(model.contributions(rows), want, rtol=1e-9, atol=1e-12)


def test_what_synapse_has_no_memory_for_is_left_out(tmp_path: Path) -> None:
    """Contributions to two columns of scores, and leaves of trees that are not asked."""
    two = hbconv.convert(folder_of(tmp_path, "two"), "reference")
    assert "contributions" not in two.methods
    assert "apply" in two.methods
    part = hbconv.convert(folder_of(tmp_path / "part", "binary", numIterations=3), "reference")
    assert "apply" not in part.methods


@pytest.mark.parametrize("name", ["binary", "multiclass", "forest"])
@pytest.mark.parametrize(("start", "count"), [(0, 3), (2, 3), (5, 9), (-4, 0), (3, -1)])
def test_predicts_by_the_iterations_asked(
    tmp_path: Path, name: str, start: int, count: int
) -> None:
    """A bound below 1 is none."""
    folder = folder_of(tmp_path, name, startIteration=start, numIterations=count)
    rows = hostile_rows(name)
    asked = {"start_iteration": start, "num_iteration": count}
    raw = predicted(name, rows, raw_score=True, **asked)
    want = predicted(name, rows, **asked)
    model = hbconv.convert(folder, "reference")
    np.testing.assert_array_equal(model.raw_scores(rows), two_sided(raw, -raw))
    np.testing.assert_allclose(model.predict_proba(rows), two_sided(want, 1 - want), rtol=1e-13)


def test_the_bounds_of_the_booster_count_where_the_stage_has_none(tmp_path: Path) -> None:
    """The stage's own bounds replace them."""
    rows = hostile_rows("tweedie")
    folder = folder_of(tmp_path, "tweedie", "bounded")
    found = hbconv.convert(folder, "reference").predict(rows)
    want = predicted("tweedie", rows, start_iteration=2, num_iteration=3)
    np.testing.assert_allclose(found, want, rtol=1e-14)
    own = folder_of(tmp_path / "own", "tweedie", "bounded", startIteration=0, numIterations=-1)
    found = hbconv.convert(own, "reference").predict(rows)
    np.testing.assert_allclose(found, predicted("tweedie", rows), rtol=1e-14)
    beyond = folder_of(tmp_path / "beyond", "tweedie", startIteration=7)
    odd = folder_of(tmp_path / "odd", "tweedie", startIteration=1.5)
    with pytest.raises(ConversionError, match=r"startIteration=1\.5, which is no number of"):
        hbconv.convert(odd, "reference")
    with pytest.raises(ConversionError, match="startIteration=7, but its booster has 7"):
        hbconv.convert(beyond, "reference")


@pytest.mark.parametrize("thresholds", [[0.2, 0.5, 0.3], [0.0, 0.5, 0.5], [0.9, 0.05, 0.05]])
def test_thresholds_divide_probabilities(tmp_path: Path, thresholds: list[float]) -> None:
    """A class whose threshold is 0 wins."""
    folder = folder_of(tmp_path, "multiclass", thresholds=thresholds, actualNumClasses=3)
    model = hbconv.convert(folder, "reference")
    rows = hostile_rows("multiclass")
    with np.errstate(divide="ignore"):
        want = (predicted("multiclass", rows) / thresholds).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(rows), want)
    assert len(set(want)) > 1 or 0.0 in thresholds


def test_thresholds_that_synapse_refuses_are_refused(tmp_path: Path) -> None:
    """Of another number than the classes, and without probabilities to divide."""
    wrong = folder_of(tmp_path, "binary", thresholds=[0.5, 0.5], actualNumClasses=1)
    with pytest.raises(UnsupportedError, match=r"thresholds=\[0.5, 0.5\].*1 classes"):
        hbconv.convert(wrong, "reference")
    blind = folder_of(tmp_path / "b", "binary", thresholds=[0.5, 0.5], probabilityCol="")
    with pytest.raises(UnsupportedError, match="Name a probabilityCol"):
        hbconv.convert(blind, "reference")


def test_probabilities_decide_without_a_column_of_scores(tmp_path: Path) -> None:
    """Those of equal rounding are a tie, which the first class wins."""
    settings = text_of("binary").replace("sigmoid:1", "sigmoid:1e-17")
    rows = hostile_rows("binary")
    for by_score in (True, False):
        parameters = COLUMNS | {"rawPredictionCol": "raw" if by_score else ""}
        path = tmp_path / str(by_score)
        folder = write_pipeline(path, CLASSIFIER, parameters, serialized(settings), NAMES)
        found = hbconv.convert(folder, "reference").predict(rows)
        assert (len(set(found)) == 2) is by_score


@pytest.mark.parametrize("stored", ["scala_2_13", "mmlspark"])
def test_reads_other_versions(tmp_path: Path, stored: str) -> None:
    """Boosters of Scala 2.13, and of MMLSpark."""
    rows = hostile_rows("poisson")
    model = hbconv.convert(folder_of(tmp_path, "poisson", stored), "reference")
    np.testing.assert_allclose(model.predict(rows), predicted("poisson", rows), rtol=1e-14)


def test_a_stage_alone_reads_vectors(tmp_path: Path) -> None:
    """Rows of an array, and columns of a frame by their places."""
    folder = write_stage(tmp_path / "s", CLASSIFIER, COLUMNS, serialized(text_of("binary")))
    rows = hostile_rows("binary")
    model = hbconv.convert(folder, "reference")
    raw = predicted("binary", rows, raw_score=True)
    for given in (rows.to_numpy(), rows.set_axis(range(4), axis=1)):
        np.testing.assert_array_equal(model.raw_scores(given)[:, 1], raw)
    floats = rows.clip(-1e30, 1e30).to_numpy(np.float32)
    single = lgb.Booster(model_str=text_of("binary")).predict(floats, raw_score=True)
    np.testing.assert_array_equal(model.raw_scores(floats)[:, 1], single)
    ints = np.arange(8, dtype=np.int64).reshape(2, 4)
    np.testing.assert_array_equal(
        model.raw_scores(ints)[:, 1], predicted("binary", pd.DataFrame(ints), raw_score=True)
    )
    with pytest.raises(InputError):
        model.predict(rows.to_numpy()[:, :3])


def test_the_booster_that_a_jvm_wrote_whole(tmp_path: Path) -> None:
    """A model text of 90 kB, with a name beyond ASCII."""
    folder = write_stage(tmp_path / "long", CLASSIFIER, COLUMNS, STORED["long"])
    model = hbconv.convert(folder, "reference")
    rows = np.random.default_rng(0).normal(size=(50, 4))
    assert model.predict_proba(rows).shape == (50, 2)
    assert len(set(model.predict(rows))) == 2


def test_pandas_categories_are_unknown_to_the_native_library(tmp_path: Path) -> None:
    """It reads codes, whatever the Python package wrote below the text."""
    text = text_of("poisson").replace("pandas_categorical:null", 'pandas_categorical:[["x", "y"]]')
    assert text != text_of("poisson")
    folder = write_stage(tmp_path / "s", REGRESSOR, COLUMNS, serialized(text))
    rows = hostile_rows("poisson")
    found = hbconv.convert(folder, "reference").predict(rows.to_numpy())
    np.testing.assert_allclose(found, predicted("poisson", rows), rtol=1e-14)


def test_refuses_vectors_of_another_width_and_boosters_of_classes(tmp_path: Path) -> None:
    """The native library refuses the first; of the second SynapseML takes the first class."""
    booster = serialized(text_of("multiclass"))
    short = write_pipeline(tmp_path / "short", CLASSIFIER, COLUMNS, booster, NAMES[:3])
    with pytest.raises(UnsupportedError, match=r"featuresCol='features of 3 columns'.*4 features"):
        hbconv.convert(short, "reference")
    classes = write_pipeline(tmp_path / "classes", REGRESSOR, COLUMNS, booster, NAMES)
    with pytest.raises(UnsupportedError, match="lightGBMBooster='3 classes'"):
        hbconv.convert(classes, "reference")


def test_damaged_boosters_end_in_a_named_error(tmp_path: Path) -> None:
    """A file that is missing, of another class, without a text, or with a damaged one."""
    folder = write_stage(tmp_path / "s", REGRESSOR, COLUMNS, serialized("tree\n"))
    path = folder / "complexParams/lightGBMBooster"
    damaged = {
        "damaged": serialized("tree\n"),
        "ArrayList": STORED["list"],
        "s cannot be read": serialized("none"),
        "no model text": STORED["scala_2_12"].replace(b"modelStr", b"modelStx"),
        "ends before": serialized(text_of("poisson"))[:-300],
        "ends before the last tree": serialized(text_of("poisson").partition("\nend of")[0]),
    }
    for said, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ConversionError, match=said):
            hbconv.convert(folder, "reference")
    path.unlink()
    with pytest.raises(ConversionError, match="no file complexParams/lightGBMBooster"):
        hbconv.convert(folder, "reference")


def test_the_folder_of_save_native_model(tmp_path: Path) -> None:
    """Spark writes the text as a part file, whatever the name of the folder."""
    folder = tmp_path / "model.txt"
    folder.mkdir()
    part = folder / "part-00000-3f2c-c000.txt"
    part.write_text(text_of("tweedie") + "\n")
    (folder / "_SUCCESS").touch()
    (folder / ".part-00000-3f2c-c000.txt.crc").write_bytes(b"crc")
    (folder / "part-00001.txt").touch()
    rows = hostile_rows("tweedie")
    model = hbconv.convert(folder, "reference")
    np.testing.assert_allclose(model.predict(rows), predicted("tweedie", rows), rtol=1e-14)
    rows.clip(-1e30, 1e30).to_csv(tmp_path / "rows.csv", index=False)
    assert main(["verify", str(folder), str(tmp_path / "rows.csv")]) == 0
    shutil.copy(part, folder / "part-00002.txt")
    with pytest.raises(ConversionError, match="2 parts of text"):
        hbconv.convert(folder, "reference")
    (folder / "part-00002.txt").unlink()
    part.write_bytes(b"\xff")
    with pytest.raises(ConversionError, match="not a LightGBM model text"):
        hbconv.convert(folder, "reference")
