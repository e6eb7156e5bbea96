"""Pipelines that end in linear models."""

from __future__ import annotations

from typing import Any

from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, VotingClassifier, VotingRegressor
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    Ridge,
    SGDClassifier,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import KBinsDiscretizer, PolynomialFeatures, StandardScaler

from hbconv_datasets.pipelines.trees import by_column, lightgbm, one_hot, random_forest


def one_hot_logistic(_: int) -> Any:
    """Scale numbers, one-hot encode text, logistic regression."""
    return make_pipeline(by_column(one_hot()), LogisticRegression(max_iter=500))


def binned_logistic(_: int) -> Any:
    """One-hot encode the bins of each column, logistic regression."""
    bins = KBinsDiscretizer(10, encode="onehot-dense")
    return make_pipeline(bins, LogisticRegression(max_iter=500))


def projected_logistic(_: int) -> Any:
    """Scale, project on principal axes, logistic regression."""
    return make_pipeline(StandardScaler(), PCA(8), LogisticRegression())


def polynomial_l1(_: int) -> Any:
    """Scale, products of two columns, a sparse logistic regression."""
    sparse = LogisticRegression(solver="liblinear", l1_ratio=1, C=0.02, random_state=0)
    return make_pipeline(StandardScaler(), PolynomialFeatures(2), sparse)


def polynomial_ridge(_: int) -> Any:
    """Scale, products of three columns, ridge regression."""
    return make_pipeline(StandardScaler(), PolynomialFeatures(3), Ridge())


def selected_polynomial(_: int) -> Any:
    """Scale, select among products of two columns, logistic regression."""
    selected = SelectKBest(f_classif, k=30)
    return make_pipeline(StandardScaler(), PolynomialFeatures(2), selected, LogisticRegression())


def union_logistic(_: int) -> Any:
    """Scale, principal axes beside selected columns, logistic regression."""
    union = make_union(PCA(4), SelectKBest(f_classif, k=8))
    return make_pipeline(StandardScaler(), union, LogisticRegression())


def voting(trees: int) -> Any:
    """Scale, vote of three linear models and two of trees."""
    members = [
        ("logistic", LogisticRegression()),
        ("strict", LogisticRegression(C=0.01)),
        ("gradient", SGDClassifier(loss="log_loss", random_state=0)),
        ("forest", random_forest(max(1, trees // 2))),
        ("lgbm", lightgbm(trees)),
    ]
    return make_pipeline(StandardScaler(), VotingClassifier(members, voting="soft"))


def bagged_logistic(_: int) -> Any:
    """Bag ten pipelines of scaler and logistic regression."""
    each = make_pipeline(StandardScaler(), LogisticRegression())
    return BaggingClassifier(each, n_estimators=10, random_state=0)


def many_logistics(_: int) -> Any:
    """Scale, one logistic regression for each of five targets."""
    return make_pipeline(StandardScaler(), MultiOutputClassifier(LogisticRegression()))


def voting_regressor(_: int) -> Any:
    """Scale, mean of four linear models."""
    members = [
        ("ridge", Ridge()),
        ("lasso", Lasso(0.01)),
        ("elastic", ElasticNet(0.01)),
        ("huber", HuberRegressor()),
    ]
    return make_pipeline(StandardScaler(), VotingRegressor(members))
