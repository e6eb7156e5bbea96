"""Folders that YDF saved, read by ``convert`` and by the command line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import ydf
from ydf_forests import FEATURES, boosted, table

import hbconv
from hbconv.cli import main
from hbconv.errors import ConversionError, MissingPackageError


def _rows() -> pd.DataFrame:
    return table(60, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model is saved."""
    path = tmp_path_factory.mktemp("ydf") / "model"
    boosted().save(str(path))
    return path


def test_reads_folders(folder: Path, tmp_path: Path) -> None:
    """By ``convert``, also where files share a prefix, and through a file of hbconv."""
    model = boosted()
    named = tmp_path / "named"
    model.save(str(named), advanced_options=ydf.ModelIOOptions(file_prefix="a_"))
    converted = hbconv.convert(folder, "reference")
    converted.save(tmp_path / "model.hbc")
    for found in (
        converted,
        hbconv.convert(named, "reference"),
        hbconv.load(tmp_path / "model.hbc"),
    ):
        np.testing.assert_array_equal(found.predict(_rows()), model.predict(_rows()))


def test_the_command_line_reads_folders(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``hbconv verify`` compares with ydf, whose own lines stay away from the answer."""
    names = [f if isinstance(f, str) else f.name for f in FEATURES]
    _rows()[names].to_parquet(tmp_path / "rows.parquet")
    assert (
        main(["verify", str(folder), str(tmp_path / "rows.parquet"), "--backend", "reference"]) == 0
    )
    said = capsys.readouterr().out
    assert "predict_class" in said
    assert "Loading" not in said


def test_scoring_goes_on_with_the_folder_it_began_with(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run belongs to the bytes of all files of its model."""
    model, rows, answers = tmp_path / "model", tmp_path / "rows.parquet", tmp_path / "answers"
    shutil.copytree(folder, model)
    _rows().to_parquet(rows)
    command = ["score", *map(str, (model, rows)), "-o", f"{answers}/", "--backend", "reference"]
    assert main(command) == 0
    found = pd.read_parquet(answers / "rows.parquet")
    np.testing.assert_array_equal(found["predict"], boosted().predict(_rows()))
    assert main([*command, "--resume"]) == 0
    (model / "more").write_bytes(b"")
    assert main([*command, "--resume"]) == 2
    assert "holds a run with other" in capsys.readouterr().err


def test_names_the_package_that_a_folder_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without ydf."""
    monkeypatch.setitem(sys.modules, "ydf", None)
    with pytest.raises(MissingPackageError, match="pip install ydf"):
        hbconv.convert(folder, "reference")


def test_a_damaged_folder_is_named(folder: Path, tmp_path: Path) -> None:
    """A file that was cut off."""
    for file in folder.iterdir():
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ConversionError, match="damaged"):
        hbconv.convert(tmp_path, "reference")
