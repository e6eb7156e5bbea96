"""A saved model answers in a process that has numpy and safetensors alone."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv import pipeline

REFUSED = [
    "apache_tvm",
    "catboost",
    "cffi",
    "lightgbm",
    "joblib",
    "ml_dtypes",
    "narwhals",
    "onnx",
    "onnxruntime",
    "pandas",
    "platformdirs",
    "polars",
    "pyarrow",
    "scipy",
    "sklearn",
    "skops",
    "torch",
    "tqdm",
    "tvm",
    "tvm_ffi",
    "xgboost",
]
LIGHT = f"""
import importlib.util, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {REFUSED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

def found(name, package=None, real=importlib.util.find_spec):
    return None if name.partition(".")[0] in {REFUSED} else real(name, package)

sys.meta_path.insert(0, Refuse())
importlib.util.find_spec = found
import json, warnings
import hbconv
"""
"""What other packages than numpy and safetensors are for this process: not installed."""
X = np.random.default_rng(0).normal(size=(300, 6))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


def run_light(code, *arguments):
    """Run code where nothing else is installed; return what it prints as JSON."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", LIGHT + code, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ran.returncode, ran.stderr[-2000:]
    return json.loads(ran.stdout)


SOURCES = {
    "trees": HistGradientBoostingClassifier(max_iter=20),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.fixture(scope="module", params=SOURCES)
def saved(request, tmp_path_factory):
    """A model saved with its programs, and its path."""
    path = tmp_path_factory.mktemp("light") / "model.hbc"
    model = hbconv.convert(SOURCES[request.param].fit(X, Y), "tvm", sample=X[:3])
    model.predict_proba(X[:1])
    model.save(path)
    return model, path


ANSWER = """
model = hbconv.load(sys.argv[1], trusted=True)
rows = json.loads(sys.argv[2])
import numpy as np
x = np.array(rows)
bound = model.bind("predict_proba", 1)
print(json.dumps([
    model.predict(x).tolist(), model.predict_proba(x).tolist(), model.predict(rows).tolist(),
    [bound(row).ravel().tolist() for row in x[:, None]], model.backend,
    sorted({name.partition(".")[0] for name in sys.modules}),
]))
"""


def test_programs_of_a_file_run(saved):
    model, path = saved
    x = X[:5]
    *answers, backend, modules = run_light(ANSWER, path, json.dumps(x.tolist()))
    one_by_one = np.concatenate([model.predict_proba(row) for row in x[:, None]])
    wanted = [model.predict(x), model.predict_proba(x), model.predict(x), one_by_one]
    for answer, want in zip(answers, wanted, strict=True):
        np.testing.assert_array_equal(answer, want)
    assert backend == "tvm"
    assert {"numpy", "safetensors", "hbconv"} <= set(modules)
    assert not set(REFUSED) & set(modules)


FALLEN_BACK = """
import numpy as np
x = np.array(json.loads(sys.argv[2]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model = hbconv.load(sys.argv[1], trusted=sys.argv[3] == "True", on_new_dtypes="compile")
    answers = model.predict(x).tolist(), model.predict_proba(x).tolist()
print(json.dumps([model.backend, *answers, [str(w.message) for w in caught]]))
"""


@pytest.mark.parametrize("trusted", [True, False])
def test_what_no_program_covers_is_computed_by_numpy_with_one_warning(saved, trusted, monkeypatch):
    """Trusted rows hold an int beyond float64, which trees convert as the program does; an
    untrusted file has no program for any rows. Nor has the cache one.
    """
    monkeypatch.setenv("HBCONV_CACHE", "")
    model, path = saved
    x = np.round(X[:20])
    if trusted:
        x = np.where(np.arange(20)[:, None] == 0, 2**53 + 1, x.astype(int))
    rows = x.tolist()
    backend, labels, chances, messages = run_light(FALLEN_BACK, path, json.dumps(rows), trusted)
    assert backend == ("tvm" if trusted else "reference")
    np.testing.assert_array_equal(labels, model.predict(x))
    np.testing.assert_allclose(chances, model.predict_proba(x), rtol=1e-12)
    if trusted and "predict_log_proba" not in model.methods:
        assert messages == []
        return
    assert len(messages) == 1
    for part in ("hbconv[tvm]", "'reference'", "more slowly", "model.compile(sample)"):
        assert part in messages[0]


def test_a_kernel_for_another_machine_falls_back(saved, monkeypatch):
    _, path = saved
    code = FALLEN_BACK.replace("import numpy as np", "import os, numpy as np")
    monkeypatch.setenv("HBCONV_MACHINE", "x86-64" if sys.platform == "linux" else "generic")
    _, labels, _, messages = run_light(code, path, json.dumps(X[:5].tolist()), True)
    assert labels == saved[0].predict(X[:5]).tolist()
    assert len(messages) == 1


ERRORS = """
from hbconv.backends import find_backend
def message(function):
    try:
        function()
    except hbconv.MissingPackageError as error:
        return str(error)
print(json.dumps([
    message(lambda: hbconv.load(sys.argv[1], backend=name, trusted=True))
    for name in ("torch", "torchscript", "onnx")
] + [message(lambda: hbconv.load(sys.argv[1], backend="tvm"))]))
"""


def test_errors_name_the_extra(saved):
    messages = run_light(ERRORS, saved[1])
    for message, extra in zip(messages, ("torch", "torch", "onnx", "tvm"), strict=True):
        assert f"pip install 'hbconv[{extra}]'" in message


CACHED = """
from hbconv.backends import find_backend
from hbconv.target import Target
from hbconv.tensor import Builder
import numpy as np
b = Builder()
program = b.program({"y": b.input("x", "float32", 3) * b.constant(2.5, "float32")})
artifact = find_backend("tvm").compile(program, Target("tvm"))
print(json.dumps(artifact.run({"x": np.ones((2, 3), np.float32)})["y"].tolist()))
"""


def test_a_kernel_of_the_cache_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HBCONV_CACHE", str(tmp_path))
    setup = "import json, sys, hbconv\n"
    subprocess.run([sys.executable, "-c", setup + CACHED], check=True, stdout=subprocess.DEVNULL)
    assert run_light(CACHED) == [[2.5] * 3] * 2


def test_text_columns_need_no_pyarrow(tmp_path):
    rows = [["a", "x"], ["b", "y"], ["c", "x"], ["a", "y"]]
    source = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(
        np.array(rows, object), [0, 1, 0, 1]
    )
    model = hbconv.convert(source, "tvm", sample=np.array(rows, object))
    model.save(tmp_path / "text.hbc")
    code = """
model = hbconv.load(sys.argv[1], trusted=True)
print(json.dumps(model.predict(json.loads(sys.argv[2])).tolist()))
"""
    found = run_light(code, tmp_path / "text.hbc", json.dumps(rows))
    assert found == source.predict(np.array(rows, object)).tolist()


@pytest.mark.parametrize("saved", ["linear"], indirect=True)
def test_no_stage_of_the_compiler_runs_for_a_program_of_a_file(saved, monkeypatch):
    """Rows that the checks refuse too: what checks them is in the file."""
    monkeypatch.setattr(pipeline, "Planned", None)
    model = hbconv.load(saved[1], trusted=True)
    np.testing.assert_array_equal(model.predict_proba(X), saved[0].predict_proba(X))
    with pytest.raises(hbconv.InputError, match="infinity"):
        model.predict_proba(np.full((2, 6), np.inf))


def test_compiling_is_logged_once(caplog):
    source = LogisticRegression().fit(X, Y)
    with caplog.at_level(logging.INFO, "hbconv"):
        model = hbconv.convert(source, "reference")
        for _ in range(2):
            model.predict(X)
    said = [message for message in caplog.messages if message.startswith("compiled")]
    assert len(said) == 1
    assert said[0].startswith("compiled predict for 6 columns (6 float64) on reference in ")


def test_a_program_of_a_file_is_not_logged(saved, caplog):
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "hbconv"):
        hbconv.load(saved[1], trusted=True).predict_proba(X)
    assert not caplog.messages
