"""Torch on the CPU by the compiled kernel: what users do with the module, and with the model."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted import labels, table
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.backends.torch.jit import trace
from hbconv.backends.torch.kernel_module import KernelModule
from hbconv.errors import BackendError, InputError, OptionError
from hbconv.runtime.options import OPERATORS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
Y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    """As users have it, and the other tests do not."""
    monkeypatch.delenv(OPERATORS)


@cache
def source(name: str) -> Any:
    if name == "texts":
        encode = make_column_transformer(
            (StandardScaler(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["colour"])
        )
        return make_pipeline(encode, LogisticRegression()).fit(table().fillna(0), labels())
    return {
        "linear": make_pipeline(StandardScaler(), LogisticRegression()),
        "boosted": LGBMClassifier(n_estimators=5, verbose=-1),
        "forest": RandomForestRegressor(5, random_state=0),
        "near": KNeighborsClassifier(3),
    }[name].fit(X.round(0) if name == "near" else X, Y)


NAMES = ("linear", "boosted", "forest", "near")


@cache
def module(name: str) -> KernelModule:
    return hbconv.convert(source(name), backend="torch").module


def answers(module: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    found = module(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", NAMES)
def test_vmap_stacks_rows_and_tables(name):
    x = torch.tensor(X[:6])
    rows = torch.vmap(lambda row: module(name)(row[None]))
    want = answers(module(name), x)
    for call, stacked in (
        (torch.vmap(module(name)), x.view(3, 2, 5)),
        (torch.vmap(module(name), in_dims=1), x.view(3, 2, 5).transpose(0, 1)),
        (rows, x),
        (torch.vmap(rows), x.view(3, 2, 5)),
    ):
        for got, expected in zip(answers(call, stacked), want, strict=True):
            torch.testing.assert_close(got.reshape(expected.shape), expected, rtol=0, atol=0)
    none = answers(torch.vmap(module(name)), x[:0].view(3, 0, 5))
    assert [y.shape for y in none] == [(3, 0, *y.shape[1:]) for y in want]


def test_vmap_takes_what_all_tables_share():
    model = hbconv.convert(source("texts"), backend="torch")
    inputs = [y.repeat(4, 1) for y in model.module.example()]
    stacked = inputs[0].view(4, 2, -1)
    shared = inputs[1][:2]
    got = answers(torch.vmap(model.module, in_dims=(0, None)), stacked, shared)
    for y, want in zip(got, answers(model.module, *inputs), strict=True):
        torch.testing.assert_close(y.reshape(want.shape), want, rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_it_gives_the_answers_of_the_kernel(name):
    model = hbconv.convert(source(name), backend="torch")
    tvm = hbconv.convert(source(name), backend="tvm")
    exact = next(iter(tvm.methods))
    for rows in (0, 1, 7, 300):
        # Rows of a model that looks at ties are finished by rules, which a module has not.
        if name != "near":
            np.testing.assert_array_equal(
                answers(module(name), torch.from_numpy(X[:rows]))[0].numpy().squeeze(),
                np.asarray(getattr(tvm, exact)(X[:rows])).squeeze(),
            )
        for x in (X[:rows], torch.from_numpy(X[:rows])):
            got = getattr(model, exact)(x)
            np.testing.assert_array_equal(got, getattr(tvm, exact)(X[:rows]))


@pytest.mark.parametrize("name", [*NAMES, "texts"])
def test_it_has_the_form_of_plain_operators(name):
    kernels = hbconv.convert(source(name), backend="torch").module
    plain = hbconv.convert(source(name), backend="torch", native=False).module
    assert type(plain) is not KernelModule
    assert (kernels.inputs, kernels.output_names) == (plain.inputs, plain.output_names)
    given = kernels.example()
    for ours, theirs in zip(answers(kernels, *given), answers(plain, *given), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        torch.testing.assert_close(ours, theirs)
    wide = [x.to(torch.int64) if x.dtype == torch.int32 else x for x in given]
    assert all(map(torch.equal, answers(kernels, *wide), answers(kernels, *given)))


def test_rows_of_any_layout():
    x = torch.from_numpy(X)
    expected = answers(module("linear"), x)
    by_columns = torch.from_numpy(np.asfortranarray(X))
    assert all(map(torch.equal, answers(module("linear"), by_columns), expected))
    every_second = answers(module("linear"), x[::2])
    assert all(map(torch.equal, every_second, [y[::2] for y in expected]))


@pytest.mark.parametrize(
    "wrong", [torch.zeros(2, 4, dtype=torch.float64), torch.zeros(2, 5)], ids=["width", "dtype"]
)
def test_rows_of_another_type_are_refused(wrong):
    with pytest.raises(InputError, match="the module was compiled for"):
        module("linear")(wrong)


def test_inputs_of_other_numbers_of_rows_are_refused():
    """The kernel reads bare addresses, beyond the end of the shorter one."""
    kernels = hbconv.convert(source("texts"), backend="torch").module
    first, second = kernels.example()
    for inputs in ((first, second[:1]), (first[:1], second)):
        with pytest.raises(InputError, match="rows; give equally many"):
            kernels(*inputs)


def test_many_models_compile_without_graph_breaks():
    torch.compiler.reset()
    for seed in range(10):
        y = np.random.default_rng(seed).integers(0, 2, len(X))
        kernels = hbconv.convert(LogisticRegression().fit(X, y), backend="torch").module
        compiled = torch.compile(kernels, backend="eager", fullgraph=True, dynamic=True)
        x = torch.from_numpy(X)
        assert all(map(torch.equal, answers(compiled, x), answers(kernels, x)))


def test_the_operator_is_a_good_one():
    kernels = module("boosted")
    arguments = kernels._number, [torch.from_numpy(X)], kernels._shapes
    torch.library.opcheck(torch.ops.hbconv.run_kernel, arguments)


def test_exports_and_traces_hold_plain_operators():
    kernels = module("linear")
    x = torch.from_numpy(X)
    rows = torch.export.Dim("n")
    exported = torch.export.export(kernels, kernels.example(), dynamic_shapes=(({0: rows},),))
    traced = trace(kernels, kernels.example())
    assert "run_kernel" not in str(exported) + str(traced.inlined_graph)
    for form in (exported.module(), traced):
        for ours, theirs in zip(answers(form, x), answers(kernels, x), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_gradients_are_those_of_plain_operators():
    x = torch.from_numpy(X).requires_grad_()
    (scores,) = answers(
        hbconv.convert(source("linear"), backend="torch")._only(["decision_function"]).module, x
    )
    scores.sum().backward()
    scaler, linear = (step for _, step in source("linear").steps)
    np.testing.assert_allclose(x.grad[0], linear.coef_[0] / scaler.scale_)


def test_it_moves_as_plain_operators_do():
    moved = hbconv.convert(source("linear"), backend="torch").module.to("meta")
    assert all(y.is_meta for y in answers(moved, torch.from_numpy(X).to("meta")))
    assert moved.example()[0].is_meta
    half = copy.deepcopy(module("linear")).half()
    x = torch.from_numpy(X)
    assert all(map(torch.equal, answers(half, x), answers(module("linear"), x)))


def test_copies_and_pickles():
    x = torch.from_numpy(X)
    for again in (copy.deepcopy(module("boosted")), pickle.loads(pickle.dumps(module("boosted")))):
        assert type(again) is KernelModule
        assert all(map(torch.equal, answers(again, x), answers(module("boosted"), x)))
    assert module("boosted").state_dict() == {}


def test_threads_share_a_kernel():
    x = torch.from_numpy(X)
    expected = answers(module("boosted"), x)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: answers(module("boosted"), x), range(40)))
    assert all(all(map(torch.equal, one, expected)) for one in found)


def test_a_kernel_that_is_gone_is_named():
    kernels = module("boosted")
    with pytest.raises(BackendError, match="of another process"):
        torch.ops.hbconv.run_kernel(torch.tensor(-1), [torch.from_numpy(X)], kernels._shapes)


def test_what_was_saved_compiled_needs_no_tvm(tmp_path):
    path, rows = tmp_path / "model.hbc", tmp_path / "rows.npy"
    model = hbconv.convert(source("boosted"), backend="torch", sample=X)
    model.save(path)
    np.save(rows, X)
    script = f"""
import sys
sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
import numpy as np, hbconv
X = np.load({str(rows)!r})
model = hbconv.load({str(path)!r}, trusted=True)
print(model.backend, model.programs.target.backend, model.predict_proba(X)[:, 1].sum().hex())
plain = hbconv.load({str(path)!r})
print(plain.backend, plain.programs.target.backend, len(plain.predict(X)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    total = model.predict_proba(X)[:, 1].sum().hex()
    assert done.stdout.splitlines() == [f"torch tvm {total}", "torch torch 300"]


def test_it_is_told():
    model = hbconv.convert(source("boosted"), backend="torch")
    assert "on backend torch, compiled by tvm, device cpu" in model.explain().summary
    with pytest.raises(OptionError, match="native='no' must be True or False"):
        hbconv.convert(source("boosted"), backend="torch", native="no")


def test_frames_too():
    rows = table().fillna(0)
    model = hbconv.convert(source("texts"), backend="torch")
    pd.testing.assert_series_equal(
        pd.Series(model.predict(rows)), pd.Series(source("texts").predict(rows))
    )
