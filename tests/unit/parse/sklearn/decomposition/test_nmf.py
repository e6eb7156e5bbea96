"""Non-negative factors and topics: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, refuses_as_source
from sklearn.decomposition import NMF, LatentDirichletAllocation, MiniBatchNMF

import hbconv
from hbconv.errors import UnsupportedError

X = np.random.default_rng(0).random((60, 9))
COUNTS = np.random.default_rng(1).poisson(0.7, (60, 9)).astype(float)

pytestmark = pytest.mark.filterwarnings("ignore:Maximum number of iterations")


def test_stopping_by_all_rows_is_refused() -> None:
    """A row alone gets another answer than among others; with tol=0, set after fitting, it does
    not.
    """
    source = NMF(3, random_state=0).fit(X)
    alone = np.vstack([source.transform(row) for row in X[:, None]])
    assert np.abs(source.transform(X) - alone).max() > 1e-6
    with pytest.raises(UnsupportedError, match="Set tol=0 on the fitted estimator"):
        hbconv.convert(source)
    source.set_params(tol=0)
    agree(source, X, rtol=1e-9)
    agree(source, X[:1], rtol=1e-9)


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
