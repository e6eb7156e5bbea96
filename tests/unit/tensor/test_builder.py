"""Sparse rows: grouped and padded on the host, lowered by their entries where nothing needs
them whole.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, hstack, random, vstack
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, MaxAbsScaler, Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.runtime.text.sparse_rows import EntryRows, as_csr, groups

BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")
X = random(300, 400, 0.02, format="csr", rng=np.random.default_rng(0))
Y = np.random.default_rng(1).integers(0, 3, 300)


def rows_of_all_sizes():
    """Rows with no entry, one, some, many."""
    many = csr_matrix(np.random.default_rng(2).random((5, 400)) * (np.arange(400) % 3 == 0))
    none = csr_matrix((1, 400))
    return vstack([X[:40], many, none, X[40:60]], format="csr")


@given(st.lists(st.integers(0, 300), max_size=40))
def test_groups_hold_every_row_once_with_room_for_its_entries(sizes):
    sizes = np.array(sizes, dtype=np.int64)
    made = list(groups(sizes))
    assert sorted(np.concatenate([rows for rows, _ in made]).tolist()) == list(range(len(sizes)))
    assert all((sizes[rows] <= size).all() for rows, size in made)


@given(st.integers(0, 2**32 - 1))
def test_padded_rows_are_the_matrix(seed):
    matrix = random(6, 30, 0.2, format="csr", rng=np.random.default_rng(seed))
    rows = EntryRows.of_matrix(matrix)
    assert (as_csr(*rows.padded(30), 30) != matrix).nnz == 0
    chosen = np.array([4, 0, 0, 5])
    assert (as_csr(*rows.part(chosen).padded(30), 30) != matrix[chosen]).nnz == 0


PIPELINES = {
    "scaled and normalized": make_pipeline(MaxAbsScaler(), Normalizer(), LogisticRegression()),
    "without the mean": make_pipeline(StandardScaler(with_mean=False), Ridge()),
    "binarized": make_pipeline(Binarizer(threshold=0.5), LogisticRegression()),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PIPELINES)
def test_linear_models_take_entries(name, backend):
    source = PIPELINES[name].fit(X, Y)
    model, rows = hbconv.convert(source, backend=backend), rows_of_all_sizes()
    method = "predict_proba" if hasattr(source, "predict_proba") else "predict"
    np.testing.assert_allclose(
        getattr(model, method)(rows), getattr(source, method)(rows), rtol=1e-10, atol=1e-12
    )
    assert all(key[2].matrix for key in model.programs.compiled)
    assert {key[2].size for key in model.programs.compiled} == {16, 256}


def test_what_needs_rows_whole_gets_them_written_out():
    source = DecisionTreeClassifier(random_state=0).fit(X, Y)
    model = hbconv.convert(source, backend="reference")
    assert np.array_equal(model.predict(rows_of_all_sizes()), source.predict(rows_of_all_sizes()))
    assert not any(key[2].matrix for key in model.programs.compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_answers_stay_sparse(backend):
    """The source multiplies columns by the inverse of what it divides those of arrays by: a
    unit in the last place.
    """
    source, rows = MaxAbsScaler().fit(X), rows_of_all_sizes()
    got, want = hbconv.convert(source, backend=backend).transform(rows), source.transform(rows)
    assert (got.format, got.dtype, got.nnz) == (want.format, want.dtype, want.nnz)
    assert np.allclose(got.toarray(), want.toarray(), rtol=4e-16, atol=0)


def test_entries_given_twice_are_added_up():
    source = Ridge().fit(X, Y)
    twice = csr_matrix((np.array([1.0, 2.0]), np.array([7, 7]), np.array([0, 2])), shape=(1, 400))
    np.testing.assert_allclose(
        hbconv.convert(source, backend="reference").predict(twice),
        source.predict(twice.toarray()),
        rtol=1e-12,
    )


def test_bad_entries_are_refused():
    model = hbconv.convert(LogisticRegression().fit(X, Y), backend="reference")
    rows = X[:3].copy()
    rows.data[0] = np.nan
    with pytest.raises(hbconv.InputError, match="NaN"):
        model.predict(rows)


def test_a_saved_model_remembers_programs_of_entries(tmp_path):
    source = LogisticRegression().fit(X, Y)
    model = hbconv.convert(source, backend="tvm", sample=X[:5])
    model.save(tmp_path / "model.hbc")
    loaded = hbconv.load(tmp_path / "model.hbc", trusted=True)
    assert np.array_equal(loaded.predict(X), source.predict(X))


def test_wide_matrices_side_by_side():
    source = LogisticRegression().fit(hstack([X, X], format="csr"), Y)
    model = hbconv.convert(source, backend="torch")
    rows = hstack([rows_of_all_sizes()] * 2, format="csr")
    assert np.array_equal(model.predict(rows), source.predict(rows))
