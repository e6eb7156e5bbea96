"""A program in C++ of libtorch loads and runs what ``native=True`` exports."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import torch
from fitted import fit, labels, matrix, table
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from torch.utils.cpp_extension import include_paths, library_paths

import hbconv

SOURCE = Path(__file__).with_name("native_program.cpp")
NUMBERS, TEXTS = ["age", "fare"], ["colour"]

pytestmark = [
    pytest.mark.rooms(
        "hbconv/backends/torch", "hbconv/backends/tvm/c_library", "tests/unit/backends/torch"
    ),
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program against the libraries of the installed torch."""
    made = tmp_path_factory.mktemp("program") / "program"
    (libraries,) = library_paths()
    flags = [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-std=c++17"]
    headers = [option for path in include_paths() for option in ("-isystem", path)]
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    # libtorch.so names no symbol that the program reads, and torch's operators register as it loads.
    command = ["g++", "-O0", *flags, *headers, str(SOURCE), "-o", str(made), "-Wl,--no-as-needed"]
    subprocess.run([*command, *link], check=True)
    return made


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export a model of numbers."""
    folder = tmp_path_factory.mktemp("numbers")
    model = hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    model.export(folder / "model.pt", native=True)
    return folder


def run(
    program: Path, folder: Path, rows: npt.NDArray[Any], *texts: list[str]
) -> subprocess.CompletedProcess[str]:
    """Let the program answer rows and texts by the model of a folder."""
    np.ascontiguousarray(rows, np.float64).tofile(folder / "rows")
    given = []
    for number, column in enumerate(texts):
        given.append(folder / f"texts{number}")
        given[-1].write_text("".join(f"{text}\n" for text in column), encoding="utf-8")
    names = folder / "model_op.so", folder / "model.pt", folder / "rows", rows.shape[1]
    command = [program, *names, folder / "found", *given]
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)


def read(folder: Path, answer: int, rows: int) -> npt.NDArray[np.float64]:
    found = np.fromfile(folder / f"found{answer}")
    return found.reshape(rows, -1) if rows else found.reshape(0, 1)


@pytest.mark.parametrize("count", [0, 1, 100, 5000])
def test_numbers_are_answered_as_by_the_source(program, numbers, count):
    source, rows = fit("linear"), np.resize(matrix(), (count, matrix().shape[1]))
    done = run(program, numbers, rows)
    assert (done.returncode, done.stderr) == (0, "")
    codes, scores = read(numbers, 0, count), read(numbers, 1, count)
    assert len(codes) == len(scores) == count
    if count:
        assert source.classes_[codes[:, 0].astype(int)].tolist() == source.predict(rows).tolist()
        np.testing.assert_allclose(scores, source.predict_proba(rows), rtol=1e-12)


@pytest.mark.parametrize("count", [2, 5000])
def test_refused_rows_raise(program, numbers, count):
    rows = np.zeros((count, matrix().shape[1]))
    rows[-1] = np.nan
    done = run(program, numbers, rows)
    assert done.returncode == 3
    assert "NaN" in done.stderr


def test_rows_of_another_width_raise(program, numbers):
    width = matrix().shape[1]
    done = run(program, numbers, np.zeros((4, width + 1)))
    assert done.returncode == 3
    assert f"shape (n_rows, {width})" in done.stderr


def test_texts_are_answered_as_by_the_source(program, tmp_path):
    frame: pd.DataFrame = table()[[*NUMBERS, *TEXTS]].dropna()
    wanted = labels()[frame.index]
    encode = make_column_transformer(
        ("passthrough", NUMBERS), (OneHotEncoder(handle_unknown="ignore"), TEXTS)
    )
    source = make_pipeline(encode, RandomForestClassifier(20, max_depth=5, random_state=0))
    source.fit(frame, wanted)
    model = hbconv.convert(source, "reference", sample=frame[:2])
    model.export(tmp_path / "model.pt", native=True)
    asked = frame.assign(colour=np.where(np.arange(len(frame)) % 9, frame["colour"], "purple ü"))
    done = run(program, tmp_path, asked[NUMBERS].to_numpy(), asked["colour"].tolist())
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(read(tmp_path, 1, len(asked)), source.predict_proba(asked))
    odd = run(program, tmp_path, asked[NUMBERS].to_numpy(), ["red"])
    assert odd.returncode == 3
    assert "same number of rows" in odd.stderr
