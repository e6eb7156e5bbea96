"""A few fitted models, one of each kind, with rows for them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hbconv.backends import backend_names, find_backend
from hbconv.errors import MissingPackageError

SIZE, WIDTH = 203, 6


def available_backends() -> list[str]:
    """Backends whose packages are installed."""
    found = []
    for name in backend_names():
        try:
            find_backend(name).require_packages()
        except MissingPackageError:
            continue
        found.append(name)
    return found


@cache
def matrix() -> np.ndarray:
    """Rows of numbers."""
    return np.random.default_rng(3).normal(size=(SIZE, WIDTH))


@cache
def table() -> pd.DataFrame:
    """Rows of numbers with holes, and of text."""
    rng = np.random.default_rng(4)
    number = rng.normal(size=(SIZE, 2))
    number[rng.random((SIZE, 2)) < 0.1] = np.nan
    text = rng.choice(np.array(["red", "green", "blue", "日本"], dtype=object), SIZE)
    return pd.DataFrame({"age": number[:, 0], "colour": text, "fare": number[:, 1]})


@cache
def labels() -> np.ndarray:
    """Three classes, as text."""
    score = matrix()[:, 0] + table()["age"].fillna(0).to_numpy()
    return np.array(["low", "middle", "high"])[np.digitize(score, [-0.5, 0.5])]


@cache
def fit(name: str) -> Any:
    """Return a fitted model by name."""
    encode = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]),
            ("t", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
        ]
    )
    forest = RandomForestClassifier(7, max_depth=5, random_state=0)
    models = {
        "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(
            matrix(), labels()
        ),
        "regressor": lambda: Ridge().fit(matrix(), matrix()[:, 0] * 2),
        "forest": lambda: forest.fit(matrix(), labels()),
        "scaler": lambda: StandardScaler().fit(matrix()),
        "mixed": lambda: make_pipeline(encode, forest).fit(table(), labels()),
        "encoder": lambda: OneHotEncoder(handle_unknown="ignore").fit(table()[["colour"]]),
    }
    return models[name]()


def rows(name: str) -> Any:
    """Return rows for the model of that name."""
    return {"mixed": table(), "encoder": table()[["colour"]]}.get(name, matrix())


NAMES = ("linear", "regressor", "forest", "scaler", "mixed", "encoder")
