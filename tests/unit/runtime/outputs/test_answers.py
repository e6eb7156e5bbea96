"""A model answers as the estimator does, whatever the rows lie in and however many there are."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from fitted import NAMES, available_backends, fit, matrix, rows, table
from sklearn.preprocessing import StandardScaler
from sources import compared, dense

import hbconv
from hbconv.array import Array
from hbconv.containers import Columns, Labels, Matrix, Output, Schema, Vector
from hbconv.runtime.outputs.answers import decoder, row_decoder

BACKENDS = available_backends()


@cache
def model_of(name, backend="reference", **options):
    return hbconv.convert(fit(name), backend, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_method_answers_with_the_form_of_the_source(name, backend):
    model, source = model_of(name, backend), fit(name)
    assert model.methods
    for method in compared(model):
        with np.errstate(divide="ignore"):
            expected, found = (
                getattr(source, method)(rows(name)),
                getattr(model, method)(rows(name)),
            )
        assert type(found) is type(expected)
        expected, found = dense(expected), dense(found)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    report = hbconv.verify(source, model, rows(name))
    assert report.ok, report
    assert report.flipped == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_rows_have_an_empty_answer_of_the_same_form(name, backend):
    model = model_of(name, backend)
    for method in model.methods:
        one, none = (dense(getattr(model, method)(rows(name)[:count])) for count in (1, 0))
        assert none.shape == (0, *one.shape[1:])
        assert none.dtype == one.dtype


@pytest.mark.parametrize("name", ["forest", "scaler", "encoder", "mixed"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_alone_is_the_row_of_its_batch(name, backend):
    model = model_of(name, backend)
    for method in compared(model):
        batch = dense(getattr(model, method)(rows(name)))
        for i in (0, 1, len(batch) - 1):
            np.testing.assert_array_equal(
                dense(getattr(model, method)(rows(name)[i : i + 1]))[0], batch[i]
            )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_alone_is_within_rounding_of_its_batch_where_matrix_products_choose_their_order(
    backend,
):
    for name, method in (("linear", "decision_function"), ("forest", "contributions")):
        answer = getattr(model_of(name, backend), method)
        alone = np.concatenate([answer(matrix()[i : i + 1]) for i in range(5)])
        np.testing.assert_allclose(alone, answer(matrix())[:5], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_rows_have_the_same_answer_twice(name, backend):
    one, two = model_of(name, backend), hbconv.convert(fit(name), backend)
    for method in one.methods:
        first = dense(getattr(one, method)(rows(name)))
        np.testing.assert_array_equal(dense(getattr(one, method)(rows(name))), first)
        np.testing.assert_array_equal(dense(getattr(two, method)(rows(name))), first)


def layouts():
    read_only = matrix().copy()
    read_only.setflags(write=False)
    padded = np.zeros((len(matrix()) * 2, matrix().shape[1] * 3))
    padded[::2, ::3] = matrix()
    misaligned = (
        np.frombuffer(b"x" + matrix().tobytes(), dtype=np.uint8)[1:]
        .view(np.float64)
        .reshape(matrix().shape)
    )
    return {
        "read-only": read_only,
        "fortran": np.asfortranarray(matrix()),
        "strided": padded[::2, ::3],
        "reversed": matrix()[::-1][::-1],
        "misaligned": misaligned,
        "swapped": matrix().astype(">f8"),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", layouts())
def test_the_layout_of_the_rows_does_not_matter(backend, layout):
    model, x = model_of("forest", backend), layouts()[layout]
    before = x.copy()
    np.testing.assert_array_equal(model.predict_proba(x), model.predict_proba(matrix()))
    np.testing.assert_array_equal(x, before)


def test_columns_are_read_by_name():
    model, source = model_of("mixed"), fit("mixed")
    expected = source.predict_proba(table())
    shuffled = table()[["fare", "colour", "age"]].assign(other=1)
    for x in (
        shuffled,
        pa.Table.from_pandas(shuffled),
        table().to_dict("list"),
        table().astype({"colour": "category"}),
    ):
        np.testing.assert_array_equal(model.predict_proba(x), expected)


def test_unknown_text_is_unknown_to_the_model_as_to_the_source():
    x = table()[:6].assign(colour=["red", "redX", "re", "", "日本", "ERROR"])
    np.testing.assert_array_equal(model_of("mixed").predict_proba(x), fit("mixed").predict_proba(x))
    np.testing.assert_array_equal(
        model_of("encoder").transform(x[["colour"]]).toarray(),
        fit("encoder").transform(x[["colour"]]).toarray(),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8", "bool"])
def test_each_dtype_is_compiled_for_itself(dtype):
    x = (matrix() * 2).astype(dtype)
    for name in ("linear", "forest", "scaler"):
        report = hbconv.verify(fit(name), model_of(name), x)
        assert report.ok, report


def test_a_table_of_small_ints_and_float32_is_computed_in_float32_as_the_source_does():
    x = pd.DataFrame({"a": matrix()[:, 0] * 9, "b": matrix()[:, 1]}).astype(
        {"a": "int8", "b": "float32"}
    )
    scaler = StandardScaler().fit(x)
    found = hbconv.convert(scaler, "reference").transform(x)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, scaler.transform(x))


@pytest.mark.parametrize("name", NAMES)
def test_big_batches_run_in_chunks_and_answer_the_same(name):
    whole, chunked = model_of(name), model_of(name, memory=1)
    big = (
        pd.concat([table()] * 3, ignore_index=True)
        if isinstance(rows(name), pd.DataFrame)
        else np.tile(matrix(), (3, 1))
    )
    big = big[rows(name).columns] if isinstance(big, pd.DataFrame) else big
    for method in whole.methods:
        expected, found = dense(getattr(whole, method)(big)), dense(getattr(chunked, method)(big))
        np.testing.assert_allclose(
            found, expected, rtol=1e-13
        ) if expected.dtype.kind == "f" else np.testing.assert_array_equal(found, expected)


def test_chunks_of_sparse_rows_are_written_out_one_by_one():
    model, x = (
        model_of("forest", memory=1),
        scipy.sparse.random(500, 6, density=0.3, format="csr", random_state=0),
    )
    np.testing.assert_array_equal(model.predict_proba(x), model.predict_proba(x.toarray()))


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_threads_may_ask_at_once(backend):
    model, expected = hbconv.convert(fit("forest"), backend), fit("forest").predict(matrix())
    inputs, found, start = [matrix(), matrix().astype(np.float32)] * 4, {}, threading.Barrier(8)

    def ask(i):
        start.wait()
        found[i] = model.predict(inputs[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(0, 8, 2):
        np.testing.assert_array_equal(found[i], expected)
        np.testing.assert_array_equal(found[i + 1], fit("forest").predict(inputs[1]))


def test_a_sample_compiles_every_method_beforehand():
    model = hbconv.convert(fit("forest"), "reference", sample=matrix()[:3].astype(np.float32))
    assert model.dtypes == ("float32",) * 6
    before = dict(model.programs.compiled)
    model.predict(matrix().astype(np.float32))
    model.predict_proba(matrix().astype(np.float32))
    assert model.programs.compiled == before


@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.parametrize("form", [Vector(), Matrix(), Labels(Array(["no", "yes"]))])
def test_values_of_one_row_become_the_same_answer_in_memory_of_its_own(form, dtype):
    is_labels = isinstance(form, Labels)
    output = Output(Columns.of(Schema.matrix(1)), form, None if is_labels else dtype)
    values = np.array([[1]], np.int32 if is_labels else np.float32)
    found, expected = row_decoder(output)(values), decoder(output)(values)
    assert (found.dtype, found.shape, found.tolist()) == (
        expected.dtype,
        expected.shape,
        expected.tolist(),
    )
    assert not np.shares_memory(found, values)
    found[...] = "" if is_labels else 7
    assert np.array_equal(row_decoder(output)(values), expected)
