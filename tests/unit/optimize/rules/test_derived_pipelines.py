"""Fitted pipelines whose linear part is derived, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import BaggingClassifier, VotingRegressor
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.mixture import GaussianMixture
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.containers import Affine, Linear, Node
from hbconv.optimize import optimize
from hbconv.parse import parse
from hbconv.target import Target

RNG = np.random.default_rng(0)
CENTRES = np.array([0.0, 1.0, -20.0, 300.0, 0.5, 1e6])
SPREADS = np.array([1.0, 0.1, 4.0, 2.0, 10.0, 3.0])
X = CENTRES + SPREADS * RNG.normal(size=(400, 6))
Z = (X - CENTRES) / SPREADS
Y = (Z[:, 0] + Z[:, 1] * Z[:, 2] > 0).astype(int)
Y3 = np.digitize(Z[:, 0] + Z[:, 5], [-0.5, 0.5])
TARGET = Z @ RNG.normal(size=6)
MANY = np.stack([Y, Z[:, 1] > 0, Z[:, 2] > Z[:, 3]], axis=1).astype(int)

Model = Callable[[], Any]
MODELS: dict[str, tuple[Model, Any, int]] = {
    "pca": (lambda: make_pipeline(StandardScaler(), PCA(3), LogisticRegression()), Y, 1),
    "union": (
        lambda: make_pipeline(
            StandardScaler(),
            make_union(PCA(2), SelectKBest(f_classif, k=3)),
            LogisticRegression(),
        ),
        Y,
        1,
    ),
    "nystroem": (
        lambda: make_pipeline(
            StandardScaler(), Nystroem(n_components=20, random_state=0), LogisticRegression()
        ),
        Y,
        1,
    ),
    "bagging": (
        lambda: BaggingClassifier(
            make_pipeline(StandardScaler(), LogisticRegression()), n_estimators=4, random_state=0
        ),
        Y,
        4,
    ),
    "many targets": (
        lambda: make_pipeline(StandardScaler(), MultiOutputClassifier(LogisticRegression())),
        MANY,
        3,
    ),
    "naive Bayes": (lambda: make_pipeline(StandardScaler(), GaussianNB()), Y3, 1),
    "mixture": (
        lambda: make_pipeline(
            StandardScaler(), GaussianMixture(3, covariance_type="diag", random_state=0)
        ),
        None,
        1,
    ),
    "quadratic": (lambda: make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis()), Y3, 1),
    "linear": (lambda: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()), Y3, 1),
    "vote": (
        lambda: make_pipeline(
            StandardScaler(), VotingRegressor([("a", Ridge()), ("b", Lasso(0.01)), ("c", Ridge(9))])
        ),
        TARGET,
        1,
    ),
    "partial least squares": (lambda: make_pipeline(StandardScaler(), PLSRegression(2)), TARGET, 1),
    "svd": (lambda: make_pipeline(StandardScaler(), TruncatedSVD(3), Ridge()), TARGET, 1),
}


def method_of(source: Any) -> str:
    return "predict_proba" if hasattr(source, "predict_proba") else "predict"


def nodes_of(source: Any) -> list[Node]:
    graph = parse(source).for_rows(sparse=False).only(method_of(source))
    return optimize(graph, Target("torch")).graph.nodes()


def rows_of(source: Any) -> np.ndarray:
    """The model's centres, rows it knows, and rows ten times as far."""
    means = np.atleast_2d(
        getattr(source, "steps", [("", source)])[0][1].__dict__.get("mean_", CENTRES)
    )
    return np.concatenate([means, X[:60], CENTRES + 10 * SPREADS * RNG.normal(size=(40, 6))])


@pytest.mark.parametrize("name", MODELS)
def test_scalers_and_inner_products_vanish(name: str) -> None:
    make, target, products = MODELS[name]
    nodes = nodes_of(make().fit(X, target))
    assert sum(isinstance(node, Linear) for node in nodes) == products
    scaling = [n for n in nodes if isinstance(n, Affine) and n.x.type.width == X.shape[1]]
    divides = [step for n in scaling for step in n.steps if step.op == "div"]
    # Distances need scaled columns; a check reads those of the discriminant too.
    assert bool(divides) == (name in ("nystroem", "quadratic"))


@pytest.mark.parametrize("backend", ["reference", "tvm", "torch", "onnx"])
@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_source(name: str, backend: str) -> None:
    make, target, _ = MODELS[name]
    source = make().fit(X, target)
    rows = rows_of(source)
    method = method_of(source)
    got = getattr(hbconv.convert(source, backend=backend), method)(rows)
    np.testing.assert_allclose(got, getattr(source, method)(rows), rtol=1e-10, atol=1e-10)


def test_columns_of_numbers_and_texts_become_a_product_and_a_look_up() -> None:
    table = pd.DataFrame(X, columns=list("abcdef")).assign(
        city=RNG.choice(["x", "y", "z"], 400), day=RNG.choice(["m", "t"], 400)
    )
    table.loc[::7, "b"] = np.nan
    source = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), list("abcdef")),
            (OneHotEncoder(handle_unknown="ignore"), ["city", "day"]),
        ),
        LogisticRegression(),
    ).fit(table, Y)
    names = [node.name for node in nodes_of(source)]
    assert names.count("linear") == names.count("lookup_sum") == names.count("add") == 1
    assert "one_hot" not in names
    table.loc[3, "city"] = "never seen"
    got = hbconv.convert(source, backend="reference").predict_proba(table)
    np.testing.assert_allclose(got, source.predict_proba(table), rtol=1e-10)
