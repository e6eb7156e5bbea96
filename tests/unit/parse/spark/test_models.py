"""Models that Spark ML saved, beside the answers that Spark gave (``make_spark_models.py``)."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

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
    assert main(["verify", str(folder / "linear"), "rows.csv"]) == 1
    assert "a model of Spark, which hbconv does not run" in capsys.readouterr().err
