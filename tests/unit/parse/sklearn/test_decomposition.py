"""Sparse codes, non-negative factors and topics: what the matrix does not say."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from agreement import agree, refuses_as_source, transform
from sklearn.decomposition import (
    NMF,
    DictionaryLearning,
    LatentDirichletAllocation,
    MiniBatchNMF,
    SparseCoder,
)

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 30))


def atoms(count: int) -> np.ndarray:
    """Atoms of length one."""
    made = RNG.normal(size=(count, 30))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


@pytest.mark.parametrize("n_atoms", [1, 5, 25])
def test_many_atoms(n_atoms: int) -> None:
    """Twenty-five directions, one after another, are as exact as one."""
    agree(SparseCoder(atoms(50), transform_n_nonzero_coefs=n_atoms).fit(X), X, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:.*Orthogonal matching pursuit ended prematurely")
def test_rows_that_are_done_early() -> None:
    """Rows of zeros, of one atom, of a sum of two; and atoms of which one depends on the others."""
    a = np.eye(30)[:6]
    a[5] = (a[0] + 2 * a[1]) / np.sqrt(5)
    rows = np.stack([np.zeros(30), 3 * a[2], a[3] - 2 * a[4], a[0] + 0.1 * a[1], 1e-12 * a[0]])
    code = agree(SparseCoder(a, transform_n_nonzero_coefs=6).fit(X), rows, rtol=1e-12)
    assert np.count_nonzero(code, axis=1).tolist() == [0, 1, 2, 2, 0]


PATHS = [
    {"transform_algorithm": "lasso_cd", "transform_alpha": 0.1},
    {"transform_algorithm": "lasso_cd", "transform_alpha": 0.2, "positive_code": True},
    {"transform_algorithm": "lasso_cd", "transform_alpha": 0.1, "transform_max_iter": 3},
    {"transform_algorithm": "lasso_cd", "transform_alpha": 0.0, "transform_max_iter": 30},
    {"transform_algorithm": "lasso_lars"},
    {"transform_algorithm": "lasso_lars", "transform_alpha": 0.1, "split_sign": True},
    {"transform_algorithm": "lasso_lars", "transform_alpha": 0.2, "positive_code": True},
    {"transform_algorithm": "lasso_lars", "transform_alpha": 0.1, "transform_max_iter": 4},
    {"transform_algorithm": "lars"},
    {"transform_algorithm": "lars", "transform_n_nonzero_coefs": 7},
]


@pytest.mark.parametrize("count", [8, 40], ids=["few atoms", "more atoms than features"])
@pytest.mark.parametrize(
    "settings", PATHS, ids=lambda settings: "-".join(map(str, settings.values()))
)
def test_lasso_and_least_angles(settings: dict[str, object], count: int) -> None:
    """Among the rows are zeros, an atom, a sum of two, tiny and huge ones."""
    a = atoms(count)
    rows = np.vstack([np.zeros(30), a[2], a[3] - 2 * a[4], 1e-12 * a[0], 1e3 * X[0], X])
    source = SparseCoder(a, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = source.transform(rows)
    got, _ = transform(source, rows)
    assert got.dtype == want.dtype
    scale = np.maximum(1.0, np.abs(want).max(axis=1, keepdims=True))
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_paths_of_the_lasso_on_each_backend(backend: str) -> None:
    """The other algorithms are in the matrix; this one takes no float32 rows there."""
    source = SparseCoder(atoms(40), transform_algorithm="lasso_lars", transform_alpha=0.1)
    got = hbconv.convert(source, backend=backend).transform(X)
    np.testing.assert_allclose(got, source.transform(X), rtol=0, atol=1e-9)


def test_atoms_that_leave_and_come_back() -> None:
    """Paths of the lasso let atoms go that are like others; some are longer than one."""
    a = np.vstack([atoms(20) + 0.3 * RNG.normal(size=30), 2 * atoms(4)])
    for algorithm in ("lasso_lars", "lasso_cd"):
        for alpha in (1e-3, 0.3):
            source = SparseCoder(a, transform_algorithm=algorithm, transform_alpha=alpha)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = source.transform(X)
            np.testing.assert_allclose(transform(source, X)[0], want, rtol=0, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["lars", "lasso_lars"])
def test_atoms_that_depend_on_others(algorithm: str) -> None:
    """Sums of others and zeros are left out; two of one direction are refused."""
    a = atoms(12)
    sums = a[:3] + a[3:6] - 0.5 * a[6:9]
    sums = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    source = SparseCoder(
        np.vstack([a, sums, np.zeros((1, 30))]),
        transform_algorithm=algorithm,
        transform_alpha=1e-2,
        transform_n_nonzero_coefs=15,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = source.transform(X)
    np.testing.assert_allclose(transform(source, X)[0], want, rtol=0, atol=1e-9)
    for twin in (a[3], -2 * a[3], a[3] + 1e-6 * a[4]):
        source = SparseCoder(np.vstack([a, twin]), transform_algorithm=algorithm)
        with pytest.raises(UnsupportedError, match="atoms 3 and 12 of one direction"):
            hbconv.convert(source)


@pytest.mark.parametrize("n_atoms", [1, 6])
def test_least_angles_of_other_floats(n_atoms: int) -> None:
    """Codes are of the dtype of the dictionary."""
    for dictionary, rows in (
        ("float32", "float32"),
        ("float64", "float32"),
        ("float32", "float64"),
    ):
        source = SparseCoder(
            atoms(8).astype(dictionary),
            transform_algorithm="lars",
            transform_n_nonzero_coefs=n_atoms,
        )
        want = source.transform(X.astype(rows))
        got, _ = transform(source, X.astype(rows))
        assert got.dtype == want.dtype == dictionary
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


def test_refuses_float32_where_rounding_stops_the_source() -> None:
    """The source answers a float32 row alone otherwise than among others, here by more than 1e-3."""
    a = atoms(40).astype(np.float32)
    rows = X.astype(np.float32)
    coder = SparseCoder(a, transform_algorithm="lasso_cd", transform_alpha=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lone = np.vstack([coder.transform(row[None]) for row in rows])
        assert np.abs(lone - coder.transform(rows)).max() > 1e-3
    with pytest.raises(UnsupportedError, match="dictionary='float32'"):
        hbconv.convert(coder)
    for algorithm in ("lasso_lars", "lasso_cd"):
        model = hbconv.convert(
            SparseCoder(a.astype(float), transform_algorithm=algorithm), backend="reference"
        )
        with pytest.raises(InputError, match="not handled for float32 rows"):
            model.transform(rows)
    lone = SparseCoder(atoms(5), transform_algorithm="lasso_lars", transform_alpha=0.01)
    np.testing.assert_allclose(transform(lone, rows)[0], lone.transform(rows), atol=2e-5)


def test_refuses_more_angles_than_columns() -> None:
    """The source goes on along its rounding: 1e13 for values of about 1."""
    atoms = np.random.default_rng(0).standard_normal((15, 8))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    coder = SparseCoder(atoms, transform_algorithm="lars", transform_n_nonzero_coefs=9)
    with pytest.raises(UnsupportedError, match="transform_n_nonzero_coefs=9"):
        hbconv.convert(coder.fit(atoms), backend="reference", sample=atoms)


def test_refuses_what_the_source_refuses() -> None:
    """By name."""
    with pytest.raises(UnsupportedError, match="transform_n_nonzero_coefs"):
        hbconv.convert(SparseCoder(atoms(3), transform_n_nonzero_coefs=4).fit(X))
    learned = DictionaryLearning(
        4, max_iter=1, positive_code=True, fit_algorithm="cd", transform_algorithm="threshold"
    ).fit(X)
    for algorithm in ("omp", "lars"):
        with pytest.raises(UnsupportedError, match="positive_code"):
            hbconv.convert(learned.set_params(transform_algorithm=algorithm))


def test_a_fitted_coder_wants_the_names_in_their_order() -> None:
    """One that was not fitted takes any frame that is as wide as its atoms."""
    frame = pd.DataFrame(X, columns=[f"a{i}" for i in range(30)])
    coder = SparseCoder(atoms(8))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        agree(coder, frame, rtol=1e-8)
    agree(coder.fit(frame), frame, rtol=1e-8)
    refuses_as_source(coder, frame[frame.columns[::-1]], "order")


POSITIVE = np.random.default_rng(0).random((60, 9))
COUNTS = np.random.default_rng(1).poisson(0.7, (60, 9)).astype(float)

pytestmark = pytest.mark.filterwarnings("ignore:Maximum number of iterations")


def alone(source: NMF, rows: np.ndarray) -> np.ndarray:
    """Ask the source for one row after another."""
    return np.vstack([source.transform(row[None]) for row in rows])


@pytest.mark.parametrize(
    "settings",
    [{}, {"tol": 1e-2}, {"alpha_W": 0.01, "l1_ratio": 0.3}, {"max_iter": 7}],
    ids=["default", "coarse", "penalties", "few rounds"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_each_row_stops_as_if_alone(settings: dict[str, float], dtype: str) -> None:
    """Whatever the rows around it are; rows of zeros are done at once."""
    source = NMF(3, random_state=0, **settings).fit(POSITIVE.astype(dtype))
    rows = np.vstack([np.zeros((1, 9)), POSITIVE, np.eye(9)]).astype(dtype)
    got, _ = transform(source, rows)
    want = alone(source, rows)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=1e-14 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_rows_stop_alone_on_each_backend(backend: str) -> None:
    """Also those that share a tile or a tensor."""
    source = NMF(3, random_state=0).fit(POSITIVE)
    got = hbconv.convert(source, backend=backend).transform(POSITIVE)
    np.testing.assert_allclose(got, alone(source, POSITIVE), rtol=0, atol=1e-13)


def test_a_row_among_others_may_differ_from_the_source() -> None:
    """By what stopping together moves it; with tol=0, set after fitting, it does not."""
    source = NMF(3, random_state=0).fit(POSITIVE)
    assert np.abs(source.transform(POSITIVE) - transform(source, POSITIVE)[0]).max() > 1e-6
    source.set_params(tol=0)
    agree(source, POSITIVE, rtol=1e-9)
    agree(source, POSITIVE[:1], rtol=1e-9)


def test_verify_asks_the_source_for_rows_alone() -> None:
    """In a frame too."""
    frame = pd.DataFrame(POSITIVE, columns=list("abcdefghi"))
    source = NMF(3, random_state=0).fit(frame)
    assert hbconv.verify(source, hbconv.convert(source, backend="reference"), frame).ok


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"solver": "mu"}, "mean of all rows"), ({"shuffle": True}, "shuffle=True")],
)
def test_other_rounds_are_refused(settings: dict[str, object], message: str) -> None:
    """By name."""
    with pytest.raises(UnsupportedError, match=message):
        hbconv.convert(NMF(3, random_state=0, tol=0, **settings).fit(POSITIVE))


def test_batches_are_refused() -> None:
    """Its start is the mean of the rows to transform."""
    with pytest.raises(UnsupportedError, match="depends on the others"):
        hbconv.convert(MiniBatchNMF(3, random_state=0).fit(POSITIVE))


def test_negative_numbers_and_other_dtypes_are_refused() -> None:
    """As the source does."""
    source = NMF(3, random_state=0, tol=0, max_iter=5).fit(POSITIVE)
    refuses_as_source(source, POSITIVE - 0.5, "negative")
    refuses_as_source(LatentDirichletAllocation(2, max_iter=1).fit(COUNTS), COUNTS - 1, "negative")
    with pytest.raises(TypeError, match="same dtype"):
        source.transform(POSITIVE.astype(np.float32))


def test_topics_of_empty_documents() -> None:
    """A document without words has the topics of the prior, after one step; counts may have
    fractions.
    """
    source = LatentDirichletAllocation(4, max_iter=2, random_state=0).fit(COUNTS)
    got = agree(
        source, np.vstack([np.zeros((1, 9)), COUNTS, COUNTS / 3, 1e6 * COUNTS[:3]]), rtol=1e-9
    )
    np.testing.assert_allclose(got[0], 0.25, rtol=1e-12)
