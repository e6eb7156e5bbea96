"""Calls for a few rows of a plain matrix answer as all others do, and refuse what they refuse;
bound calls, threads, forks.
"""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from fitted import labels, matrix
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import InputError, OptionError
from hbconv.lower import DENSE

WIDTH = matrix().shape[1]


@pytest.fixture(scope="module")
def pipeline():
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(matrix(), labels())


@pytest.fixture(scope="module")
def linear():
    return LogisticRegression().fit(matrix(), labels())


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(60, random_state=0).fit(matrix(), labels())


@pytest.fixture(scope="module")
def model(forest):
    return hbconv.convert(forest, backend="tvm")


def rows(n, dtype="float64", seed=0):
    return np.random.default_rng(seed).normal(size=(n, WIDTH)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("source", ["pipeline", "linear", "forest"])
def test_every_call_answers_as_the_first(source, dtype, request):
    estimator = request.getfixturevalue(source)
    compiled = hbconv.convert(estimator, backend="tvm")
    for n in (1, 1, 3, 7, 8, 9, 1, 64, 65, 1024, 1025):
        x = (10 * rows(n, seed=n)).astype(dtype)
        for given in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
            np.testing.assert_array_equal(compiled.predict(given), estimator.predict(x))
            np.testing.assert_allclose(
                compiled.predict_proba(given),
                estimator.predict_proba(x),
                rtol=1e-5 if dtype == "float32" else 1e-12,
            )
    assert compiled._methods["predict"]._plans[np.dtype(dtype)] is not None


def test_few_rows_have_a_loop_of_their_own(model, forest):
    np.testing.assert_array_equal(model.predict_proba(rows(1000)), forest.predict_proba(rows(1000)))
    program = next(
        program for key, program in model.programs.compiled.items() if key[0] == ("predict_proba",)
    )
    assert program.artifact.small_batch._loop is None
    np.testing.assert_array_equal(model.predict_proba(rows(2)), forest.predict_proba(rows(2)))
    assert program.artifact.small_batch._loop is not None


@pytest.mark.parametrize("n", [1, 2000])
def test_a_sample_of_few_rows_compiles_their_loop(forest, n):
    compiled = hbconv.convert(forest, backend="tvm", sample=rows(n))
    artifact = compiled.programs.compiled[("predict_proba",), ("float64",) * WIDTH, DENSE].artifact
    assert artifact.small_batch.rows < 2000
    assert (artifact.small_batch._loop is not None) == (n == 1)


def test_answers_last(model):
    first = model.predict_proba(rows(1))
    kept = first.copy()
    assert first.flags.writeable
    model.predict_proba(rows(1, seed=1))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("source", ["pipeline", "linear"])
def test_rows_that_are_refused_are_refused_again(source, request):
    estimator = request.getfixturevalue(source)
    compiled = hbconv.convert(estimator, backend="tvm")
    odd, many = rows(2), rows(2000)
    odd[1, 2] = many[1999, 2] = np.nan
    for x in (
        odd,
        many,
        np.full((1, WIDTH), np.inf),
        rows(1)[0],
        rows(1)[:, 1:],
        rows(1)[None],
        np.array([["a"] * WIDTH]),
    ):
        for _ in range(2):
            with pytest.raises(InputError):
                compiled.predict(x)
        compiled.predict(rows(1))
    assert compiled.predict(rows(0)).shape == (0,)
    huge = np.full((1, WIDTH), 1e200)
    np.testing.assert_array_equal(compiled.predict(huge), estimator.predict(huge))


def test_names_are_missed_at_every_call():
    source = Ridge().fit(pd.DataFrame(matrix(), columns=list("abcdef")), matrix()[:, 0])
    compiled = hbconv.convert(source, backend="tvm")
    for _ in range(3):
        with pytest.warns(UserWarning, match="valid feature names"):
            compiled.predict(rows(1))


def test_frames_are_given_where_they_are_wanted():
    source = StandardScaler().fit(matrix())
    compiled = hbconv.convert(source, backend="tvm")
    for _ in range(2):
        assert isinstance(compiled.transform(rows(1)), np.ndarray)
    compiled.set_output(transform="pandas")
    for _ in range(2):
        assert isinstance(compiled.transform(rows(1)), pd.DataFrame)


def test_a_model_that_stays_keeps_what_is_compiled(model, forest):
    compiled = model.for_target(threads=1)
    compiled.predict(rows(1))
    programs = compiled.programs
    assert compiled.to("cpu").programs is programs
    np.testing.assert_array_equal(compiled.predict(rows(1)), forest.predict(rows(1)))


def test_many_threads_make_small_calls(model, forest):
    given = [rows(1 + i % 8, seed=i) for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        for got, x in zip(pool.map(model.predict_proba, given), given, strict=True):
            np.testing.assert_array_equal(got, forest.predict_proba(x))


def answered(compiled, x, queue):
    queue.put(compiled.predict_proba(x))


def test_threads_survive_a_fork(forest):
    compiled, x = hbconv.convert(forest, backend="tvm", threads=2), rows(5000)
    wanted = compiled.predict_proba(x)
    np.testing.assert_array_equal(wanted, forest.predict_proba(x))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=answered, args=(compiled, x, queue))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking with threads, which is what this is about
        child.start()
    np.testing.assert_array_equal(queue.get(), wanted)
    child.join()


@pytest.mark.parametrize("backend", ["tvm", "reference"])
@pytest.mark.parametrize("n", [None, 1, 5])
def test_bound_calls_answer_as_the_method_does(backend, n, pipeline, forest):
    for source in (pipeline, forest):
        compiled, x = hbconv.convert(source, backend=backend), rows(n or 3)
        for method in ("predict", "predict_proba"):
            bound = compiled.bind(method, n, "float64")
            for _ in range(2):
                np.testing.assert_array_equal(bound(x), getattr(compiled, method)(x))


def test_bound_calls_answer_in_the_same_array():
    source = RandomForestRegressor(3, random_state=0).fit(matrix(), matrix()[:, 0])
    bound = hbconv.convert(source, backend="tvm").bind(rows=1)
    assert bound(rows(1)) is bound(rows(1, seed=1))
    np.testing.assert_array_equal(
        bound(rows(1).astype("float32")), source.predict(rows(1).astype("float32"))
    )


def test_what_cannot_be_bound_is_refused(model):
    with pytest.raises(OptionError, match="Did you mean"):
        model.bind("predict_prob")
    with pytest.raises(OptionError, match="float16"):
        model.bind(dtype="float16")
