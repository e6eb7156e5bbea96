"""The models of the Hummingbird paper: trees with its settings, and the operators of its tables."""

from __future__ import annotations

from typing import Any

from sklearn import linear_model, naive_bayes, neural_network, preprocessing, svm, tree

__all__ = ["OPERATORS", "make_trees"]

DEPTH = 8
OPERATORS = (
    linear_model.LogisticRegression(),
    linear_model.SGDClassifier(),
    svm.LinearSVC(),
    svm.NuSVC(),
    svm.SVC(),
    naive_bayes.BernoulliNB(),
    neural_network.MLPClassifier(max_iter=2000),
    tree.DecisionTreeClassifier(),
    preprocessing.Binarizer(),
    preprocessing.MinMaxScaler(),
    preprocessing.Normalizer(),
    preprocessing.PolynomialFeatures(),
    preprocessing.StandardScaler(),
)
"""Those of tables 11 and 12."""


def make_trees(library: str, task: str, trees: int) -> Any:
    """Return an estimator with the paper's settings."""
    suffix = "Regressor" if task == "regression" else "Classifier"
    if library == "RF":
        from sklearn import ensemble

        forest = getattr(ensemble, f"RandomForest{suffix}")
        return forest(trees, max_depth=DEPTH, random_state=0)
    if library == "LGBM":
        import lightgbm

        settings = {"max_depth": DEPTH, "num_leaves": 256, "reg_lambda": 1, "verbose": -1}
        return getattr(lightgbm, f"LGBM{suffix}")(n_estimators=trees, n_jobs=1, **settings)
    import xgboost

    settings = {"max_depth": DEPTH, "max_leaves": 256, "tree_method": "hist", "n_jobs": 1}
    return getattr(xgboost, f"XGB{suffix}")(n_estimators=trees, **settings)
