"""The models that the benchmarks of trees time: what they are fitted to, and how.

Some are the models of the tables in docs/performance.md. The others are named after published
benchmarks whose shapes they have (features, trees, depth, classes): ``lleaves-*``,
``hummingbird-*``, ``fil-*`` (nvForest's suite), ``intel-*``. The values are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hbconv_datasets import Dataset, generated

__all__ = ["SUBJECTS", "Fitted", "Subject"]

Fit = Callable[[Any, Any], Any]

METHODS = ("predict_proba", "score_samples", "predict", "transform")
"""What is timed: the first that the model has."""


@dataclass(frozen=True)
class Subject:
    """A model to fit.

    Parameters
    ----------
    name, about : str
    draw : callable
        Gives the rows that it is fitted to, which are scored too.
    fit : callable
        From rows and target to a fitted model.
    """

    name: str
    about: str
    draw: Callable[[], Dataset]
    fit: Fit

    def fitted(self, folder: Path) -> Fitted:
        """Fit the model, or read it if it was fitted before."""
        import joblib

        data = self.draw()
        path = folder / f"{self.name}.joblib"
        if not path.exists():
            joblib.dump(self.fit(data.X, data.y), path)
        model = joblib.load(path)
        return Fitted(
            self.name,
            model,
            next(m for m in METHODS if hasattr(model, m)),
            np.ascontiguousarray(data.X),
            folder,
        )


@dataclass(frozen=True)
class Fitted:
    """A fitted model, the method to time, float32 rows, and a folder for compiled files."""

    name: str
    model: Any
    method: str
    X: Any
    folder: Path

    @property
    def library(self) -> str:
        """The library it was fitted by."""
        return type(self.model).__module__.partition(".")[0]

    def rows(self, count: int) -> Any:
        """Return ``count`` rows; repeat them if there are fewer."""
        return np.resize(self.X, (count, self.X.shape[1]))


def lightgbm(trees: int, leaves: int = 31, depth: int = -1, categories: int = 0) -> Fit:
    """Fit LightGBM; the first columns may be categories."""

    def fit(X: Any, y: Any) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor

        kind = LGBMRegressor if y.dtype.kind == "f" else LGBMClassifier
        model = kind(n_estimators=trees, num_leaves=leaves, max_depth=depth, verbose=-1)
        return model.fit(X, y, categorical_feature=list(range(categories)) or "auto")

    return fit


def xgboost(trees: int, depth: int) -> Fit:
    """Fit XGBoost by histograms."""

    def fit(X: Any, y: Any) -> Any:
        from xgboost import XGBClassifier, XGBRegressor

        if y.dtype.kind == "f":
            return XGBRegressor(n_estimators=trees, max_depth=depth, learning_rate=0.1).fit(X, y)
        return XGBClassifier(n_estimators=trees, max_depth=depth, learning_rate=0.1).fit(
            X, np.unique(y, return_inverse=True)[1]
        )

    return fit


def sklearn(name: str, **parameters: Any) -> Fit:
    """Fit an ensemble of scikit-learn, named by the start of its class name.

    A deep forest is fitted to the first 20,000 rows.
    """

    def fit(X: Any, y: Any) -> Any:
        from sklearn import ensemble

        kind = getattr(ensemble, name, None) or getattr(
            ensemble, name + ("Regressor" if y.dtype.kind == "f" else "Classifier")
        )
        rows = 20_000 if name == "RandomForest" else len(X)
        return kind(**parameters, random_state=0).fit(X[:rows], y[:rows])

    return fit


def _main() -> Iterator[Subject]:
    """Yield the models of the tables."""
    higgs = partial(generated.make, "higgs")
    covtype = partial(generated.make, "covtype")
    quarter = partial(generated.numbers, 28, categories=7)
    yield Subject(
        "lightgbm-8", "LightGBM, 500 trees of 8 leaves, depth 3", higgs, lightgbm(500, 8, 3)
    )
    yield Subject("lightgbm-31", "LightGBM, 500 trees of 31 leaves", higgs, lightgbm(500, 31))
    yield Subject(
        "lightgbm-d8", "LightGBM, 500 trees of 200 leaves, depth 8", higgs, lightgbm(500, 200, 8)
    )
    yield Subject("xgboost-d6", "XGBoost, 100 trees of depth 6", higgs, xgboost(100, 6))
    yield Subject("xgboost-d8", "XGBoost, 100 trees of depth 8", higgs, xgboost(100, 8))
    yield Subject(
        "forest",
        "random forest, 100 trees as deep as they grow",
        higgs,
        sklearn("RandomForest", n_estimators=100),
    )
    yield Subject(
        "histogram",
        "HistGradientBoosting, 100 trees of 31 leaves",
        higgs,
        sklearn("HistGradientBoosting", max_iter=100),
    )
    yield Subject(
        "classes-7",
        "LightGBM, 7 classes, 100 trees of 31 leaves for each, covtype shape",
        covtype,
        lightgbm(100),
    )
    yield Subject(
        "categories",
        "LightGBM, 100 trees of 31 leaves, a quarter of the columns categories",
        quarter,
        lightgbm(100, categories=7),
    )
    yield Subject("xgboost-d6-1000", "XGBoost, 1,000 trees of depth 6", higgs, xgboost(1000, 6))
    yield Subject(
        "categories-1000",
        "LightGBM, 1,000 trees of 31 leaves, a quarter of the columns categories",
        quarter,
        lightgbm(1000, categories=7),
    )
    yield Subject("lightgbm-255", "LightGBM, 500 trees of 255 leaves", higgs, lightgbm(500, 255))
    yield Subject(
        "gradient",
        "GradientBoosting, 100 trees of depth 3",
        partial(generated.make, "higgs", 20_000),
        sklearn("GradientBoosting"),
    )
    for name, about, leaves, depth in (
        ("gradient-8", "8 leaves", 8, 3),
        ("gradient-31", "31 leaves", 31, None),
        ("gradient-d8", "200 leaves, depth 8", 200, 8),
    ):
        yield Subject(
            name,
            f"GradientBoostingRegressor, 500 trees of {about}",
            partial(generated.numbers, 28, classes=0, rows=5000),
            sklearn("GradientBoosting", n_estimators=500, max_leaf_nodes=leaves, max_depth=depth),
        )
    yield Subject(
        "isolation", "isolation forest, 100 trees of 256 rows", higgs, sklearn("IsolationForest")
    )


def _lleaves() -> Iterator[Subject]:
    """Yield the shapes of lleaves' benchmarks: taxi rides, flights, insurance claims."""
    for name, features, trees, categories in (
        ("taxi", 5, 100, 0),
        ("airline", 6, 100, 4),
        ("mtpl2", 15, 1000, 4),
    ):
        draw = partial(generated.numbers, features, 0, categories)
        about = f"{features} features, {categories} of them categories, {trees} trees of 31 leaves"
        yield Subject(f"lleaves-{name}", about, draw, lightgbm(trees, categories=categories))


