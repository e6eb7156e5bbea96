"""TorchScript and torch.export files, run as a stranger does: by torch and what the file tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import torch
from fitted import fit, labels, matrix, table
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.backends.torch.export import INTERFACE
from hbconv.backends.torch.jit import load
from hbconv.errors import BackendError, OptionError


def exported(source: Any, sample: Any, path: Any) -> tuple[Any, dict[str, Any]]:
    """Export, and load with torch alone."""
    model = hbconv.convert(source, backend="reference", sample=sample)
    model.export(path)
    told = {INTERFACE: ""}
    if path.suffix == ".pt":
        module = load(str(path), _extra_files=told)
    else:
        module = torch.export.load(path, extra_files=told).module()
    return module, json.loads(told[INTERFACE])


def arguments(told: dict[str, Any], rows: pd.DataFrame) -> list[Any]:
    """Lists of texts, with empty texts for missing ones, or matrices."""
    return [
        rows[given["columns"][0]].fillna("").tolist()
        if given["dtype"] == "string"
        else torch.tensor(rows[given["columns"]].to_numpy(given["dtype"]))
        for given in told["inputs"]
    ]


def answers(module: Any, told: dict[str, Any], given: list[Any]) -> dict[str, Any]:
    found = module(*given)
    values = found if isinstance(found, tuple) else (found,)
    return {o["method"]: v for o, v in zip(told["outputs"], values, strict=True)}


def decoded(told: dict[str, Any], method: str, codes: torch.Tensor) -> list[str]:
    output = next(o for o in told["outputs"] if o["method"] == method)
    return [output["classes"][0][code] for code in codes.tolist()]


def encoded(unknown: str) -> Any:
    """A column with missing values, read by two encoders whose categories differ."""
    rows = table().assign(deck=np.where(table()["fare"] > 0.5, None, "x"))
    encode = make_column_transformer(
        (SimpleImputer(), ["age", "fare"]),
        (OneHotEncoder(handle_unknown=unknown, min_frequency=2), ["colour"]),
        (OneHotEncoder(handle_unknown=unknown), ["deck"]),
        (OrdinalEncoder(categories=[["日本", "blue", "green", "red"]]), ["colour"])
        if unknown == "error"
        else ("drop", ["colour"]),
    )
    return make_pipeline(encode, RandomForestClassifier(7, random_state=0)).fit(
        rows, labels()
    ), rows


def test_it_tells_methods_classes_columns_dtypes_and_vocabularies(tmp_path):
    source, rows = encoded("error")
    _, told = exported(source, rows[:2], tmp_path / "m.pt")
    assert told["classes"] == [["high", "low", "middle"]]
    assert [o["method"] for o in told["outputs"]] == [
        "predict",
        "predict_proba",
        "predict_log_proba",
    ]
    assert told["features"] == ["age", "colour", "fare", "deck"]
    assert [(i["name"], i["dtype"], i["columns"]) for i in told["inputs"]] == [
        ("x", "float64", ["age", "fare"]),
        ("colour", "string", ["colour"]),
        ("deck", "string", ["deck"]),
    ]
    one_hot, ordinal = told["inputs"][1]["vocabularies"]
    assert one_hot == {"blue": 0, "green": 1, "red": 2, "日本": 3}
    assert ordinal == {"日本": 0, "blue": 1, "green": 2, "red": 3}
    assert told["inputs"][2]["vocabularies"] == [{"x": 0, "": 1}]
    assert told["torch"] == torch.__version__
    assert told["estimator"] == "Pipeline"


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_a_file_of_some_methods(tmp_path, suffix):
    """In the order of the caller."""
    model = hbconv.convert(fit("linear"), backend="reference", sample=matrix()[:2])
    path = tmp_path / f"m{suffix}"
    model.export(path, methods=["predict_proba", "predict"])
    told = {INTERFACE: ""}
    if suffix == ".pt":
        module = load(str(path), _extra_files=told)
    else:
        module = torch.export.load(path, extra_files=told).module()
    scores, _ = module(torch.from_numpy(matrix()))
    assert [o["method"] for o in json.loads(told[INTERFACE])["outputs"]] == [
        "predict_proba",
        "predict",
    ]
    np.testing.assert_allclose(scores, fit("linear").predict_proba(matrix()), rtol=1e-12)
    for methods in (["predict_probe"], [], "predict_probe"):
        with pytest.raises(OptionError, match="method"):
            model.export(path, methods=methods)


@pytest.mark.parametrize("count", [0, 1, 2, 203])
@pytest.mark.parametrize("unknown", ["ignore", "error"])
def test_text_columns_need_torch_alone(tmp_path, unknown, count):
    source, rows = encoded(unknown)
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    got = answers(module, told, arguments(told, rows[:count]))
    assert got["predict"].shape == (count,)
    assert got["predict_proba"].shape == (count, 3)
    if count:
        np.testing.assert_array_equal(
            got["predict_proba"].numpy(), source.predict_proba(rows[:count])
        )
        assert decoded(told, "predict", got["predict"]) == source.predict(rows[:count]).tolist()


@pytest.mark.parametrize("text", ["red ", "re", "", "nan", "None", "日", "re\0d", "R" * 10_000])
def test_unknown_categories_are_what_the_source_makes_of_them(tmp_path, text):
    odd = table()[:3].assign(colour=[text, "red", "blue"], deck="x")
    source, rows = encoded("ignore")
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    got = answers(module, told, arguments(told, odd))
    np.testing.assert_array_equal(got["predict_proba"].numpy(), source.predict_proba(odd))
    source, rows = encoded("error")
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    with pytest.raises(torch.jit.Error, match=r"(?s)unknown categories in column.*'colour'"):
        module(*arguments(told, odd))


def test_unknown_codes_of_an_exported_program(tmp_path):
    """torch.export has no text: codes go in, and a check refuses those of unknown texts."""
    source, rows = encoded("error")
    module, told = exported(source, rows[:2], tmp_path / "m.pt2")
    matrix, codes = told["inputs"]
    assert (codes["columns"], codes["dtype"]) == (["colour", "deck", "colour"], "int64")
    x = torch.tensor(rows[matrix["columns"]].to_numpy())
    known = [
        [v.get(text, -1) for v, text in zip(codes["vocabularies"], row, strict=True)]
        for row in rows[codes["columns"]].fillna("").to_numpy().tolist()
    ]
    got = answers(module, told, [x, torch.tensor(known)])
    np.testing.assert_array_equal(got["predict_proba"].numpy(), source.predict_proba(rows))
    with pytest.raises(RuntimeError, match="unknown categories in column"):
        module(x[:1], torch.tensor([[-1, 0, 0]]))
    for place, vocabulary in enumerate(codes["vocabularies"]):
        for code in (-2, len(vocabulary), 2**40, -(2**40)):
            wrong = torch.tensor(known[:3])
            wrong[1, place] = code
            with pytest.raises(RuntimeError, match="a code of a text is in no vocabulary"):
                module(x[:3], wrong)


@pytest.mark.parametrize(("suffix", "native"), [(".pt", False), (".pt", True), (".pt2", False)])
def test_files_tell_nothing_of_the_machine_that_wrote_them(tmp_path, suffix, native):
    """Torch would write down where each operator stands in its source, and where that lies."""
    source, rows = encoded("error")
    model = hbconv.convert(source, backend="torch", sample=rows[:2])
    model.export(tmp_path / f"m{suffix}", methods=["predict_proba"], native=native)
    records = [tmp_path / f"m{suffix}", *tmp_path.glob("*.so")]
    folder = tmp_path / "records"
    with ZipFile(records.pop(0)) as file:
        file.extractall(folder)
    records += [path for path in folder.rglob("*") if path.is_file()]
    places = [Path(hbconv.__file__).parent, Path(torch.__file__).parent, tmp_path]
    for path in records:
        data = path.read_bytes()
        assert not [place for place in places if str(place).encode() in data], path.name


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_the_source_refuses_are_refused(tmp_path, suffix, value):
    module, _ = exported(fit("linear"), matrix()[:2], tmp_path / f"m{suffix}")
    bad = matrix()[:3].copy()
    bad[2, 1] = value
    with pytest.raises(Exception, match=r"NaN|infinity"):
        module(torch.from_numpy(bad))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        fit("linear").predict(bad)


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_other_dtypes_and_widths_are_refused(tmp_path, suffix):
    module, _ = exported(fit("forest"), matrix()[:2], tmp_path / f"m{suffix}")
    x = torch.from_numpy(matrix()[:3])
    for other in (x.float(), x[:, :5], torch.cat([x, x], 1)):
        with pytest.raises(Exception, match=r"must be a tensor of dtype float64|mismatch|Guard"):
            module(other)
    module(x.t().contiguous().t())


def test_arguments_of_different_lengths_are_refused(tmp_path):
    """Torch would repeat the single text for all rows."""
    source, rows = encoded("ignore")
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    x, colour, deck = arguments(told, rows[:3])
    with pytest.raises(torch.jit.Error, match="same number of rows"):
        module(x, colour[:1], deck)


def test_names_that_are_no_identifiers(tmp_path):
    names = ["petal length (cm)", "petal_length__cm_", "class", "größe", "2", "self"]
    rows = pd.DataFrame({name: list("abab") for name in names})
    source = make_pipeline(OrdinalEncoder(), DecisionTreeClassifier()).fit(rows, [0, 1, 0, 1])
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    assert sorted(given["columns"] for given in told["inputs"]) == [[n] for n in sorted(names)]
    assert len({given["name"] for given in told["inputs"]}) == len(names)
    assert answers(module, told, arguments(told, rows))["predict"].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "classes", [[3, 7, 11], [0.0, 1.0, 2.0], [False, True, True], np.array([5, 6, 7], "uint8")]
)
@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_numeric_labels_are_in_the_answer(tmp_path, suffix, classes):
    y = np.array(classes)[np.digitize(matrix()[:, 0], [-0.5, 0.5])]
    source = LogisticRegression().fit(matrix(), y)
    module, told = exported(source, matrix()[:2], tmp_path / f"m{suffix}")
    got = answers(module, told, [torch.from_numpy(matrix())])
    assert got["predict"].tolist() == source.predict(matrix()).tolist()
    assert told["outputs"][0]["classes"] is None
    assert told["classes"] == [np.unique(y).tolist()]


def test_labels_of_several_targets(tmp_path):
    """Numbers are decoded column by column; one target of text makes codes of all."""
    numbers = np.stack([labels() == "low", (labels() == "high") * 5 + 2], 1).astype(int)
    source = MultiOutputClassifier(DecisionTreeClassifier(max_depth=3)).fit(matrix(), numbers)
    module, told = exported(source, matrix()[:2], tmp_path / "m.pt")
    got = answers(module, told, [torch.from_numpy(matrix())])
    np.testing.assert_array_equal(got["predict"].numpy(), source.predict(matrix()))
    np.testing.assert_array_equal(
        got["predict_proba"].numpy(), np.hstack(source.predict_proba(matrix()))
    )
    assert told["outputs"][1]["widths"] == [2, 2]
    texts = np.stack([labels(), labels()], 1)
    source = MultiOutputClassifier(DecisionTreeClassifier(max_depth=3)).fit(matrix(), texts)
    module, told = exported(source, matrix()[:2], tmp_path / "m.pt")
    codes = answers(module, told, [torch.from_numpy(matrix())])["predict"].numpy()
    found = [np.array(t)[c] for t, c in zip(told["outputs"][0]["classes"], codes.T, strict=True)]
    np.testing.assert_array_equal(np.stack(found, 1), source.predict(matrix()))


def test_missing_texts_of_two_kinds_are_refused(tmp_path):
    """None and NaN have codes of their own, and a text can stand for one of them alone."""
    rows = pd.DataFrame({"c": ["a", None, np.nan, "b"]}, dtype=object)
    model = hbconv.convert(OneHotEncoder().fit(rows), backend="reference")
    for suffix in (".pt", ".pt2"):
        with pytest.raises(BackendError, match="'c' has missing values"):
            model.export(tmp_path / f"m{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_the_program_can_be_frozen_and_moved(tmp_path):
    source, rows = encoded("ignore")
    module, told = exported(source, rows[:2], tmp_path / "m.pt")
    given = arguments(told, rows)
    expected = answers(module, told, given)["predict_proba"]
    frozen = load(str(tmp_path / "m.pt"), map_location="cpu").eval()
    assert torch.equal(frozen(*given)[1], expected)
