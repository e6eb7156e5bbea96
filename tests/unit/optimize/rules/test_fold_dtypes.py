"""Folding into float32 weights: done for float32 rows, left alone where the answer is float64."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.optimize import optimize
from hbconv.parse import parse

X = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "first", [StandardScaler(), PCA(2, random_state=0)], ids=["affine", "linear"]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
def test_fold_keeps_the_digits_of_the_rows(first: object, dtype: str, tolerance: float) -> None:
    source = make_pipeline(first, Ridge()).fit(X, X[:, 0] - X[:, 1])
    parsed = parse(source).for_rows(sparse=False)
    names = [
        node.name
        for node in optimize(
            parsed.with_schema(parsed.schema.with_dtypes([dtype] * 4))
        ).graph.nodes()
    ]
    assert (names == ["columns", "linear"]) == (dtype == "float32")
    rows = X.astype(dtype) + np.asarray(1 / 3, dtype)
    answer = hbconv.convert(source, backend="reference").predict(rows)
    np.testing.assert_allclose(answer, source.predict(rows), rtol=tolerance, atol=tolerance)
