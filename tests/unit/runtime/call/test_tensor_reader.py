"""Tensors as rows: the answers of arrays, as tensors, computed where the rows lie."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMRegressor
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from torch.utils._python_dispatch import TorchDispatchMode

import hbconv
from hbconv import pipeline
from hbconv.containers import guard
from hbconv.errors import InputError
from hbconv.runtime.call import tensor_reader
from hbconv.runtime.call.tensor_reader import TensorReader

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
TEXT = np.where(X[:, 0] > 0, "yes", "no")
NUMBERS = np.where(X[:, 0] > 0, 7, 3)
CODES = np.floor(np.abs(X))


@pytest.fixture(scope="module")
def text() -> hbconv.Model:
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, TEXT)
    return hbconv.convert(fitted, backend="torch")


@pytest.fixture(scope="module")
def forest() -> hbconv.Model:
    return hbconv.convert(RandomForestClassifier(5, random_state=0).fit(X, NUMBERS), "torch")


@pytest.fixture
def no_host(monkeypatch) -> None:
    """Forbid what copies a tensor to the host."""

    def refuse(self, *args, **kwargs):
        raise AssertionError("copied to the host")

    for name in ("numpy", "cpu", "tolist", "__array__"):
        monkeypatch.setattr(torch.Tensor, name, refuse)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_tensors_have_the_answers_of_arrays(forest, dtype, n):
    rows = X[:n].astype(dtype)
    for method in ("predict", "predict_proba"):
        want = getattr(forest, method)(rows)
        got = getattr(forest, method)(torch.tensor(rows))
        assert got.numpy().dtype == want.dtype
        np.testing.assert_array_equal(got.numpy(), want)


def test_nothing_is_copied_to_the_host(no_host, forest):
    rows = torch.tensor(X)
    assert torch.isin(forest.predict(rows), torch.tensor([3, 7])).all()
    assert forest.predict_proba(rows).shape == (60, 2)


def test_labels_that_are_text_are_arrays(text):
    got = text.predict(torch.tensor(X))
    assert isinstance(got, np.ndarray)
    np.testing.assert_array_equal(got, text.predict(X))
    assert isinstance(text.predict_proba(torch.tensor(X)), torch.Tensor)


def test_refused_rows_are_refused_with_the_same_words(text):
    rows = X.copy()
    rows[3, 1] = np.nan
    with pytest.raises(InputError) as of_arrays:
        text.predict_proba(rows)
    with pytest.raises(InputError) as of_tensors:
        text.predict_proba(torch.tensor(rows))
    assert str(of_tensors.value) == str(of_arrays.value)


def test_rows_beyond_the_bound_are_answered_if_no_check_refuses_them(text):
    rows = X.copy()
    rows[3, 1] = 1e200
    got = text.predict_proba(torch.tensor(rows))
    np.testing.assert_array_equal(got, text.predict_proba(rows))


def test_checks_of_the_host_are_asked(monkeypatch):
    source = make_pipeline(FunctionTransformer(np.log), LinearRegression())
    source.fit(np.abs(X) + 1, X[:, 0])
    model = hbconv.convert(source, backend="torch")
    np.testing.assert_array_equal(model.predict(torch.tensor(np.abs(X))), model.predict(np.abs(X)))
    with pytest.raises(InputError), np.errstate(invalid="ignore"):
        model.predict(torch.tensor(-np.abs(X)))


def test_rows_of_other_layouts_and_widths_are_read_by_the_host(forest):
    sparse = torch.tensor(X).to_sparse()
    np.testing.assert_array_equal(forest.predict(sparse), forest.predict(X))
    for odd in (torch.tensor(X[:, :3]), torch.tensor(X[0]), torch.tensor(X, dtype=torch.complex64)):
        with pytest.raises(InputError):
            forest.predict(odd)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_other_kinds_of_tensors_are_read_by_the_host(forest):
    class Own(torch.Tensor):
        pass

    rows = torch.tensor(X)
    assert type(forest.predict(rows.as_subclass(Own))) is torch.Tensor
    np.testing.assert_array_equal(forest.predict(torch._neg_view(-rows)), forest.predict(X))
    with pytest.raises(InputError):
        forest.predict(torch.nested.as_nested_tensor([rows[0], rows[1, :3]]))


@pytest.mark.parametrize("labels", [NUMBERS.astype(">i4"), NUMBERS.astype("datetime64[D]")])
def test_labels_of_dtypes_that_torch_lacks(labels):
    model = hbconv.convert(LogisticRegression().fit(X, labels), backend="torch")
    got = np.asarray(model.predict(torch.tensor(X)))
    np.testing.assert_array_equal(got, model.predict(X))


def test_a_processor_has_no_number():
    model = hbconv.convert(LinearRegression().fit(X, X[:, 0]), device="cpu:0")
    assert (model.target.device, model.backend) == ("cpu", "tvm")


def test_stages_and_columns_that_are_not_contiguous():
    source = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, NUMBERS)
    model = hbconv.convert(source, backend="torch")
    turned = torch.tensor(np.ascontiguousarray(X.T)).t()
    stages = zip(model.staged_predict(turned), source.staged_predict(X), strict=True)
    for got, want in stages:
        assert isinstance(got, torch.Tensor)
        np.testing.assert_array_equal(got, want)


def test_large_ints_have_a_program_of_their_own():
    source = LinearRegression().fit(X, X[:, 0])
    model = hbconv.convert(source, backend="torch")
    small = np.arange(8).reshape(2, 4)
    for rows in (small, small, np.full((2, 4), 2**60 + 1), small, small[:0]):
        np.testing.assert_array_equal(model.predict(torch.tensor(rows)), model.predict(rows))


def test_large_ints_are_looked_for_in_each_call():
    """Trees read float32. These ints round to another one where they are float64 first."""
    twice_rounded = 2**60 + 2**36 + 1
    values = np.array([[2**60], [2**60 + 2**37]])
    source = DecisionTreeRegressor().fit(values, [0.0, 1.0])
    model = hbconv.convert(source, backend="torch")
    model.predict(values.astype(float))
    for rows in ([[1]], [[1]], [[twice_rounded]]):
        found = model.predict(torch.tensor(rows))
        np.testing.assert_array_equal(found, source.predict(np.array(rows)))


def test_names_are_missed_once_a_call():
    import pandas as pd

    source = LinearRegression().fit(pd.DataFrame(X, columns=list("abcd")), X[:, 0])
    model = hbconv.convert(source, backend="torch")
    for _ in range(2):
        with pytest.warns(UserWarning, match="feature names") as caught:
            model.predict(torch.tensor(X))
        assert len(caught) == 1


def test_sparse_answers_stay_sparse():
    codes = (X > 0).astype(float)
    model = hbconv.convert(OneHotEncoder().fit(codes), backend="torch")
    got = model.transform(torch.tensor(codes))
    np.testing.assert_array_equal(got.toarray(), model.transform(codes).toarray())


def test_other_backends_answer_tensors_too(forest):
    model = forest.for_target(backend="reference")
    got = model.predict(torch.tensor(X))
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got, forest.predict(X))


def test_gradients_end_at_the_model(forest):
    rows = torch.tensor(X, requires_grad=True)
    assert not forest.predict_proba(rows).requires_grad


class Array:
    """Rows of another library, in its own memory."""

    __module__ = "other_library"

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


@pytest.fixture
def library(monkeypatch) -> types.SimpleNamespace:
    """Take arrays of the CPU for those of a device."""
    monkeypatch.setattr(tensor_reader, "ON_CUDA", (1,))
    found = types.SimpleNamespace(from_dlpack=lambda tensor: Array(np.from_dlpack(tensor)))
    monkeypatch.setitem(sys.modules, "other_library", found)
    return found


def test_arrays_of_other_libraries_are_answered_by_their_own(library, forest, text):
    got = forest.predict(Array(X))
    assert isinstance(got, Array)
    np.testing.assert_array_equal(got.values, forest.predict(X))
    np.testing.assert_array_equal(text.predict(Array(X)), text.predict(X))


def test_libraries_that_import_no_arrays_get_tensors(library, forest):
    del library.from_dlpack
    assert isinstance(forest.predict(Array(X)), torch.Tensor)


def test_the_array_api_says_which_library_it_is(library, forest, monkeypatch):
    space = types.SimpleNamespace(from_dlpack=lambda tensor: ("wrapped", tensor))
    monkeypatch.setattr(Array, "__array_namespace__", lambda self: space, raising=False)
    assert forest.predict(Array(X))[0] == "wrapped"


def test_tensors_of_another_device_are_read_by_the_host(forest):
    call = TensorReader(forest.parsed, forest.programs, forest.reads, "predict")
    assert call(torch.empty(3, 4, device="meta")) is None


@pytest.fixture
def flagging(monkeypatch) -> hbconv.Model:
    """A model whose program flags rows, as it does on a device."""
    monkeypatch.setattr(
        pipeline, "find_guard", lambda graph, **options: guard.find_guard(graph, flags=True)
    )
    source = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(CODES, TEXT)
    return hbconv.convert(source, backend="torch")


def test_rows_that_the_program_flags_are_refused(flagging):
    want = flagging.predict_proba(CODES)
    np.testing.assert_array_equal(flagging.predict_proba(torch.tensor(CODES)).numpy(), want)
    rows = CODES.copy()
    rows[3, 1] = 7.0
    with pytest.raises(InputError, match="unknown categories in column 1"):
        flagging.predict_proba(torch.tensor(rows))
    rows[3, 1] = np.nan
    with pytest.raises(InputError):
        flagging.predict_proba(torch.tensor(rows))


class Syncs(TorchDispatchMode):
    """Counts operators for which the host waits, since their answer is a number or a size."""

    WAITING = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.name().partition("::")[2].partition(".")[0] in self.WAITING
        return func(*args, **kwargs or {})


@pytest.fixture(params=["trees alone", "labels", "unknown categories"])
def waiting(request, forest, flagging) -> tuple[Any, Any, int]:
    """A method, rows, and how often a call waits: never where the source refuses no rows."""
    alone = LGBMRegressor(n_estimators=3, verbose=-1).fit(X, X[:, 0])
    return {
        "trees alone": (hbconv.convert(alone, backend="torch").predict, X, 0),
        "labels": (forest.predict, X, 1),
        "unknown categories": (flagging.predict_proba, CODES, 1),
    }[request.param]


def test_the_host_waits_for_nothing_but_one_flag(waiting, no_host):
    method, rows, expected = waiting
    given = torch.tensor(rows)
    for _ in range(3):
        with Syncs() as syncs:
            method(given)
        assert syncs.count == expected


def test_rows_of_one_kind_are_read_alike_in_all_calls(flagging):
    """Flags, dtypes and widths count in each call, though the first one decides the way."""
    for _ in range(3):
        want = flagging.predict_proba(CODES)
        for dtype in (torch.float64, torch.float32, torch.int64):
            found = flagging.predict_proba(torch.tensor(CODES, dtype=dtype))
            np.testing.assert_allclose(found.numpy(), want, rtol=1e-6)
        with pytest.raises(InputError, match="unknown categories"):
            flagging.predict_proba(torch.tensor(CODES + 50))
        with pytest.raises(InputError):
            flagging.predict_proba(torch.tensor(CODES[:, :3]))


def test_flags_need_no_copy_to_the_host(no_host, flagging):
    assert flagging.predict_proba(torch.tensor(CODES)).shape == (60, 2)


def test_a_module_has_no_flags_among_its_outputs(flagging):
    found = flagging.module(torch.tensor(CODES))
    assert len(found) == len(flagging.parsed.exported)
