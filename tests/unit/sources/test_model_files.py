"""Models are opened by their paths, and what is not opened is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest
import treelite
import xgboost

import hbconv
from hbconv.cli import main
from hbconv.errors import ConversionError, HbconvError, UnsupportedError

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(80, 4))
ROWS[:, 3] = RNG.integers(0, 6, 80)
ROWS[::7, 1] = np.nan
CLASSES = (ROWS[:, 0] > 0).astype(int) + (ROWS[:, 3] == 2)
QUIET = {"verbose": -1, "num_leaves": 6, "min_data_in_leaf": 3, "min_data_per_group": 3}


@pytest.fixture(scope="module")
def booster() -> lightgbm.Booster:
    """A booster of three classes, with tests on categories."""
    data = lightgbm.Dataset(ROWS, CLASSES, categorical_feature=[3])
    return lightgbm.train({**QUIET, "objective": "multiclass", "num_class": 3}, data, 4)


@pytest.fixture(scope="module")
def forest(booster: lightgbm.Booster) -> treelite.Model:
    """The same as a model of Treelite."""
    return treelite.frontend.from_lightgbm(booster)


def _saved(path: Path, forest: treelite.Model) -> Path:
    if path.suffix == ".json":
        path.write_text(forest.dump_as_json())
    else:
        forest.serialize(path)
    return path


@pytest.mark.parametrize("name", ["model.tl", "checkpoint.bin", "model.json"])
def test_a_treelite_file_answers_as_treelite(
    tmp_path: Path, forest: treelite.Model, name: str
) -> None:
    """Checkpoints and JSON hold all that the answers need."""
    model = hbconv.convert(_saved(tmp_path / name, forest), "reference")
    np.testing.assert_allclose(model.predict(ROWS), treelite.gtil.predict(forest, ROWS), rtol=1e-13)
    want = treelite.gtil.predict(forest, ROWS, pred_margin=True)
    np.testing.assert_array_equal(model.raw_scores(ROWS), want)


def test_vectors_at_leaves_and_averages_are_read(tmp_path: Path) -> None:
    """A forest of scikit-learn has a leaf vector for the classes."""
    from sklearn.ensemble import RandomForestClassifier

    fitted = RandomForestClassifier(3, max_depth=3, random_state=0).fit(ROWS[:, [0, 2]], CLASSES)
    own = treelite.sklearn.import_model(fitted)
    found = hbconv.convert(_saved(tmp_path / "m.tl", own), "reference").predict(ROWS[:, [0, 2]])
    np.testing.assert_array_equal(found, treelite.gtil.predict(own, ROWS[:, [0, 2]]))


def test_the_command_line_converts_and_verifies_a_checkpoint(
    tmp_path: Path, forest: treelite.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verification asks Treelite, which does not load its own JSON."""
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, ROWS, delimiter=",", header="a,b,c,d", comments="")
    path = _saved(tmp_path / "m.tl", forest)
    assert main(["convert", str(path), "-o", str(tmp_path / "m.hbc")]) == 0
    assert main(["verify", str(path), str(rows), "--backend", "reference"]) == 0
    capsys.readouterr()
    path = _saved(tmp_path / "m.json", forest)
    assert main(["verify", str(path), str(rows), "--backend", "reference"]) == 2
    assert "does not load its JSON" in capsys.readouterr().err


def test_a_checkpoint_of_before_is_refused(tmp_path: Path, forest: treelite.Model) -> None:
    """Treelite 3.9 wrote another form."""
    data = bytearray(forest.serialize_bytes())
    data[0] = 3
    (tmp_path / "old.tl").write_bytes(data)
    with pytest.raises(UnsupportedError, match="version=3"):
        hbconv.convert(tmp_path / "old.tl")


def test_a_damaged_checkpoint_ends_in_a_named_error(tmp_path: Path, forest: treelite.Model) -> None:
    """Each byte may be wrong, and each byte may be the last."""
    data = forest.serialize_bytes()
    rng = np.random.default_rng(1)
    path = tmp_path / "m.tl"
    refused = 0
    for attempt in range(150):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(data))] if attempt % 3 == 0 else damaged)
        try:
            hbconv.convert(path, "reference")
        except HbconvError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("name", ["model.txt", "model.json", "model.ubj"])
def test_files_of_boosters_are_read(tmp_path: Path, booster: lightgbm.Booster, name: str) -> None:
    """Those that need no library to read."""
    path = tmp_path / name
    want: Any
    if name == "model.txt":
        booster.save_model(path)
        want = booster.predict(ROWS)
    else:
        data = xgboost.DMatrix(ROWS, CLASSES)
        own = xgboost.train({"max_depth": 3, "nthread": 1}, data, 3)
        own.save_model(path)
        want = own.predict(data)
    found = hbconv.convert(path, "reference").predict(ROWS)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["model.pmml", "model.xml", "model"])
def test_pmml_is_named_with_a_way_out(tmp_path: Path, name: str) -> None:
    """By its suffix, or by its root element."""
    (tmp_path / name).write_text('<?xml version="1.0"?>\n<PMML version="4.4"/>')
    with pytest.raises(ConversionError, match=r"PMML is not read. Convert the fitted model"):
        hbconv.convert(tmp_path / name)
    assert main(["convert", str(tmp_path / name), "-o", str(tmp_path / "m.hbc")]) == 1
