"""IterativeImputer: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pytest
from matrix.data import fit_rows, target, with_missing
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import hbconv
from hbconv.errors import InputError, UnsupportedError


def test_many_rounds_before_a_regressor() -> None:
    """Eighty predictions, each of all before it, and a step behind that looks at the result."""
    x = with_missing(fit_rows())
    source = make_pipeline(IterativeImputer(max_iter=10, tol=0.0), Ridge())
    with pytest.warns(match="Early stopping"):
        source.fit(x, target("value"))
    np.testing.assert_allclose(
        hbconv.convert(source, backend="reference").predict(x), source.predict(x), rtol=1e-9
    )


@pytest.mark.parametrize("backend", ["reference", "torch", "tvm", "onnx"])
def test_answers_a_row_without_values_beside_others(backend) -> None:
    x = with_missing(fit_rows())
    source = make_pipeline(IterativeImputer(max_iter=2, tol=1.0), Ridge()).fit(x, target("value"))
    model = hbconv.convert(source, backend=backend)
    for rows in (x[:5].copy(), x[:50].copy()):
        rows[2:4] = np.nan
        np.testing.assert_allclose(model.predict(rows), source.predict(rows), rtol=1e-9)
    with pytest.raises(InputError, match="missing values alone"):
        model.predict(rows[2:4])
    assert model.predict(rows[:0]).shape == (0,)


def test_refuses_rows_without_values() -> None:
    """Alone they keep the first imputation, beside others they do not: the source answers by
    the batch.
    """
    x = with_missing(fit_rows())
    source = IterativeImputer(max_iter=20).fit(x)
    empty = np.full((1, 8), np.nan)
    assert np.any(source.transform(empty)[0] != source.transform(np.vstack([empty, x]))[0])
    with pytest.raises(InputError, match="missing values alone"):
        hbconv.convert(source, backend="reference").transform(empty)


@pytest.mark.filterwarnings("ignore:.*Early stopping")
def test_refuses_chance_and_classes() -> None:
    """Draws from the posterior, and estimators that predict no numbers."""
    x = with_missing(fit_rows())
    with pytest.raises(UnsupportedError, match="sample_posterior"):
        hbconv.convert(IterativeImputer(sample_posterior=True, max_iter=2).fit(x))
    x = np.where(np.isnan(x), x, x > np.nanmean(x, axis=0))
    with pytest.raises(UnsupportedError, match="regressor"):
        hbconv.convert(
            IterativeImputer(
                LogisticRegression(), initial_strategy="most_frequent", max_iter=1
            ).fit(x)
        )
