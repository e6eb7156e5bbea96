"""Files with compiled code: torch alone answers as the source, and refuses what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from alone import run_alone
from lightgbm import LGBMClassifier
from sklearn.dummy import DummyRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import hbconv
from hbconv.backends.torch import compiled
from hbconv.errors import BackendError, MissingPackageError, OptionError

SCRIPT = """
import json
import sys
import numpy as np
import torch

path, rows, found, refused = sys.argv[1:]
model = torch._inductor.aoti_load_package(path)
told = json.loads(model.get_metadata()["hbconv.json"])
x = torch.from_numpy(np.load(rows))
answers = {}
for n in (len(x), 1, 2, 0):
    for output, answer in zip(told["outputs"], model(x[:n]), strict=True):
        answers[f"{output['method']} {n}"] = answer.numpy()
np.savez(found, **answers)
wrong = x[:4].clone()
wrong[2, 1] = torch.inf
reasons = []
for bad in (wrong, x.float(), x[:, :-1], x.T.contiguous().T):
    try:
        model(bad)
        reasons.append("answered")
    except RuntimeError as error:
        reasons.append(str(error))
open(refused, "w").write(json.dumps(reasons))
"""


def fitted():
    """Rows may hold NaN, which the imputer takes; infinities are refused."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5))
    x[rng.random(x.shape) < 0.1] = np.nan
    y = np.nan_to_num(x).sum(1) > 0
    stacked = make_union(StandardScaler(), FunctionTransformer(None))
    return make_pipeline(SimpleImputer(), stacked, LogisticRegression()).fit(x, y), x


@pytest.mark.rooms(
    "hbconv/backends/torch",
    "hbconv/backends/interface.py",
    "hbconv/tensor",
    "tests/unit/backends/torch",
)
def test_torch_alone_answers_and_refuses(tmp_path):
    source, x = fitted()
    hbconv.convert(source, backend="torch").export(tmp_path / "model.pt2", compiled=True)
    np.save(tmp_path / "rows.npy", x)
    script = Path(tmp_path, "script.py")
    script.write_text(SCRIPT)
    names = ("model.pt2", "rows.npy", "found.npz", "refused.json")
    run_alone(script, *(tmp_path / name for name in names))
    found = np.load(tmp_path / "found.npz")
    for name in found.files:
        method, n = name.split()
        want = getattr(source, method)(x[: int(n)]) if int(n) else found[name]
        np.testing.assert_allclose(found[name], want, rtol=1e-12, atol=1e-15)
        assert len(found[name]) == int(n)
    assert np.array_equal(found["predict 300"], source.predict(x))
    infinite, *others = json.loads((tmp_path / "refused.json").read_text())
    assert "infinity" in infinite
    assert [text.partition(":")[2].split()[0] for text in others] == ["unmatched"] * 3


@pytest.mark.rooms("hbconv/backends/torch", "hbconv/tensor", "tests/unit/backends/torch")
@pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="AOTInductor compiles C++ here"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_module_itself_is_compiled_by_torch(tmp_path, monkeypatch):
    """The kernel of a module is no part of a file: torch compiles its plain operators."""
    monkeypatch.delenv("HBCONV_TORCH_OPERATORS", raising=False)
    x = np.random.default_rng(0).normal(size=(300, 6))
    source = GaussianProcessRegressor(RBF(), optimizer=None).fit(x[:80], x[:80, 0])
    module = hbconv.convert(source, backend="torch", sample=x[:2]).module
    rows = {0: torch.export.Dim("rows")}
    exported = torch.export.export(module, (torch.from_numpy(x),), dynamic_shapes=((rows,),))
    path = str(tmp_path / "module.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=path)
    compiled_module = torch._inductor.aoti_load_package(path)
    for count in (300, 2, 1):
        got = compiled_module(torch.from_numpy(x[:count])).numpy().ravel()
        np.testing.assert_allclose(got, source.predict(x[:count]), rtol=1e-10, atol=1e-10)


def test_options_that_this_torch_does_not_know_are_left_out(monkeypatch):
    known = compiled._processor()
    monkeypatch.setitem(compiled.PORTABLE, "cpp.of_another_version", 1)
    assert compiled._processor() == known


def test_without_a_device_or_a_compiler_it_is_refused(tmp_path):
    model = hbconv.convert(DummyRegressor().fit([[0.0]], [0.0]), backend="torch")
    if not torch.cuda.is_available():
        with pytest.raises(BackendError, match=r"torch sees no CUDA device\. Export where 'cuda'"):
            model.export(tmp_path / "model.pt2", compiled=True, device="cuda")
    no_compiler = torch._inductor.config.patch({"cpp.cxx": ("no-such-compiler",)})
    with (
        no_compiler,
        pytest.raises(MissingPackageError, match="compiled=True needs a C\\+\\+ compiler"),
    ):
        model.export(tmp_path / "model.pt2", compiled=True)
    assert not list(tmp_path.iterdir())


def test_code_that_would_not_check_its_inputs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "IF_ASKED", "another torch writes something else")
    source = LGBMClassifier(n_estimators=2, verbose=-1).fit(np.eye(40), np.arange(40) % 2)
    model = hbconv.convert(source, backend="torch")
    with pytest.raises(BackendError, match="does not check its inputs"):
        model.export(tmp_path / "model.pt2", compiled=True)


def test_it_is_an_option_of_one_kind_of_file(tmp_path):
    model = hbconv.convert(DummyRegressor().fit([[0.0]], [0.0]), backend="torch")
    with pytest.raises(OptionError, match="compiled"):
        model.export(tmp_path / "model.pt", compiled=True)
    with pytest.raises(OptionError, match=r"compiled=True is an option of '\.pt2'"):
        model.to_bytes(".pt", compiled=True)
    with pytest.raises(OptionError, match="compiled=1 must be True or False"):
        model.export(tmp_path / "model.pt2", compiled=1)
