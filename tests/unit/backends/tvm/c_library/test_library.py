"""C libraries: called from C and by ctypes, from many threads, for this machine and for others."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fitted import fit, labels, matrix, rows, table
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.backends.tvm.c_library import export as c_export
from hbconv.backends.tvm.machine.machine import LEVELS, Machine
from hbconv.errors import BackendError, MissingPackageError, OptionError

WAYS = [
    "compiler",
    pytest.param(
        "alone", marks=pytest.mark.skipif(sys.platform != "linux", reason="Linux links alone")
    ),
]
NUMPY = {"double": np.float64, "float": np.float32, "int64_t": np.int64, "uint8_t": np.uint8}


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch):
    """Have a C compiler make the functions around kernels, or hide all: then LLVM makes them."""
    if request.param == "compiler":
        return request.param
    real = c_export.find_compiler

    def find(machine):
        with monkeypatch.context() as hidden:
            hide_compilers(hidden)
            return real(machine)

    monkeypatch.setattr(c_export, "find_compiler", find)
    return request.param


def hide_compilers(monkeypatch):
    real = c_export.importlib.util.find_spec
    monkeypatch.setattr(c_export.shutil, "which", lambda _: None)
    monkeypatch.setattr(
        c_export.importlib.util, "find_spec", lambda name: None if name == "ziglang" else real(name)
    )


class Library:
    """A library as ctypes loads it, called as its header says."""

    def __init__(self, path: Any) -> None:
        self.library = ctypes.CDLL(str(path))
        self.prefix = path.stem
        self.header = path.with_suffix(".h").read_text()
        self.message = getattr(self.library, f"{self.prefix}_message")
        self.message.restype = ctypes.c_char_p

    def __call__(self, method: str, count: int, arguments: list[Any], width: int = 0) -> Any:
        """Return the answer, or raise ValueError with the message of the status."""
        declared = re.search(rf"{self.prefix}_{method}\((.*)\)", self.header).group(1)
        dtype = NUMPY[declared.split(",")[-1].split()[0]]
        answer = np.empty((count, width) if width else (count,), dtype)
        given = [a if isinstance(a, ctypes.Array) else pointer(a) for a in arguments]
        run = getattr(self.library, f"{self.prefix}_{method}")
        status = run(ctypes.c_int64(count), *given, pointer(answer))
        if status:
            raise ValueError(self.message(status).decode())
        return answer

    def classes(self, method: str, count: int, suffix: str = "") -> list[str]:
        found = (ctypes.c_char_p * count).in_dll(
            self.library, f"{self.prefix}_{method}_classes{suffix}"
        )
        return [text.decode() for text in found]


def pointer(array: np.ndarray) -> Any:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def texts(values: Any) -> Any:
    return (ctypes.c_char_p * max(1, len(values)))(
        *(v.encode() if isinstance(v, str) else None for v in values)
    )


def export(source: Any, sample: Any, path: Any, **options: str) -> Library | None:
    hbconv.convert(source, "reference", sample=sample).export(path, **options)
    return None if options else Library(path)


def mixed() -> tuple[Any, pd.DataFrame]:
    """Text with missing values, read by two encoders; unknown texts are refused."""
    frame = table().assign(deck=np.where(table()["fare"] > 0.5, None, "x"))
    encode = make_column_transformer(
        (SimpleImputer(), ["age", "fare"]),
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "deck"]),
        (OrdinalEncoder(categories=[["日本", "blue", "green", "red"]]), ["colour"]),
    )
    forest = RandomForestClassifier(30, max_depth=6, random_state=0)
    return make_pipeline(encode, forest).fit(frame, labels()), frame


def numbers_of(frame: pd.DataFrame) -> np.ndarray:
    return np.ascontiguousarray(frame[["age", "fare"]].to_numpy())


C_PROGRAM = """
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "shop.h"

