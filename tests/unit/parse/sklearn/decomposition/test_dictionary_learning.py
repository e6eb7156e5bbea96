"""Sparse coding: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agreement import agree, refuses_as_source
from sklearn.decomposition import DictionaryLearning, SparseCoder

import hbconv
from hbconv.errors import UnsupportedError

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


def test_refuses_other_algorithms() -> None:
    """By name, with what may be set instead."""
    for algorithm in ("lars", "lasso_lars", "lasso_cd"):
        coder = SparseCoder(atoms(8), transform_algorithm=algorithm).fit(X)
        with pytest.raises(UnsupportedError, match="transform_algorithm"):
            hbconv.convert(coder)
    with pytest.raises(UnsupportedError, match="transform_n_nonzero_coefs"):
        hbconv.convert(SparseCoder(atoms(3), transform_n_nonzero_coefs=4).fit(X))
    learned = DictionaryLearning(
        4, max_iter=1, positive_code=True, fit_algorithm="cd", transform_algorithm="threshold"
    ).fit(X)
    with pytest.raises(UnsupportedError, match="positive_code"):
        hbconv.convert(learned.set_params(transform_algorithm="omp"))


def test_a_fitted_coder_wants_the_names_in_their_order() -> None:
    """One that was not fitted takes any frame that is as wide as its atoms."""
    frame = pd.DataFrame(X, columns=[f"a{i}" for i in range(30)])
    coder = SparseCoder(atoms(8))
    with pytest.warns(UserWarning, match="fitted without feature names"):
        agree(coder, frame, rtol=1e-8)
    agree(coder.fit(frame), frame, rtol=1e-8)
    refuses_as_source(coder, frame[frame.columns[::-1]], "order")
