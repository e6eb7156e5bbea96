"""Compiled kernels as torch operators: they serve where torch is, and nothing else."""

from __future__ import annotations

import _ctypes
import ctypes
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from alone import run_alone
from fitted import fit, labels, matrix, table
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PowerTransformer, StandardScaler

import hbconv
from hbconv.backends.torch.jit import load
from hbconv.errors import MissingPackageError, OptionError


def hostile() -> pd.DataFrame:
    """Rows at and beside thresholds, missing values, and missing and unknown texts."""
    frame = table().assign(deck=np.where(table()["fare"] > 0.5, None, "x"))
    edges = np.nextafter(frame["age"], np.inf)
    return pd.concat([frame[:60], frame[60:130].assign(age=edges[60:130]), frame[130:]]).assign(
        colour=np.where(np.arange(len(frame)) % 9 == 8, "purple ü", frame["colour"])
    )


def fitted_mixed() -> Any:
    frame = table().assign(deck=np.where(table()["fare"] > 0.5, None, "x"))
    encode = make_column_transformer(
        (SimpleImputer(), ["age", "fare"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "deck"]),
    )
    forest = RandomForestClassifier(30, max_depth=6, random_state=0)
    return make_pipeline(encode, forest).fit(frame, labels())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, dict[Any, Any]]:
    """Export two models, and let a process of torch alone answer by them."""
    folder = tmp_path_factory.mktemp("native")
    source = fitted_mixed()
    mixed = hbconv.convert(source, "reference", sample=hostile()[:2])
    mixed.export(folder / "mixed.pt", native=True)
    linear = hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    linear.export(folder / "linear.pt", native=True)
    linear.export(folder / "exported.pt2", native=True)
    rows = hostile()
    given = {
        "x": torch.tensor(rows[["age", "fare"]].to_numpy()),
        "colour": rows["colour"].tolist(),
        "deck": rows["deck"].fillna("").tolist(),
        "numbers": torch.from_numpy(matrix()),
    }
    torch.save(given, folder / "given.pt")
    run_alone(Path(__file__).with_name("native_alone.py"), folder)
    return source, folder, torch.load(folder / "found.pt")


def assert_answers(found: Any, source: Any, rows: Any, **near: float) -> None:
    """Compare codes of classes, and scores, with the source's."""
    codes, scores, logs = found[:3]
    assert [len(answer) for answer in found] == [len(rows)] * len(found)
    if len(rows):
        assert source.classes_[codes.numpy()].tolist() == source.predict(rows).tolist()
        np.testing.assert_allclose(scores, source.predict_proba(rows), **{"rtol": 0, **near})
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(logs, source.predict_log_proba(rows), rtol=1e-12)


@pytest.mark.share("light")
@pytest.mark.parametrize("count", [0, 1, 2, 203])
def test_it_answers_as_the_source(served, count):
    source, _, found = served
    assert_answers(found[count], source, hostile()[:count])


