"""Models that Spark ML saved, beside the answers that Spark gave (``make_spark_models.py``)."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import hbconv
from hbconv.cli import main
from hbconv.errors import ConversionError, InputError, UnsupportedError

ARCHIVE = Path(__file__).parent / "models.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    STORED = json.loads(_archive.read("answers.json"))
ROWS = pd.DataFrame(STORED["rows"])
ANSWERS = STORED["answers"]
METHODS = {"prediction": "predict", "probability": "predict_proba", "rawPrediction": "raw_scores"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the archive of models is unpacked."""
    path = tmp_path_factory.mktemp("spark")
    shutil.unpack_archive(ARCHIVE, path)
    return path


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx"])
@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "names"])
def test_answers_as_spark(folder: Path, name: str, backend: str) -> None:
    """Predictions exactly; probabilities and scores within rounding."""
    model = hbconv.convert(folder / name, backend)
    for column, want in ANSWERS[name].items():
        found = getattr(model, METHODS.get(column, "transform"))(ROWS)
        assert np.shape(found) == np.shape(want)
        if "probability" in ANSWERS[name] and column == "prediction":
            np.testing.assert_array_equal(found, want)
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-13)


def test_names_of_classes_are_the_answer(folder: Path) -> None:
    """A stage behind the model that names its numbers is part of the answer."""
    found = hbconv.convert(folder / "names", "reference").predict(ROWS)
    assert found.tolist() == ANSWERS["names"]["name"]


def test_rows_that_spark_refuses_are_refused(folder: Path) -> None:
    """A missing number in an assembler, and a value out of the splits."""
    model = hbconv.convert(folder / "scaled", "reference")
    with pytest.raises(InputError, match="'weight' holds NaN"):
        model.transform(ROWS.assign(weight=np.nan))
    assert model.transform(ROWS.iloc[:0]).shape == (0, len(ANSWERS["scaled"]["x2"][0]))


def test_a_stage_that_is_not_read_is_named(folder: Path, tmp_path: Path) -> None:
    """So is a folder that holds no model."""
    other = shutil.copytree(folder / "clusters", tmp_path / "other")
    (metadata,) = other.glob("stages/1_*/metadata/part-*")
    found: dict[str, Any] = json.loads(metadata.read_text())
    metadata.write_text(json.dumps(found | {"class": "org.apache.spark.ml.clustering.LDAModel"}))
    with pytest.raises(UnsupportedError, match="stages='LDAModel'"):
        hbconv.convert(other, "reference")
    with pytest.raises(ConversionError, match="has no metadata"):
        hbconv.convert(tmp_path, "reference")


def _with_parameters(path: Path, stage: str, **changes: Any) -> None:
    """Change parameters of the one stage of a saved pipeline that has this class."""
    (metadata,) = path.glob(f"stages/*_{stage}_*/metadata/part-*")
    found: dict[str, Any] = json.loads(metadata.read_text())
    found["paramMap"] |= changes
    metadata.write_text(json.dumps(found))


