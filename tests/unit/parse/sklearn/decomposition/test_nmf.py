"""Non-negative factors and topics: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from agreement import agree, refuses_as_source, transform
from sklearn.decomposition import NMF, LatentDirichletAllocation, MiniBatchNMF

import hbconv
from hbconv.errors import UnsupportedError

X = np.random.default_rng(0).random((60, 9))
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
    source = NMF(3, random_state=0, **settings).fit(X.astype(dtype))
    rows = np.vstack([np.zeros((1, 9)), X, np.eye(9)]).astype(dtype)
    got, _ = transform(source, rows)
    want = alone(source, rows)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, atol=1e-14 if dtype == "float64" else 2e-5)


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_rows_stop_alone_on_each_backend(backend: str) -> None:
    """Also those that share a tile or a tensor."""
    source = NMF(3, random_state=0).fit(X)
    got = hbconv.convert(source, backend=backend).transform(X)
    np.testing.assert_allclose(got, alone(source, X), rtol=0, atol=1e-13)


def test_a_row_among_others_may_differ_from_the_source() -> None:
    """By what stopping together moves it; with tol=0, set after fitting, it does not."""
    source = NMF(3, random_state=0).fit(X)
    assert np.abs(source.transform(X) - transform(source, X)[0]).max() > 1e-6
    source.set_params(tol=0)
    agree(source, X, rtol=1e-9)
    agree(source, X[:1], rtol=1e-9)


def test_verify_asks_the_source_for_rows_alone() -> None:
    """In a frame too."""
    frame = pd.DataFrame(X, columns=list("abcdefghi"))
    source = NMF(3, random_state=0).fit(frame)
    assert hbconv.verify(source, hbconv.convert(source, backend="reference"), frame).ok


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"solver": "mu"}, "mean of all rows"), ({"shuffle": True}, "shuffle=True")],
)
def test_other_rounds_are_refused(settings: dict[str, object], message: str) -> None:
    """By name."""
    with pytest.raises(UnsupportedError, match=message):
        hbconv.convert(NMF(3, random_state=0, tol=0, **settings).fit(X))


def test_batches_are_refused() -> None:
    """Its start is the mean of the rows to transform."""
    with pytest.raises(UnsupportedError, match="depends on the others"):
        hbconv.convert(MiniBatchNMF(3, random_state=0).fit(X))


def test_negative_numbers_and_other_dtypes_are_refused() -> None:
    """As the source does."""
    source = NMF(3, random_state=0, tol=0, max_iter=5).fit(X)
    refuses_as_source(source, X - 0.5, "negative")
    refuses_as_source(LatentDirichletAllocation(2, max_iter=1).fit(COUNTS), COUNTS - 1, "negative")
    with pytest.raises(TypeError, match="same dtype"):
        source.transform(X.astype(np.float32))


def test_topics_of_empty_documents() -> None:
    """A document without words has the topics of the prior, after one step; counts may have
    fractions.
    """
    source = LatentDirichletAllocation(4, max_iter=2, random_state=0).fit(COUNTS)
    got = agree(
        source, np.vstack([np.zeros((1, 9)), COUNTS, COUNTS / 3, 1e6 * COUNTS[:3]]), rtol=1e-9
    )
    np.testing.assert_allclose(got[0], 0.25, rtol=1e-12)