def test_many_rows_odd_texts_and_any_layout(served):
    source, _, found = served
    rows = hostile()
    assert_answers(found["many"], source, pd.concat([rows] * (5000 // len(rows) + 1)))
    assert_answers(found["not contiguous"], source, rows)
    odd = rows[:5].assign(colour=["re", "", "日", "re\0d", "R" * 999])
    assert_answers(found["odd texts"], source, odd)


def test_threads_call_it_at_once(served):
    _, _, found = served
    for answers in found["threads"]:
        assert all(map(torch.equal, answers, found["many"]))


def test_it_tells_its_interface(served):
    _, _, found = served
    told = found["interface"]
    assert told["library"] == "mixed_op.so"
    assert [i["name"] for i in told["inputs"]] == ["x", "colour", "deck"]
    assert [o["method"] for o in told["outputs"]] == [
        "predict",
        "predict_proba",
        "predict_log_proba",
    ]
    assert told["classes"] == [["high", "low", "middle"]]


def test_a_file_without_its_library_is_refused_by_torch(served):
    _, _, found = served
    assert "Unknown builtin op: hbconv_" in found["unknown operator"]


def test_bad_arguments_are_errors(served):
    _, _, found = served
    assert "same number of rows" in found["lengths"]
    assert "must be a tensor of dtype float64 and shape (n_rows, 2)" in found["float32"]


def test_the_operator_trusts_nothing(served):
    """It is called without the wrapper, and ends no process."""
    _, _, found = served
    said = found["operator"]
    for case in ("dtype", "width", "dimensions"):
        assert "'x' must be a tensor of dtype float64 and shape (n_rows, 2)" in said[case]
    assert "same number of rows" in said["lengths"]
    assert "'SparseCPU' backend" in said["sparse"]
    assert {answer.device.type for answer in said["device"]} == {"meta"}
    for code in (-2, 99, 2**32, -(2**63)):
        assert "in no vocabulary" in said[str(code)]
    assert [(a.device.type, a.shape) for a in said["meta"]] == [
        ("meta", (3,)),
        ("meta", (3, 3)),
        ("meta", (3, 3)),
    ]
    assert torch.equal(said["expanded"][1], said["expanded"][1][:1].expand(3, 3))


def test_refused_rows_and_copies_of_a_library(served):
    """A row that the source refuses is refused, in any slice. Copies and other files of the same
    model may be loaded beside it.
    """
    _, _, found = served
    assert_answers(found["linear"], fit("linear"), matrix(), rtol=1e-12)
    assert "NaN" in found["refused"]
    for count, answers in found["exported"].items():
        assert_answers(answers, fit("linear"), matrix()[:count], rtol=1e-12)
    assert "NaN" in found["exported refused"]


def test_exports_beside_a_loaded_library(served):
    """Each file of the model runs with each library of it, loaded before or after."""
    source, folder, found = served
    torch.ops.load_library(folder / "mixed_op.so")
    before = (folder / "mixed_op.so").read_bytes()
    model = hbconv.convert(source, "reference", sample=hostile()[:2])
    model.export(folder / "mixed.pt2", native=True)
    assert (folder / "mixed_op.so").read_bytes() == before
    model.export(folder / "mixed.pt", native=True)
    for library in ("mixed_op.so", "mixed_op2.so"):
        torch.ops.load_library(folder / library)
    given = torch.load(folder / "given.pt")
    answers = load(str(folder / "mixed.pt"))(given["x"], given["colour"], given["deck"])
    assert all(map(torch.equal, answers, found[203]))


def test_an_export_beside_a_library_that_refuses_zeros(tmp_path):
    """The tracer calls the operator that is loaded, and that one refuses rows."""
    source = PowerTransformer("box-cox").fit(np.abs(matrix()) + 1)
    model = hbconv.convert(source, "reference", sample=matrix()[:2])
    for _ in range(2):
        model.export(tmp_path / "m.pt", native=True)
        torch.ops.load_library(tmp_path / "m_op.so")
        with pytest.raises(RuntimeError, match="positive numbers alone"):
            load(str(tmp_path / "m.pt"))(torch.zeros(2, matrix().shape[1], dtype=torch.float64))


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_no_columns_no_gradient_and_one_answer_without_a_tuple(tmp_path, suffix):
    rows = matrix()[:7]
    for name, source in (
        ("nothing", SelectKBest(k=0).fit(matrix(), np.arange(len(matrix())) % 2)),
        ("scaled", StandardScaler().fit(matrix())),
    ):
        path = tmp_path / f"{name}{suffix}"
        model = hbconv.convert(source, "reference", sample=rows)
        model.export(path, native=True)
        torch.ops.load_library(tmp_path / f"{name}_op{suffix[3:]}.so")
        module = load(str(path)) if suffix == ".pt" else torch.export.load(path).module()
        answer = module(torch.tensor(rows, requires_grad=True))
        np.testing.assert_allclose(answer, model.transform(rows), rtol=1e-12)
        with pytest.raises(RuntimeError, match="does not require grad"):
            answer.sum().backward()


def test_threads_export_one_model(tmp_path):
    model = hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    paths = [tmp_path / f"{number}{suffix}" for number in range(2) for suffix in (".pt", ".pt2")]
    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(lambda path: model.export(path, native=True), paths))
    assert len({path.read_bytes() for path in tmp_path.glob("*.so")}) == 1


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    model = hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    with pytest.raises(OptionError, match="Did you mean 'aarch64'"):
        model.export(tmp_path / "m.pt", native=True, target="aarch46")
    for value in ("no", 0, None, np.True_):
        with pytest.raises(OptionError, match=r"native=.* must be True or False"):
            model.export(tmp_path / "m.pt", native=value)
    for name, options in (("m.onnx", {"native": True}), ("m.pt", {"target": "aarch64"})):
        with pytest.raises(OptionError, match="has no option"):
            model.export(tmp_path / name, **options)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", type(torch.__version__)("2.9.1"))
        with pytest.raises(MissingPackageError, match=r"torch 2.10 .* here is torch 2.9.1"):
            model.export(tmp_path / "m.pt", native=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
def test_a_library_needs_no_compiler_and_names_those_of_torch(tmp_path, monkeypatch, target):
    model = hbconv.convert(fit("mixed"), "reference", sample=table()[:2])

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        model.export(tmp_path / "m.pt", native=True, target=target)
    command = ["readelf", "-h", "-d", "--dyn-syms", "-W", tmp_path / "m_op.so"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert {"aarch64": "AArch64"}.get(target, "X86-64") in said
    assert re.findall(r"NEEDED.*\[(.*)\]", said) == [
        "libtorch_cpu.so",
        "libstdc++.so.6",
        "libm.so.6",
    ]
    assert re.findall(r"(?m)^ *\d+: .*(?<!UND) (\w+)$", said) == []


def test_a_library_that_is_closed_still_answers(tmp_path):
    """Torch keeps the addresses of its functions, and has no way to forget an operator."""
    rows = torch.from_numpy(matrix()[:3])
    model = hbconv.convert(MinMaxScaler().fit(matrix()), "reference", sample=matrix()[:2])
    model.export(tmp_path / "m.pt", native=True)
    library = ctypes.CDLL(str(tmp_path / "m_op.so"))
    _ctypes.dlclose(library._handle)
    found = load(str(tmp_path / "m.pt"))(rows)
    np.testing.assert_allclose(found, model.transform(rows.numpy()), rtol=1e-12)
