"""First bytes tell what a file holds: no name of it changes what any door says."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import catboost
import joblib
import lightgbm
import numpy as np
import pytest
import skops.io
import treelite
import xgboost

import hbconv
from hbconv.cli.sources import is_saved, load_source
from hbconv.errors import ConversionError, HbconvError, OptionError, StoreError
from hbconv.model_formats import KNOWN, REFUSED, ModelFormat, find_format, format_of
from hbconv.serve.model_files import find_models
from hbconv.sources import library_files
from hbconv.sources.model_files import FOLDER_READERS, READERS

ROOT = Path(__file__).parents[2]
ROWS = np.random.default_rng(0).normal(size=(60, 4))
QUIET = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
BOOSTER = lightgbm.train(QUIET, lightgbm.Dataset(ROWS, ROWS[:, 0]), 3)
DEEP = xgboost.train({"nthread": 1, "max_depth": 2}, xgboost.DMatrix(ROWS, ROWS[:, 0]), 3)
CAT = catboost.CatBoostRegressor(
    iterations=3, depth=2, verbose=0, thread_count=1, allow_writing_files=False
).fit(ROWS, ROWS[:, 0])
FOREST = treelite.frontend.from_lightgbm(BOOSTER)
NAMES = ("model", "model.txt", "model.JSON", "model.bin", "model.joblib", "model.hbc")


def _written(save: Callable[[str], Any], folder: Path) -> bytes:
    save(str(folder / "written"))
    return (folder / "written").read_bytes()


def _arrays() -> bytes:
    held = io.BytesIO()
    np.savez(held, ROWS)
    return held.getvalue()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[ModelFormat | None, bytes]]:
    """What libraries write, and what it is."""
    folder = tmp_path_factory.mktemp("written")
    dump = "\n".join(DEEP.get_dump())
    text = BOOSTER.model_to_string().encode()
    trees = json.dumps(DEEP.get_dump(dump_format="json"))
    return {
        "LightGBM": (ModelFormat.LIGHTGBM, text),
        "LightGBM of Windows": (ModelFormat.LIGHTGBM, text.replace(b"\n", b"\r\n")),
        "UBJSON": (ModelFormat.XGBOOST, bytes(DEEP.save_raw("ubj"))),
        "JSON": (ModelFormat.XGBOOST_JSON, bytes(DEEP.save_raw("json"))),
        "indented JSON": (
            ModelFormat.XGBOOST_JSON,
            json.dumps(json.loads(bytes(DEEP.save_raw("json"))), indent=1).encode(),
        ),
        "memory of a Booster": (ModelFormat.XGBOOST, bytes(DEEP.__getstate__()["handle"])),
        "CatBoost": (ModelFormat.CATBOOST, _written(CAT.save_model, folder)),
        "CatBoost's JSON": (
            ModelFormat.CATBOOST_JSON,
            _written(lambda path: CAT.save_model(path, format="json"), folder),
        ),
        "Treelite": (ModelFormat.TREELITE, FOREST.serialize_bytes()),
        "Treelite's JSON": (ModelFormat.TREELITE_JSON, FOREST.dump_as_json().encode()),
        "ONNX": (
            ModelFormat.ONNX,
            _written(lambda path: CAT.save_model(path, format="onnx"), folder),
        ),
        "skops": (ModelFormat.SKOPS, skops.io.dumps(CAT)),
        "saved": (ModelFormat.SAVED, hbconv.convert(BOOSTER, "reference").to_bytes()),
        "pickle": (ModelFormat.PICKLE, pickle.dumps(CAT)),
        "first pickle": (ModelFormat.PICKLE, pickle.dumps(CAT, 0)),
        **{
            f"joblib by {how}": (
                ModelFormat.PICKLE,
                _written(lambda path, how=how: joblib.dump(CAT, path, compress=(how, 3)), folder),
            )
            for how in ("zlib", "gzip", "bz2", "lzma", "xz")
        },
        "PMML": (ModelFormat.PMML, b'<?xml version="1.0"?>\n<PMML version="4.4"/>'),
        "dump": (ModelFormat.XGBOOST_DUMP, dump.encode()),
        "named dump": (ModelFormat.XGBOOST_DUMP, _written(DEEP.dump_model, folder)),
        "JSON dump": (
            ModelFormat.XGBOOST_DUMP,
            _written(lambda path: DEEP.dump_model(path, dump_format="json"), folder),
        ),
        "list of dumps": (ModelFormat.XGBOOST_DUMP, trees.encode()),
        "configuration": (ModelFormat.XGBOOST_CONFIG, DEEP.save_config().encode()),
        "LightGBM's dump": (ModelFormat.LIGHTGBM_DUMP, json.dumps(BOOSTER.dump_model()).encode()),
        "base64": (ModelFormat.XGBOOST_BASE64, b"bs64\tAAAA"),
        "compressed text": (ModelFormat.PRESSED, gzip.compress(text)),
        "arrays": (None, _arrays()),
        "CoreML": (None, _written(lambda path: CAT.save_model(path, format="coreml"), folder)),
        "CSV": (None, b"xml,y\n1,2\n"),
        "nothing": (None, b""),
    }


READ = {
    "LightGBM": BOOSTER.predict(ROWS),
    "LightGBM of Windows": BOOSTER.predict(ROWS),
    **dict.fromkeys(
        ("UBJSON", "JSON", "indented JSON", "memory of a Booster"),
        DEEP.predict(xgboost.DMatrix(ROWS)),
    ),
    "CatBoost's JSON": CAT.predict(ROWS),
    "Treelite": treelite.gtil.predict(FOREST, ROWS),
    "Treelite's JSON": treelite.gtil.predict(FOREST, ROWS),
    "skops": CAT.predict(ROWS),
    "CatBoost": CAT.predict(ROWS),
    "ONNX": None,
}
"""What the sources answer, to float32 for Treelite, of those that are read."""


def test_the_first_bytes_tell(files: dict[str, tuple[ModelFormat | None, bytes]]) -> None:
    """Each format is here, and none is taken for another."""
    found = {name: find_format(io.BytesIO(data)) for name, (_, data) in files.items()}
    assert found == {name: said for name, (said, _) in files.items()}
    told = {kind for kind in ModelFormat if kind.value.test} - {ModelFormat.XGBOOST_OLD}
    assert told == set(found.values()) - {None}


def test_folders_are_told_by_their_files(tmp_path: Path) -> None:
    """A folder that no test knows is Spark's, whose reader says what it lacks."""
    for name in ("ydf/xdata_spec.pb", "native/part-0.txt", "stage/metadata/part-0", "empty/x"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    found = {path.name: format_of(path) for path in tmp_path.iterdir()}
    spark = dict.fromkeys(("stage", "empty"), ModelFormat.SPARK)
    assert found == {"ydf": ModelFormat.YDF, "native": ModelFormat.SYNAPSE, **spark}
    with pytest.raises(ConversionError, match="it has no metadata"):
        hbconv.convert(tmp_path / "empty")


def test_each_format_has_a_reader_or_a_way_out() -> None:
    """Files and folders of the registry are opened, or refused with what to do instead."""
    read = {kind for kind in ModelFormat if kind not in REFUSED}
    assert READERS.keys() == {kind for kind in read if kind.value.test}
    assert FOLDER_READERS.keys() == {kind for kind in read if kind.value.test_folder}
    assert all(kind.value.library in KNOWN and kind.value.reader for kind in read)


def test_the_pages_of_the_docs_name_the_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of sources is written from the registry; that of security has each row of it."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import formats_table

    page = formats_table.PAGE.read_text(encoding="utf-8")
    assert formats_table.FIRST in page
    assert page == formats_table.write_page(page), "python docs/site/formats_table.py"
    security = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    short, _, parsed = security.partition("## Who reads which bytes")
    cells = (line.split("|")[1].strip() for line in parsed.partition("\n\nThe")[0].splitlines()[4:])
    names = [row.name for row in formats_table.read_formats()]
    assert sorted(name for cell in cells if cell for name in cell.split(", ")) == sorted(names)
    assert [name for name in names if name not in short and "hbconv" not in name] == []


@pytest.mark.parametrize("kind", READ)
def test_a_model_is_read_under_any_name(
    tmp_path: Path,
    files: dict[str, tuple[ModelFormat | None, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """By its path in Python and on the command line, and as bytes."""
    monkeypatch.setattr(library_files, "require_readable", lambda *_: None)  # takes seconds
    data = files[kind][1]
    answers = [hbconv.convert(bytearray(data), "reference").predict(ROWS)]
    for name in NAMES:
        (tmp_path / name).write_bytes(data)
        answers += [hbconv.convert(load_source(tmp_path / name), "reference").predict(ROWS)]
    want = answers[0] if READ[kind] is None else READ[kind]
    for answer in answers:
        np.testing.assert_allclose(answer, want, rtol=1e-6)


def test_texts_are_read_as_they_are(files: dict[str, tuple[ModelFormat | None, bytes]]) -> None:
    """As ``model_to_string`` gives them."""
    for kind in ("LightGBM", "JSON", "indented JSON", "CatBoost's JSON"):
        found = hbconv.convert(files[kind][1].decode(), "reference").predict(ROWS)
        np.testing.assert_allclose(found, READ[kind], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_read_is_named_with_a_way_out(
    tmp_path: Path, files: dict[str, tuple[ModelFormat | None, bytes]], name: str
) -> None:
    """Whatever its name, from every door."""
    ways = {
        "saved": "hbconv.load",
        "pickle": "--allow-pickle",
        "joblib by bz2": "--allow-pickle",
        "PMML": "PMML is not read. Convert the fitted model",
        "dump": r"dump of XGBoost.*save_model\('model.ubj'\)",
        "named dump": "dump of XGBoost",
        "JSON dump": "dump of XGBoost",
        "list of dumps": "dump of XGBoost",
        "configuration": r"save_config.*save_model\('model.ubj'\)",
        "LightGBM's dump": r"dump of LightGBM.*save_model\('model.txt'\)",
        "base64": "base64",
        "compressed text": "Unpack it first",
        "arrays": "unknown model format, it begins with b'PK",
        "CoreML": "unknown model format",
        "CSV": "unknown model format",
        "nothing": "it is empty. hbconv reads: CatBoost",
    }
    path = tmp_path / name
    for kind, way in ways.items():
        path.write_bytes(files[kind][1])
        with pytest.raises(ConversionError, match=way):
            hbconv.convert(path)
        with pytest.raises(ConversionError, match=way):
            hbconv.convert(files[kind][1])
        if "allow-pickle" in way:
            with pytest.raises(OptionError, match=way):
                load_source(path)
            assert type(load_source(path, allow_pickle=True)) is type(CAT)
        else:
            with pytest.raises(ConversionError, match=way):
                load_source(path)


@pytest.mark.parametrize(
    "text", ["x" * 5000, "a line\nand another", "no/such/file", "nothing\0", '{"a": 1}']
)
def test_a_text_is_never_an_error_of_the_system(text: str) -> None:
    """Neither a path that is too long, nor one of two lines."""
    with pytest.raises(ConversionError, match=r"No file|unknown model format") as error:
        hbconv.convert(text)
    assert len(str(error.value)) < 400 + len(KNOWN)


def test_load_takes_no_text() -> None:
    """A system would say the whole text."""
    with pytest.raises(StoreError, match="a text, not the path"):
        hbconv.load(BOOSTER.model_to_string())


def test_saved_models_are_told_by_their_bytes(
    tmp_path: Path, files: dict[str, tuple[ModelFormat | None, bytes]]
) -> None:
    """By load, by serve and by the commands."""
    (tmp_path / "saved.bin").write_bytes(files["saved"][1])
    (tmp_path / "text.hbc").write_bytes(files["LightGBM"][1])
    (tmp_path / "pickle.hbc").write_bytes(files["pickle"][1])
    (tmp_path / "dump.hbc").write_bytes(files["dump"][1])
    (tmp_path / "rows.hbc").write_bytes(files["CSV"][1])
    assert is_saved(tmp_path / "saved.bin")
    assert not is_saved(tmp_path / "text.hbc")
    assert [model.name for model in find_models([tmp_path / "saved.bin"])] == ["saved"]
    for name, loaded, served in (
        ("text.hbc", "LightGBM's model text. Call hbconv.convert", "hbconv convert text.hbc -o"),
        ("pickle.hbc", "a pickle. It can run any code", "convert --allow-pickle pickle.hbc -o"),
        ("dump.hbc", "a dump of XGBoost", r"save_model\('model.ubj'\)"),
        ("rows.hbc", "no zip archive", "no model. Serve a file"),
    ):
        with pytest.raises(StoreError, match=loaded):
            hbconv.load(tmp_path / name)
        with pytest.raises(OptionError, match=served):
            find_models([tmp_path / name])


@pytest.mark.parametrize(
    "kind", ["LightGBM", "UBJSON", "JSON", "Treelite", "ONNX", "skops", "saved"]
)
def test_each_byte_that_changes_leaves_an_error_by_name(
    kind: str, files: dict[str, tuple[ModelFormat | None, bytes]]
) -> None:
    """What the first bytes say now is read as that, or refused."""
    rng = np.random.default_rng(2)
    refused = 0
    # What is left of a skops file is read by skops, in 4 s each time on a slow processor.
    for _ in range(5 if kind == "skops" else 12):
        data = bytearray(files[kind][1])
        data[rng.integers(12)] = rng.integers(256)
        try:
            hbconv.convert(data, "reference")
        except HbconvError:
            refused += 1
    assert refused > 1