int main(void) {
    const double x[] = {1.5, -0.25, NAN, 2.0};
    const char *colour[] = {"red", "\\346\\227\\245\\346\\234\\254"};
    const char *deck[] = {"x", NULL};
    int64_t codes[2];
    double scores[6];
    if (shop_predict(2, x, colour, deck, codes)) return 1;
    if (shop_predict_proba(2, x, colour, deck, scores)) return 2;
    for (int i = 0; i < 2; i++)
        printf("%s %a %a %a\\n", shop_predict_classes[codes[i]], scores[3 * i], scores[3 * i + 1],
               scores[3 * i + 2]);
    colour[1] = "purple";
    printf("%s\\n", shop_message(shop_predict(2, x, colour, deck, codes)));
    printf("%d %d\\n", shop_predict(0, x, colour, deck, codes), shop_predict(-1, x, colour, deck, codes));
    printf("%s\\n", shop_message(shop_predict(2, NULL, colour, deck, codes)));
    return shop_message(0) != NULL;
}
"""


def test_a_c_program_calls_it(tmp_path):
    """It prints the source's own answers, and the message of a refused row."""
    source, frame = mixed()
    export(source, frame[:2], tmp_path / "shop.so")
    (tmp_path / "main.c").write_text(C_PROGRAM)
    warn = ["-Wall", "-Wextra", "-Werror", "-std=c99"]
    command = ["gcc", *warn, "main.c", "shop.so", "-Wl,-rpath,.", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = ["g++", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", "shop.h"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    x = pd.DataFrame(
        {"age": [1.5, np.nan], "colour": ["red", "日本"], "fare": [-0.25, 2.0], "deck": ["x", None]}
    )
    first, second, refused, statuses, null = said.stdout.splitlines()
    for line, label, scores in zip(
        (first, second), source.predict(x), source.predict_proba(x), strict=True
    ):
        assert line.split()[0] == label
        assert [float.fromhex(s) for s in line.split()[1:]] == scores.tolist()
    assert "unknown categories in column" in refused
    assert statuses == "0 -1"
    assert "NULL" in null


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 203, 9000])
def test_any_number_of_rows(tmp_path, count):
    """One row, few rows, and more than a slice."""
    source, frame = mixed()
    library = export(source, frame[:2], tmp_path / "m.so")
    x = frame.iloc[np.arange(count) % len(frame)]
    given = [numbers_of(x), texts(x["colour"]), texts(x["deck"])]
    scores = library("predict_proba", count, given, 3)
    codes = library("predict", count, given)
    if count:
        np.testing.assert_array_equal(scores, source.predict_proba(x))
        found = np.array(library.classes("predict", 3))[codes]
        np.testing.assert_array_equal(found, source.predict(x))


