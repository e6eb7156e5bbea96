"""Calls in the midst of calls, after the main thread has ended, and bound calls given what they
were not bound for.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from fitted import labels, matrix
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.backends.tvm.binary.artifact import TvmArtifact
from hbconv.backends.tvm.binary.loop import share
from hbconv.errors import InputError

WIDTH = matrix().shape[1]


def rows(n, dtype="float64", seed=0):
    return np.random.default_rng(seed).normal(size=(n, WIDTH)).astype(dtype)


class Interrupted:
    """A compiled function that is interrupted, before and after it has run, by what a signal
    handler or a finalizer does.
    """

    def __init__(self, function):
        self.function, self.handlers = function, []

    def __call__(self, *arguments):
        self.interrupt()
        self.function(*arguments)
        self.interrupt()

    def interrupt(self):
        if self.handlers:
            self.handlers.pop()()


@pytest.fixture
def interrupted(monkeypatch):
    """Return the functions that artifacts are bound to from now on, made to be interrupted."""
    made, bind = [], TvmArtifact.bind

    def bound(self, n):
        found = bind(self, n)
        made.append(Interrupted(found.run))
        return replace(found, run=made[-1])

    monkeypatch.setattr(TvmArtifact, "bind", bound)
    return made


@pytest.mark.parametrize(("outer", "inner"), [(1, 1), (3, 1), (1, 3)])
def test_a_call_within_a_call_disturbs_neither(outer, inner, interrupted):
    source = LogisticRegression().fit(matrix(), labels())
    model = hbconv.convert(source, backend="tvm")
    x, other, got = rows(outer, seed=1), rows(inner, seed=2), []
    for _ in range(2):
        model.predict_proba(x)
    (function,) = interrupted
    function.handlers = [lambda: got.append(model.predict_proba(other))] * 2
    np.testing.assert_allclose(model.predict_proba(x), source.predict_proba(x), rtol=1e-12)
    assert got
    for answer in got:
        np.testing.assert_allclose(answer, source.predict_proba(other), rtol=1e-12)


def test_a_call_that_fails_leaves_the_next_one_right(interrupted):
    source = LinearRegression().fit(matrix(), matrix()[:, 0])
    model = hbconv.convert(source, backend="tvm")
    for _ in range(2):
        model.predict(rows(1))
    interrupted[0].handlers = [lambda: (model.predict(rows(1, seed=2)), 1 / 0)]
    with pytest.raises(ZeroDivisionError):
        model.predict(rows(1))
    np.testing.assert_allclose(model.predict(rows(1)), source.predict(rows(1)), rtol=1e-12)


def test_a_call_for_many_rows_within_another():
    source = RandomForestRegressor(3, random_state=0).fit(matrix(), matrix()[:, 0])
    model, x, other, got = (
        hbconv.convert(source, backend="tvm"),
        rows(3000, seed=1),
        rows(2000, seed=2),
        [],
    )
    model.predict(x)
    (program,) = model.programs.compiled.values()
    loop = program.artifact.batch
    loop.function = function = Interrupted(loop.function)
    function.handlers = [lambda: got.append(model.predict(other))] * 2
    np.testing.assert_array_equal(model.predict(x), source.predict(x))
    assert got
    for answer in got:
        np.testing.assert_array_equal(answer, source.predict(other))


def test_a_bound_call_within_itself(interrupted):
    source = LinearRegression().fit(matrix(), matrix()[:, 0])
    bound, got = hbconv.convert(source, backend="tvm").bind(rows=1, dtype="float64"), []
    interrupted[0].handlers = [lambda: got.append(bound(rows(1, seed=2)).copy())] * 2
    np.testing.assert_allclose(bound(rows(1, seed=1)), source.predict(rows(1, seed=1)), rtol=1e-12)
    np.testing.assert_allclose(got[0], source.predict(rows(1, seed=2)), rtol=1e-12)


AFTER_MAIN = """
import atexit, threading, hbconv, numpy as np
from sklearn.tree import DecisionTreeRegressor
X = np.random.default_rng(0).normal(size=(5000, 6)); source = DecisionTreeRegressor(max_depth=3).fit(X, X[:, 0])
model = hbconv.convert(source, backend="{backend}", threads=2)
def ask(where):
    assert np.array_equal(model.predict(X), source.predict(X))
    print(where)