def _with_rows(path: Path, stage: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the rows of what a stage learned, each in place."""
    (file,) = path.glob(f"stages/*_{stage}_*/data/*.parquet")
    table = parquet.read_table(file)
    rows = table.to_pylist()
    for row in rows:
        change(row)
    parquet.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)


def _made_by_encoder(path: Path, rows: pd.DataFrame) -> npt.NDArray[Any]:
    """Leave only the encoder of a saved pipeline, and transform rows."""
    (encoder,) = path.glob("stages/*_OneHotEncoder_*")
    return np.asarray(hbconv.convert(encoder, "reference").transform(rows))


@pytest.mark.parametrize("drops_last", [True, False])
def test_all_that_is_no_category_is_kept_in_one(
    folder: Path, tmp_path: Path, drops_last: bool
) -> None:
    """Spark keeps numbers below 0, from the size on, and NaN as one category behind the others."""
    other = Path(shutil.copytree(folder / "linear", tmp_path / "other"))
    _with_parameters(other, "OneHotEncoder", handleInvalid="keep", dropLast=drops_last)
    size = 4
    numbers = [0.0, 3.0, 4.0, 5.0, 9.0, -1.0, np.nan]
    found = _made_by_encoder(other, pd.DataFrame({"colour_n": numbers}))
    want = np.eye(size + 1)[[0, 3, 4, 4, 4, 4, 4]][:, : size + 1 - drops_last]
    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("number", [-1.0, 4.0, np.nan])
def test_all_that_is_no_category_is_refused(folder: Path, number: float) -> None:
    """Spark refuses these by default."""
    with pytest.raises(InputError, match="Unseen value in column 'colour_n'"):
        _made_by_encoder(folder / "linear", pd.DataFrame({"colour_n": [number]}))


def test_a_threshold_is_compared_with_margins(folder: Path, tmp_path: Path) -> None:
    """A margin of 1e-18 is above that of one half, though its probability is one half."""
    other = Path(shutil.copytree(folder / "logistic", tmp_path / "other"))
    _with_parameters(other, "LogisticRegression", threshold=0.5)

    def flat(row: dict[str, Any]) -> None:
        row["coefficientMatrix"]["values"] = [0.0] * len(row["coefficientMatrix"]["values"])
        row["interceptVector"] |= {"type": 1, "values": [1e-18]}

    _with_rows(other, "LogisticRegression", flat)
    assert set(hbconv.convert(other, "reference").predict(ROWS)) == {1.0}


def test_the_class_is_that_of_the_greatest_score(folder: Path, tmp_path: Path) -> None:
    """Probabilities that round to the same number do not make a tie."""
    other = Path(shutil.copytree(folder / "multinomial", tmp_path / "other"))

    def near(row: dict[str, Any]) -> None:
        row["coefficientMatrix"]["values"] = [0.0] * len(row["coefficientMatrix"]["values"])
        row["interceptVector"] |= {"type": 1, "values": [0.0, 1e-18, 0.0]}

    _with_rows(other, "LogisticRegression", near)
    assert set(hbconv.convert(other, "reference").predict(ROWS)) == {1.0}


def test_categories_never_seen_go_to_the_larger_side(folder: Path, tmp_path: Path) -> None:
    """Spark looks for those of the smaller side, wherever that is."""
    other = Path(shutil.copytree(folder / "tree of numbers", tmp_path / "other"))

    def split(row: dict[str, Any]) -> None:
        if row["id"] == 0:
            row["split"]["leftCategoriesOrThreshold"] = [0.0, 1.0, 2.0]
            row["split"]["numCategories"] = 4
        elif row["leftChild"] >= 0:
            row["split"]["featureIndex"] = 1

    _with_rows(other, "DecisionTreeRegressor", split)
    model = hbconv.convert(other, "reference")
    went = [model.predict(ROWS.assign(height=height)).tolist() for height in (1.0, 3.0, 9.0)]
    assert went[0] == went[2] != went[1]


def test_refuses_stages_behind_a_model_and_thresholds(folder: Path, tmp_path: Path) -> None:
    """A model's columns are answers, not columns of the frame; neither are thresholds read."""
    other = Path(shutil.copytree(folder / "names", tmp_path / "other"))
    (metadata,) = other.glob("stages/*_IndexToString_*/metadata/part-*")
    found: dict[str, Any] = json.loads(metadata.read_text())
    found["paramMap"]["indices"] = [0]
    metadata.write_text(json.dumps(found | {"class": "VectorSlicer"}))
    with pytest.raises(UnsupportedError, match="inputCols='prediction'"):
        hbconv.convert(other, "reference")
    boosted = Path(shutil.copytree(folder / "boosting", tmp_path / "boosted"))
    _with_parameters(boosted, "GBTClassifier", thresholds=[0.2, 0.8])
    with pytest.raises(UnsupportedError, match="thresholds="):
        hbconv.convert(boosted, "reference")


@pytest.mark.parametrize(
    "changes", [{"paramMap": 1}, {"paramMap": {"stageUids": 1}}, {"paramMap": {"stageUids": [1]}}]
)
def test_damaged_metadata_end_in_a_named_error(
    folder: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Parameters and stages of another form than Spark writes."""
    other = Path(shutil.copytree(folder / "linear", tmp_path / "other"))
    (metadata,) = other.glob("metadata/part-*")
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | changes))
    with pytest.raises(ConversionError, match="damaged"):
        hbconv.convert(other, "reference")


@pytest.mark.parametrize("damage", ["no data", "no stage", "no json"])
def test_a_damaged_folder_ends_in_a_named_error(folder: Path, tmp_path: Path, damage: str) -> None:
    """Whatever is missing, the error is one of the project's."""
    other = shutil.copytree(folder / "linear", tmp_path / "other")
    if damage == "no data":
        shutil.rmtree(next(other.glob("stages/5_*/data")))
    elif damage == "no stage":
        shutil.rmtree(next(other.glob("stages/2_*")))
    else:
        next(other.glob("metadata/part-*")).write_text("{")
    with pytest.raises(ConversionError):
        hbconv.convert(other, "reference")


def test_the_command_line_takes_a_folder(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It converts one, and says that it cannot ask Spark."""
    saved = tmp_path / "linear.hbc"
    assert main(["convert", str(folder / "linear"), "-o", str(saved)]) == 0
    want = hbconv.convert(folder / "linear", "reference").predict(ROWS)
    np.testing.assert_allclose(hbconv.load(saved).predict(ROWS), want, rtol=1e-12)
    assert main(["verify", str(folder / "linear"), "rows.csv"]) == 2
    assert "a model of Spark, which hbconv does not run" in capsys.readouterr().err
