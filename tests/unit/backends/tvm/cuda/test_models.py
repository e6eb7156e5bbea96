"""Models on an emulated CUDA device: elementwise work and sums of trees to the last bit."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from emulated_rows import emulate_device
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, SparseCoder
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, StackingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler
from sources import compared

import hbconv
from hbconv.backends.cuda import choose
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.cuda import plan
from hbconv.errors import BackendError, OptionError
from hbconv.target import Target
from hbconv.tensor import Builder

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 4)), RNG.integers(0, 4, (300, 2))])
X[RNG.random(X.shape) < 0.1] = np.nan
Y = (np.nan_to_num(X[:, 0]) > 0.3).astype(int) + (np.nan_to_num(X[:, 5]) > 1)
CODES = make_pipeline(
    SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
)
MIXED = make_column_transformer(
    (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), [0, 1, 2, 3]),
    (CODES, [4, 5]),
    sparse_threshold=0,
)
MODELS = {
    "impute, scale, one-hot, trees": make_pipeline(
        MIXED, GradientBoostingClassifier(n_estimators=5)
    ),
    "one-hot, bins, vector leaves": make_pipeline(
        make_column_transformer(
            (CODES, [4, 5]),
            (
                make_pipeline(
                    SimpleImputer(), KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
                ),
                [0, 1],
            ),
            sparse_threshold=0,
        ),
        RandomForestClassifier(n_estimators=5, random_state=0),
    ),
    "trees on trees": StackingRegressor(
        [
            ("a", LGBMRegressor(n_estimators=4, verbose=-1)),
            ("b", LGBMRegressor(n_estimators=3, verbose=-1)),
        ],
        LGBMRegressor(n_estimators=4, verbose=-1),
        passthrough=True,
        cv=2,
    ),
    "impute, scale, PCA, linear": make_pipeline(
        SimpleImputer(), StandardScaler(), PCA(3), LogisticRegression()
    ),
    "impute, neighbours": make_pipeline(
        SimpleImputer(), KNeighborsClassifier(weights="distance", algorithm="brute")
    ),
}
NEAR = ("impute, scale, PCA, linear",)
"""Products add in another order on the CPU."""


def hostile_rows() -> np.ndarray:
    """Known cells, one ulp beside them, and what no arithmetic likes; no infinities."""
    known = X[:60]
    odd = np.array([np.nan, 0.0, -0.0, 5e-324, -5e-324, 3e30, 2.0, 3.5])
    beside = [np.nextafter(known, direction) for direction in (-np.inf, np.inf)]
    return np.concatenate([known, *beside, RNG.choice(odd, (60, X.shape[1]))])


@pytest.mark.parametrize("name", MODELS)
def test_answers_as_the_cpu_and_the_source(name, monkeypatch):
    emulate_device(monkeypatch)
    source = MODELS[name].fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    on_cpu = hbconv.convert(source, backend="reference")
    rows = hostile_rows()
    for method in set(compared(model)) - {"predict_log_proba", "transform", "staged_predict"}:
        for x in (rows, rows[:1]):
            got, want = (getattr(m, method)(x) for m in (model, on_cpu))
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            if name in NEAR or method == "predict_proba":
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)
            else:
                assert got.tobytes() == want.tobytes(), method


@pytest.mark.parametrize("leaves", [6, 100])
def test_few_rows_and_many_have_tables_of_their_own(leaves, monkeypatch):
    device = emulate_device(monkeypatch)
    monkeypatch.setattr(choose, "STEPS", (10, 1 << 20))
    value = np.nan_to_num(X[:, 0] * X[:, 1]) + RNG.normal(size=len(X))
    source = LGBMRegressor(n_estimators=30, num_leaves=leaves, min_child_samples=1, verbose=-1).fit(
        X, value
    )
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = hbconv.convert(source, backend="reference").predict(X)
    for rows in (slice(3), slice(None), slice(3)):
        assert model.predict(X[rows]).tobytes() == want[rows].tobytes()
    names = {name.partition("<")[0] for name in device.launcher.launched}
    assert names == {"few", "bin", "bits" if leaves == 6 else "walk"}


def test_infinities_are_refused_as_the_source_does(monkeypatch):
    emulate_device(monkeypatch)
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(np.nan_to_num(X), Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    rows = np.nan_to_num(X[:5])
    rows[2, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        source.predict(rows)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(rows)


def test_rows_beyond_the_memory_come_in_chunks(monkeypatch):
    device = emulate_device(monkeypatch)
    source = MODELS["impute, scale, one-hot, trees"].fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    want = model.decision_function(X)
    device.launcher.launched.clear()
    monkeypatch.setattr("hbconv.backends.cuda.plan.BUFFER_BYTES", 1)
    got = model.decision_function(X)
    assert got.tobytes() == want.tobytes()
    assert device.launcher.launched.count("rows0") + device.launcher.launched.count("rows1") >= 10


def test_memory_is_given_back(monkeypatch):
    """Rows after each call, tables with the artifact."""
    device = emulate_device(monkeypatch)
    b = Builder()
    x = b.input("x", "float64", 2)
    program = b.program({"y": x + b.constant([1.0, 2.0])})
    held = BACKEND.compile(program, Target("tvm", device="cuda"))
    held.run({"x": np.ones((3, 2))})
    assert len(device.taken) == 1
    del held
    gc.collect()
    assert not device.taken


def test_no_row_needs_no_launch(monkeypatch):
    device = emulate_device(monkeypatch)
    source = MODELS["impute, scale, PCA, linear"].fit(X, Y)
    model = hbconv.convert(source, backend="tvm", device="cuda")
    assert model.predict_proba(X[:0]).shape == (0, 3)
    assert not device.launcher.launched


def test_preprocessing_and_links_take_a_launch_each(monkeypatch):
    """Scaling moves into the thresholds, so that trees read the columns of the caller."""
    emulate_device(monkeypatch)
    source = make_pipeline(
        SimpleImputer(), StandardScaler(), GradientBoostingClassifier(n_estimators=3)
    )
    model = hbconv.convert(source.fit(X, Y), backend="tvm", device="cuda")
    (report,) = (k.report for k in model.explain().kernels if k.method == "predict_proba")
    names = [launch.kernel.partition("<")[0] for launch in report.launches]
    *trees, link = names
    assert link.startswith("rows")
    assert trees in (["bin", "bits"], ["bin", "walk"], ["deep"])
    assert report.bytes_read == X.shape[1] * 8
    assert f"{len(names)} launches for sm_90, predicted" in str(report)


def test_long_steps_that_repeat_stay_in_the_function_of_a_row(monkeypatch):
    """Cut into functions they would have vectors of one lane, which TVM has not."""
    emulate_device(monkeypatch)
    atoms = RNG.standard_normal((8, X.shape[1]))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    rows = RNG.standard_normal((60, X.shape[1]))
    source = SparseCoder(atoms, transform_algorithm="lars", transform_n_nonzero_coefs=3)
    model = hbconv.convert(source.fit(rows), backend="tvm", device="cuda")
    np.testing.assert_allclose(model.transform(rows), source.transform(rows), rtol=1e-9, atol=1e-9)


def test_rows_too_wide_for_a_thread_are_refused(monkeypatch):
    emulate_device(monkeypatch)
    monkeypatch.setattr(plan, "MAX_ROW_BYTES", 8)
    source = MODELS["impute, scale, PCA, linear"].fit(X, Y)
    with pytest.raises(BackendError, match=r"holds 8 bytes; .*matmul.* take .*backend='torch'"):
        hbconv.convert(source, backend="tvm", device="cuda").compile(X)


def test_machines_without_a_device_say_so():
    source: Any = Ridge().fit(np.nan_to_num(X), Y)
    with pytest.raises(OptionError, match=r"Device 'cuda:99' is not .* (driver sees|cannot be)"):
        hbconv.convert(source, backend="tvm", device="cuda:99")