ask("main")
atexit.register(ask, "atexit")
threading.Thread(target=lambda: (threading.main_thread().join(), ask("thread"))).start()
"""


@pytest.mark.parametrize("backend", ["tvm", "onnx"])
def test_threads_answer_when_the_main_thread_has_ended(backend):
    done = subprocess.run(
        [sys.executable, "-c", AFTER_MAIN.format(backend=backend)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.split(), done.returncode) == (["main", "thread", "atexit"], 0), done.stderr


def test_work_is_shared_within_shared_work():
    done = []
    share([lambda: share([lambda: done.append(0)] * 3, threads=4)] * 9, threads=4)
    assert len(done) == 27


def test_shared_work_that_fails_is_told():
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share([fail] * 9, threads=4)
    share([lambda: None] * 9, threads=4)


def masked():
    return np.ma.masked_array(rows(5), rows(5) > 0)


MISFITS = {
    "nothing": None, "a number": 3.0, "a text": "a", "a row": rows(5)[0], "one row": rows(1),
    "one column": rows(5)[:, :1], "a block": rows(5)[None],
    "no rows": rows(0), "more rows": rows(6), "complex": rows(5).astype(complex),
    "texts": np.full((5, WIDTH), "a"), "objects": np.full((5, WIDTH), object()),
    "dates": rows(5).astype("int64").astype("M8[s]"), "masked": masked(),
    "lists": [[1.0], [2.0, 3.0]], "sparse": scipy.sparse.csr_matrix(rows(5)),
    "tensor": torch.ones(5, 1), "records": np.zeros(5, [("a", "f8")]), "bytes": b"abc",
    "a mapping": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("backend", ["tvm", "reference"])
@pytest.mark.parametrize("misfit", MISFITS, ids=str)
def test_bound_calls_refuse_what_does_not_fit(misfit, backend):
    source = LinearRegression().fit(matrix(), matrix()[:, 0])
    bound = hbconv.convert(source, backend=backend).bind(rows=5, dtype="float64")
    with pytest.raises(InputError):
        bound(MISFITS[misfit])


@pytest.mark.parametrize("n", [None, 5])
def test_bound_calls_do_not_cut_numbers_off(n):
    bound = hbconv.convert(LinearRegression().fit(matrix(), matrix()[:, 0]), backend="tvm").bind(
        rows=n, dtype="int64"
    )
    with pytest.raises(InputError, match="cut numbers off"):
        bound(rows(5))


def test_bound_calls_take_whatever_fits():
    source = LinearRegression().fit(matrix(), matrix()[:, 0])
    bound, x = hbconv.convert(source, backend="tvm").bind(rows=5, dtype="float64"), rows(5)
    still = x.copy()
    still.flags.writeable = False
    given = [
        x.tolist(),
        still,
        np.asfortranarray(x),
        np.repeat(x, 2, axis=0)[::2],
        x.astype(">f8"),
        torch.tensor(x),
        pd.DataFrame(x),
        x.view(np.matrix),
        x[::-1][::-1],
        pickle.loads(pickle.dumps(x)),
    ]
    for each in given:
        np.testing.assert_allclose(bound(each), source.predict(x), rtol=1e-12)


def test_half_precision_is_refused_only_where_the_source_computes_in_it():
    half = rows(5, "float16")
    for source in (
        LinearRegression().fit(matrix(), matrix()[:, 0]),
        RandomForestRegressor(3, random_state=0).fit(matrix(), matrix()[:, 0]),
    ):
        np.testing.assert_allclose(
            hbconv.convert(source, backend="tvm").predict(half), source.predict(half), rtol=1e-12
        )
    scaler = StandardScaler().fit(pd.DataFrame(matrix(), columns=list("abcdef")))
    model = hbconv.convert(scaler, backend="tvm")
    frame = pd.DataFrame(rows(5), columns=list("abcdef")).astype({"b": "float16"})
    np.testing.assert_allclose(model.transform(frame), scaler.transform(frame), rtol=1e-12)
    for given in (frame.astype("float16"), pl.DataFrame(frame.astype("float32")).cast(pl.Float16)):
        with pytest.raises(InputError, match="float16"):
            model.transform(given)