def _hummingbird() -> Iterator[Subject]:
    """Yield the trees of the Hummingbird paper: 500 of depth 8 and up to 256 leaves."""
    fits = {
        "forest": sklearn("RandomForest", n_estimators=500, max_depth=8, max_leaf_nodes=256),
        "lightgbm": lightgbm(500, 256, 8),
        "xgboost": xgboost(500, 8),
    }
    for shape, (kind, fit) in product(generated.NAMES, fits.items()):
        draw = partial(generated.make, shape, 10_000 if shape == "epsilon" else 100_000)
        yield Subject(
            f"hummingbird-{shape}-{kind}", f"{kind}, 500 trees of depth 8, {shape} shape", draw, fit
        )


def _fil() -> Iterator[Subject]:
    """Yield nvForest's suite of features, depths and numbers of trees."""
    for features, depth, trees in product((8, 32, 128, 512), (2, 4, 8, 16, 32), (16, 128, 1024)):
        draw = partial(generated.numbers, features, rows=20_000)
        fit = sklearn("RandomForest", n_estimators=trees, max_depth=depth)
        yield Subject(
            f"fil-{features}-{depth}-{trees}",
            f"random forest, {features} features, {trees} trees of depth {depth}",
            draw,
            fit,
        )


def _intel() -> Iterator[Subject]:
    """Yield the shapes of oneDAL's benchmarks: 1,000 iterations, as many trees for each class."""
    shapes = {
        "abalone": (8, 0),
        "airline-ohe": (692, 2),
        "higgs1m": (28, 2),
        "letters": (16, 26),
        "mortgage": (45, 0),
        "msrank": (137, 5),
        "plasticc": (60, 14),
        "santander": (200, 2),
    }
    for name, (features, classes) in shapes.items():
        draw = partial(generated.numbers, features, classes, rows=20_000)
        yield Subject(
            f"intel-{name}",
            f"XGBoost, {features} features, {classes or 'no'} classes, 1,000 iterations of depth 6",
            draw,
            xgboost(1000, 6),
        )


SUBJECTS = {
    subject.name: subject
    for family in (_main, _lleaves, _hummingbird, _fil, _intel)
    for subject in family()
}
"""All by name, those of the tables first."""