def test_hard_rows_of_trees_are_decided_as_the_source_does(tmp_path):
    source = GradientBoostingRegressor(n_estimators=30, random_state=0).fit(
        matrix(), matrix()[:, 0] ** 2
    )
    library = export(source, matrix()[:2], tmp_path / "m.so")
    trees = [tree.tree_ for tree in source.estimators_.ravel()]
    edges = np.concatenate([t.threshold[t.feature >= 0] for t in trees])
    values = np.concatenate(
        [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), [-0.0]]
    )
    x = np.ascontiguousarray(np.resize(values, (len(values) // 6, 6)))
    np.testing.assert_array_equal(library("predict", len(x), [x]), source.predict(x))


@pytest.mark.parametrize("row", [0, 4095, 4096, 8999])
def test_a_refused_row_in_any_slice_is_refused(tmp_path, row):
    library = export(fit("linear"), matrix()[:2], tmp_path / "m.so")
    x = np.ascontiguousarray(np.resize(matrix(), (9000, 6)))
    np.testing.assert_allclose(
        library("predict_proba", 9000, [x], 3), fit("linear").predict_proba(x), rtol=1e-12
    )
    for value in (np.nan, np.inf):
        x[row, 5] = value
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            library("predict_proba", 9000, [x], 3)


def test_threads_call_it_at_once(tmp_path):
    source, frame = mixed()
    library = export(source, frame[:2], tmp_path / "m.so")
    wrong = []

    def client(number: int) -> None:
        for count in (1, 5, 40, 203):
            x = frame[number : number + count]
            given = [numbers_of(x), texts(x["colour"]), texts(x["deck"])]
            for _ in range(20):
                found = library("predict_proba", len(x), given, 3)
                if not np.array_equal(found, expected[number : number + count]):
                    wrong.append((number, count))

    expected = source.predict_proba(frame)
    threads = [threading.Thread(target=client, args=(number,)) for number in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("classes", [[3, 7, -(2**63)], [0.0, 1.0, 2.0], [False, True, True]])
def test_numeric_labels_are_in_the_answer(tmp_path, classes):
    y = np.array(classes)[np.digitize(matrix()[:, 0], [-0.5, 0.5])]
    source = LogisticRegression().fit(matrix(), y)
    library = export(source, matrix()[:2], tmp_path / "m.so")
    x = np.ascontiguousarray(matrix())
    assert library("predict", len(x), [x]).tolist() == source.predict(x).tolist()


def test_labels_of_several_targets(tmp_path):
    y = np.stack([labels(), labels()[::-1]], 1)
    source = MultiOutputClassifier(DecisionTreeClassifier(max_depth=3)).fit(matrix(), y)
    library = export(source, matrix()[:2], tmp_path / "m.so")
    x = np.ascontiguousarray(matrix())
    codes = library("predict", len(x), [x], 2)
    found = [np.array(library.classes("predict", 3, f"_{i}"))[codes[:, i]] for i in (0, 1)]
    np.testing.assert_array_equal(np.stack(found, 1), source.predict(x))


def test_odd_texts(tmp_path):
    """Quotes, trigraphs, escapes and comments in categories, labels and column names."""
    words = ['"', "\\", "??/", "a\nb", "*/", "ü" * 300, "%s"]
    frame = pd.DataFrame({"a */ \n": words * 2})
    source = make_pipeline(OrdinalEncoder(), DecisionTreeClassifier()).fit(frame, words * 2)
    library = export(source, frame[:2], tmp_path / "m.so")
    codes = library("predict", len(words), [texts(words)])
    assert [library.classes("predict", len(words))[code] for code in codes] == words


def test_names_that_c_knows_already(tmp_path):
    """Columns and files are named as words of C, macros, and what the library itself uses."""
    names = ["int", "rows", "answer", "linux", "NULL", "class", "codes", "work"]
    frame = pd.DataFrame({name: list("abab") for name in names})
    source = make_pipeline(OrdinalEncoder(), DecisionTreeClassifier()).fit(frame, [0, 1, 0, 1])
    for stem in ("hbconv", "double"):
        library = export(source, frame[:2], tmp_path / f"{stem}.so")
        given = [texts(frame[name]) for name in names]
        assert library("predict", 4, given).tolist() == [0, 1, 0, 1]
    command = ["g++", "-fsyntax-only", "-x", "c++", "hbconv.h"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_dtypes_of_the_sample(tmp_path, dtype):
    source = fit("forest")
    x = np.ascontiguousarray(matrix() * 3, dtype)
    library = export(source, x[:2], tmp_path / "m.so")
    np.testing.assert_array_equal(library("predict_proba", len(x), [x], 3), source.predict_proba(x))


def inspected(path: Any, *options: str) -> str:
    return subprocess.run(
        ["readelf", *options, str(path)], check=True, capture_output=True, text=True
    ).stdout


def undefined(path: Any) -> set[str]:
    """Names that the library takes from others, without their versions."""
    lines = [line.split() for line in inspected(path, "--dyn-syms", "-W").splitlines()]
    return {words[7].partition("@")[0] for words in lines if len(words) > 7 and words[6] == "UND"}


ALLOWED = {
    *("aligned_alloc", "free", "memcpy", "memset", "strcmp", "posix_memalign"),
    *("__cxa_finalize", "__gmon_start__", "_ITM_deregisterTMCloneTable"),
    *("_ITM_registerTMCloneTable", "__stack_chk_fail"),
    "__getauxval",  # of libc: gcc asks which atomics an aarch64 processor has
    *("exp", "expf", "log", "logf", "pow", "powf", "fmod", "log1p", "exp2", "floor", "fma"),
}


@pytest.mark.parametrize("name", ["mixed", "linear"])
def test_it_depends_on_libc_and_libm_alone(tmp_path, name):
    export(fit(name), rows(name)[:2], tmp_path / "m.so")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", inspected(tmp_path / "m.so", "-d")))
    assert needed <= {"libc.so.6", "libm.so.6"}
    assert undefined(tmp_path / "m.so") <= ALLOWED
    defined = re.findall(
        r"GLOBAL\s+DEFAULT\s+\d+ (\S+)", inspected(tmp_path / "m.so", "--dyn-syms", "-W")
    )
    assert defined
    assert all(symbol.startswith("m_") for symbol in defined)


COMPILES_AARCH64 = bool(
    shutil.which("aarch64-linux-gnu-gcc")
    or shutil.which("zig")
    or importlib.util.find_spec("ziglang")
)


def test_a_library_for_another_architecture(tmp_path, way):
    if way == "compiler" and not COMPILES_AARCH64:
        pytest.skip("neither aarch64-linux-gnu-gcc nor zig is installed")
    export(fit("mixed"), table()[:2], tmp_path / "m.so", target="aarch64")
    assert re.search(r"Machine:\s+AArch64", inspected(tmp_path / "m.so", "-h"))
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", inspected(tmp_path / "m.so", "-d")))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"}
    assert undefined(tmp_path / "m.so") <= ALLOWED
    assert "m_predict_proba" in inspected(tmp_path / "m.so", "--dyn-syms", "-W")


def test_every_level_of_this_architecture_that_runs_here(tmp_path):
    host = Machine.host()
    x = np.ascontiguousarray(matrix())
    levels = [n for n in LEVELS if Machine(n).architecture == host.architecture]
    for level in levels:
        path = tmp_path / f"{level.replace('-', '_')}.so"
        export(fit("forest"), x[:2], path, target=level)
        library = Library(path)
        if host.runs(Machine(level)):
            found = library("predict_proba", len(x), [x], 3)
            np.testing.assert_array_equal(found, fit("forest").predict_proba(x))
        else:
            with pytest.raises(ValueError, match="lacks instructions"):
                library("predict_proba", len(x), [x], 3)


def test_unknown_targets_and_missing_compilers(tmp_path, monkeypatch):
    model = hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    for options, message in (
        ({"target": "aarch46"}, "Did you mean 'aarch64'"),
        ({"name": "m"}, "has no option 'name'"),
    ):
        with pytest.raises(OptionError, match=message):
            model.export(tmp_path / "m.so", **options)
    rows = np.array([["a"], [None], [np.nan]], object)
    with pytest.raises(BackendError, match="has missing values"):
        hbconv.convert(OneHotEncoder().fit(rows), "reference").export(tmp_path / "m.so")
    hide_compilers(monkeypatch)
    # As where LLVM writes for Windows or macOS.
    monkeypatch.setattr(c_export, "link_objects", no_elf)
    with pytest.raises(MissingPackageError, match=r"Install .*-linux-gnu-gcc, or zig"):
        model.export(tmp_path / "m.so")
    assert list(tmp_path.iterdir()) == []


def no_elf(*_):
    raise NotImplementedError("The object is no ELF of 64 bits, little endian.")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux links alone")
def test_no_process_is_started_without_a_compiler(tmp_path, monkeypatch, way):
    if way == "compiler":
        pytest.skip("a compiler is a process")
    monkeypatch.setattr(subprocess, "run", None)
    monkeypatch.setattr(os, "fork", None)
    x = np.ascontiguousarray(matrix())
    library = export(fit("forest"), x[:2], tmp_path / "m.so")
    np.testing.assert_array_equal(
        library("predict_proba", len(x), [x], 3), fit("forest").predict_proba(x)
    )
