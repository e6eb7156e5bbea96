"""The models that are saved and damaged: small, and of as many containers as may be."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["fitted_models", "write_models"]

SIZE = 120


def write_models(folder: Path) -> None:
    """Write them as .hbc files, without compiled programs."""
    import hbconv

    warnings.simplefilter("ignore")
    for name, model in fitted_models().items():
        hbconv.convert(model, backend="reference").save(folder / f"{name}.hbc")


def fitted_models() -> Mapping[str, Any]:
    """Fit them all, the same each time."""
    return {**_trees(), **_numbers(), **_texts()}


def _data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SIZE, 5))
    return x, x[:, 0] + x[:, 1] * x[:, 2], np.digitize(x[:, 0], [-0.5, 0.5])


def _trees() -> dict[str, Any]:
    import catboost
    import lightgbm
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier

    x, y, classes = _data()
    listed = np.column_stack([np.digitize(x[:, 0], [-1, 0, 1]), x[:, 1:]])
    quiet = {"verbose": -1, "n_jobs": 1, "random_state": 0}
    return {
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=4, num_leaves=6, **quiet).fit(x, classes),
        "lightgbm_categories": lightgbm.LGBMRegressor(n_estimators=4, num_leaves=6, **quiet).fit(
            listed, y, categorical_feature=[0]
        ),
        "lightgbm_linear": lightgbm.LGBMRegressor(
            n_estimators=4, num_leaves=4, linear_tree=True, **quiet
        ).fit(x, y),
        "catboost": catboost.CatBoostRegressor(
            iterations=5, depth=3, verbose=0, thread_count=1, allow_writing_files=False
        ).fit(x, y),
        "catboost_statistics": catboost.CatBoostClassifier(
            iterations=5,
            depth=3,
            cat_features=[0, 1],
            max_ctr_complexity=2,
            model_size_reg=0,
            verbose=0,
            thread_count=1,
            allow_writing_files=False,
        ).fit(np.where(np.arange(5) < 2, x.round().astype(int).astype(object), x), classes > 0),
        "forest": RandomForestClassifier(4, max_depth=3, random_state=0).fit(x, classes),
        "histogram": HistGradientBoostingRegressor(
            max_iter=4, max_leaf_nodes=6, categorical_features=[0], random_state=0
        ).fit(listed, y),
    }


def _numbers() -> dict[str, Any]:
    from sklearn.cluster import KMeans
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.impute import IterativeImputer, KNNImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import (
        KBinsDiscretizer,
        PolynomialFeatures,
        QuantileTransformer,
        SplineTransformer,
        StandardScaler,
    )
    from sklearn.svm import SVC

    x, y, classes = _data()
    holes = np.where(np.random.default_rng(1).random(x.shape) < 0.1, np.nan, x)
    return {
        "neighbours": KNeighborsClassifier(3).fit(x, classes),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((4,), max_iter=5, random_state=0)
        ).fit(x, classes),
        "process": GaussianProcessRegressor().fit(x[:20], y[:20]),
        "clusters": KMeans(3, n_init=1, random_state=0).fit(x),
        "imputer": IterativeImputer(max_iter=2, random_state=0).fit(holes),
        "nearest_imputer": KNNImputer(n_neighbors=2).fit(holes[:20]),
        "topics": LatentDirichletAllocation(2, max_iter=2, random_state=0).fit(np.abs(x)),
        "machine": SVC(probability=True, random_state=0).fit(x[:40], classes[:40]),
        "features": make_pipeline(
            QuantileTransformer(n_quantiles=5),
            PolynomialFeatures(2),
            LogisticRegression(max_iter=5),
        ).fit(x, classes),
        "splines": make_pipeline(
            SplineTransformer(3), KBinsDiscretizer(2, quantile_method="averaged_inverted_cdf")
        ).fit(x),
    }


def _texts() -> dict[str, Any]:
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

    x, y, classes = _data()
    words = np.random.default_rng(2).choice(np.array(["red", "green", "blue"], object), (SIZE, 2))
    table = pd.DataFrame({"a": x[:, 0], "colour": words[:, 0], "b": x[:, 1], "other": words[:, 1]})
    parts = [
        ("n", StandardScaler(), ["a", "b"]),
        ("t", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
        ("v", TfidfVectorizer(), "other"),
    ]
    documents = [f"{a} {b} words" for a, b in words]
    return {
        "table": make_pipeline(ColumnTransformer(parts), LogisticRegression(max_iter=5)).fit(
            table, classes
        ),
        "encoder": TargetEncoder(cv=2, random_state=0).fit(table[["colour", "other"]], y),
        "documents": make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=5)
        ).fit(documents, classes),
        "hashes": HashingVectorizer(n_features=64).fit(documents),
    }
