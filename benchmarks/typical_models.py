"""The workloads of ``typical.py``: models that users fit, and rows as users give them.

Sizes are those of ordinary work: tens of thousands of rows to fit, defaults of the libraries,
forests as deep as they grow, and tables of numbers and text. The values are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from hbconv_datasets import texts

__all__ = ["WORKLOADS", "FittedWorkload", "Workload"]

Rows = Callable[[int], Any]
MOST_ROWS = 200_000
MOST_TEXTS = 10_000
WORDS = 300_000
"""Words of the language that texts are written in; a model keeps 100,000 terms."""


@dataclass(frozen=True)
class Workload:
    """A model to fit, and the rows to ask it.

    Parameters
    ----------
    name, kind, about : str
        The kind is the group that its bar stands in.
    fit : callable
        Returns the fitted model.
    method : str
        The method that is timed.
    rows : callable
        Returns so many rows that the model was not fitted to, in the form that users hold.
    most_rows : int
        Rows of the largest call.
    work : callable
        Returns how many products and exponentials the fitted model takes for a row; none where
        other work is most of it.
    """

    name: str
    kind: str
    about: str
    fit: Callable[[], Any]
    method: str
    rows: Rows
    most_rows: int = MOST_ROWS
    work: Callable[[Any], tuple[int, int]] | None = None

    def fitted(self, folder: Path) -> FittedWorkload:
        """Fit the model, or read it if it was fitted before."""
        import joblib

        path = folder / f"typical-{self.name}.joblib"
        if not path.exists():
            joblib.dump(self.fit(), path)
        return FittedWorkload(self.name, joblib.load(path), self.method, folder, self)


@dataclass(frozen=True)
class FittedWorkload:
    """A fitted model, the method to time, and a folder for compiled files."""

    name: str
    model: Any
    method: str
    folder: Path
    workload: Workload

    @property
    def library(self) -> str:
        """The library it was fitted by."""
        return type(self.model).__module__.partition(".")[0]

    def rows(self, count: int) -> Any:
        """Return ``count`` rows."""
        return self.workload.rows(count)


def numbers(rows: int, columns: int = 28, dtype: str = "float64", seed: int = 5) -> NDArray[Any]:
    """Draw a matrix: half of the columns are skewed, and three hold whole numbers."""
    x = np.random.default_rng(seed).standard_normal((rows, columns))
    x[:, columns // 2 :] = np.exp(0.7 * x[:, columns // 2 :])
    x[:, -3:] = np.round(5 * x[:, -3:])
    return x.astype(dtype)


def score(x: NDArray[Any], seed: int = 1) -> NDArray[np.float64]:
    """Return a number for each row that depends on its columns, with noise."""
    weights = np.random.default_rng(1).standard_normal(x.shape[1]) / np.sqrt(x.shape[1])
    noise = np.random.default_rng(seed).standard_normal(len(x))
    return np.asarray(2 * x @ weights + np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + noise)


def labels(x: NDArray[Any], classes: int = 2) -> NDArray[np.int64]:
    """Return classes of equal size."""
    found = score(x)
    return np.searchsorted(np.quantile(found, np.arange(1, classes) / classes), found)


def holed(rows: int, seed: int = 5) -> NDArray[Any]:
    """Draw a matrix of which a twelfth is missing."""
    x = numbers(rows, 20, seed=seed)
    x[np.random.default_rng(9).random(x.shape) < 0.08] = np.nan
    return x


def frame(rows: int, seed: int = 5) -> Any:
    """Draw a DataFrame of numbers."""
    import pandas as pd

    return pd.DataFrame(numbers(rows, seed=seed), columns=[f"x{i}" for i in range(28)])


def mixed_frame(rows: int, seed: int = 21, sizes: tuple[int, ...] = (20, 180, 800)) -> Any:
    """Draw a DataFrame of ten numbers, some missing, and a column of text for each size."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {f"n{i}": (i + 1) * rng.standard_normal(rows) for i in range(10)}
    for i in range(0, 10, 3):
        columns[f"n{i}"][rng.random(rows) < 0.05] = np.nan
    for j, size in enumerate(sizes):
        shares = 1 / (np.arange(size) + 5.0)
        known = np.array([f"cat_{j}_{k:04d}" for k in range(size)], dtype=object)
        columns[f"c{j}"] = known[rng.choice(size, rows, p=shares / shares.sum())]
    return pd.DataFrame(columns)


def mixed_labels(table: Any) -> NDArray[np.int64]:
    """Return labels that depend on the numbers and on the text."""
    found = np.nan_to_num(table[[f"n{i}" for i in range(10)]].to_numpy()) @ (
        np.linspace(-1, 1, 10) / np.arange(1, 11)
    )
    for name in table:
        if name.startswith("c"):
            found = found + (table[name].str[-4:].astype(int).to_numpy() * 7919 % 13 - 6) / 6
    noise = np.random.default_rng(3).standard_normal(len(found))
    return (found + noise > 0).astype(np.int64)


def categories(rows: int, seed: int = 21) -> Any:
    """Draw a DataFrame of ten numbers and four columns of text, none missing."""
    return mixed_frame(rows, seed, (20, 50, 100, 200)).fillna({f"n{i}": 0 for i in range(10)})


def documents(rows: int) -> list[str]:
    """Write texts of 90 words that models were not fitted to."""
    return list(texts.documents(rows, words=WORDS, length=90, seed=77).X)


def _on_numbers(
    model: Any, rows: int, columns: int = 28, dtype: str = "float64", classes: int = 2
) -> Callable[[], Any]:
    """Return what fits a classifier to numbers."""

    def fit() -> Any:
        x = numbers(rows, columns, dtype, seed=2)
        return model.fit(x, labels(x, classes))

    return fit


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return _on_numbers(
        LGBMClassifier(n_estimators=1000, verbose=-1, n_jobs=1), 50_000, dtype="float32"
    )()


def _xgboost() -> Any:
    from xgboost import XGBClassifier

    model = XGBClassifier(n_estimators=500, max_depth=6, tree_method="hist", n_jobs=1)
    return _on_numbers(model, 50_000, dtype="float32")()


def _catboost() -> Any:
    return _on_numbers(_catboost_classifier(), 50_000, dtype="float32")()


def _catboost_categories() -> Any:
    table = categories(30_000, seed=7)
    names = [name for name in table if name.startswith("c")]
    return _catboost_classifier(cat_features=names).fit(table, mixed_labels(table))


def _catboost_classifier(**parameters: Any) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=1000,
        verbose=0,
        thread_count=1,
        random_seed=0,
        allow_writing_files=False,
        **parameters,
    )


def _regression(targets: int) -> Any:
    x = numbers(20_000, 12, seed=2)
    y = np.column_stack([score(x, seed) for seed in range(1, targets + 1)])
    forest = RandomForestRegressor(100, random_state=0, n_jobs=1)
    return forest.fit(x, y[:, 0] if targets == 1 else y)


def _isolation() -> Any:
    return IsolationForest(n_estimators=100, random_state=0).fit(numbers(50_000, 20, seed=2))


def _frame_logistic() -> Any:
    table = frame(20_000, seed=2)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(
        table, labels(table.to_numpy())
    )


def _frame_onehot() -> Any:
    table = mixed_frame(50_000, seed=7)
    cells = ColumnTransformer(
        [
            (
                "numbers",
                make_pipeline(SimpleImputer(), StandardScaler()),
                [f"n{i}" for i in range(10)],
            ),
            ("texts", OneHotEncoder(handle_unknown="ignore"), ["c0", "c1", "c2"]),
        ]
    )
    return make_pipeline(cells, LogisticRegression(max_iter=200)).fit(table, mixed_labels(table))


def _texts(vectorizer: TfidfVectorizer, model: Any, rows: int, topics: int) -> Pipeline:
    written = texts.documents(rows, topics, words=WORDS, length=90, seed=1)
    return make_pipeline(vectorizer, model).fit(written.X, written.y)


def _words() -> Any:
    model = LogisticRegression(max_iter=50)
    return _texts(TfidfVectorizer(max_features=100_000), model, 15_000, 2)


def _word_pairs() -> Any:
    vectorizer = TfidfVectorizer(max_features=100_000, ngram_range=(1, 2), sublinear_tf=True)
    return _texts(vectorizer, LinearSVC(max_iter=5, tol=1), 10_000, 20)


def _network_work(model: Any) -> tuple[int, int]:
    """Return the weights of the layers and of the projection; exponentials are few."""
    _, projection, network = (step for _, step in model.steps)
    return projection.components_.size + sum(weights.size for weights in network.coefs_), 0


def _kernel_work(points: Any) -> tuple[int, int]:
    """Return a product a coordinate and an exponential a point."""
    return points.size, len(points)


def _process() -> Any:
    x = numbers(1000, 8, seed=2)
    kernel = RBF(3.0) + WhiteKernel(0.5)
    return GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(x, score(x))


def _imputed() -> Any:
    x = holed(2000, seed=2)
    forest = RandomForestClassifier(100, random_state=0, n_jobs=1)
    return make_pipeline(KNNImputer(), forest).fit(x, labels(np.nan_to_num(x)))


def _stack() -> StackingClassifier:
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=1)
    return StackingClassifier(
        [
            ("forest", forest),
            ("boosting", HistGradientBoostingClassifier(random_state=0)),
            ("linear", make_pipeline(StandardScaler(), LogisticRegression())),
            ("neighbours", make_pipeline(StandardScaler(), KNeighborsClassifier(15))),
        ],
        cv=3,
    )


def _network() -> Pipeline:
    layers = MLPClassifier((100, 100), max_iter=5, random_state=0)
    return make_pipeline(StandardScaler(), PCA(20), layers)


def _matrix(columns: int = 28, dtype: str = "float64") -> Rows:
    return lambda rows: numbers(rows, columns, dtype)


FORESTS, BOOSTED, TABLES, DISTANCES, TEXTS = (
    "forests",
    "boosted trees",
    "tables and networks",
    "distances",
    "texts",
)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "random-forest",
            FORESTS,
            "100 trees as deep as they grow on 100,000 rows of 28 columns",
            _on_numbers(RandomForestClassifier(100, random_state=0, n_jobs=1), 100_000),
            "predict_proba",
            _matrix(),
        ),
        Workload(
            "extra-trees",
            FORESTS,
            "100 trees as deep as they grow on 50,000 rows of 28 columns, 3 classes",
            _on_numbers(ExtraTreesClassifier(100, random_state=0, n_jobs=1), 50_000, classes=3),
            "predict_proba",
            _matrix(),
        ),
        Workload(
            "forest-regression",
            FORESTS,
            "100 trees as deep as they grow on 20,000 rows of 12 columns",
            lambda: _regression(1),
            "predict",
            _matrix(12),
        ),
        Workload(
            "forest-targets",
            FORESTS,
            "the same with three targets",
            lambda: _regression(3),
            "predict",
            _matrix(12),
        ),
        Workload(
            "isolation-forest",
            FORESTS,
            "100 trees of 256 rows of 20 columns",
            _isolation,
            "decision_function",
            _matrix(20),
        ),
        Workload(
            "histogram",
            BOOSTED,
            "HistGradientBoostingClassifier, 300 trees of 31 leaves, 28 columns",
            _on_numbers(
                HistGradientBoostingClassifier(max_iter=300, early_stopping=False, random_state=0),
                100_000,
            ),
            "predict_proba",
            _matrix(),
        ),
        Workload(
            "lightgbm",
            BOOSTED,
            "LightGBM, 1,000 trees of 31 leaves, 28 columns of float32",
            _lightgbm,
            "predict_proba",
            _matrix(dtype="float32"),
        ),
        Workload(
            "xgboost",
            BOOSTED,
            "XGBoost, 500 trees of depth 6, 28 columns of float32",
            _xgboost,
            "predict_proba",
            _matrix(dtype="float32"),
        ),
        Workload(
            "catboost",
            BOOSTED,
            "CatBoost, 1,000 trees of depth 6, 28 columns of float32",
            _catboost,
            "predict_proba",
            _matrix(dtype="float32"),
        ),
        Workload(
            "catboost-categories",
            BOOSTED,
            "CatBoost, 1,000 trees, a DataFrame of 10 numbers and 4 columns of text",
            _catboost_categories,
            "predict_proba",
            categories,
        ),
        Workload(
            "frame-logistic",
            TABLES,
            "scaler and logistic regression on a DataFrame of 28 numbers",
            _frame_logistic,
            "predict_proba",
            frame,
        ),
        Workload(
            "frame-onehot",
            TABLES,
            "imputer, scaler, one-hot codes of 1,000 categories and logistic regression; "
            "10 numbers and 3 columns of text",
            _frame_onehot,
            "predict_proba",
            mixed_frame,
        ),
        Workload(
            "network",
            TABLES,
            "scaler, 20 principal components of 50 columns, and layers of 100 and 100 units",
            _on_numbers(_network(), 20_000, 50, classes=5),
            "predict_proba",
            _matrix(50),
            work=_network_work,
        ),
        Workload(
            "svc",
            DISTANCES,
            "scaler and SVC, fitted to 3,700 rows of 30 columns",
            _on_numbers(make_pipeline(StandardScaler(), SVC(C=3)), 3700, 30),
            "decision_function",
            _matrix(30),
            work=lambda model: _kernel_work(model[-1].support_vectors_),
        ),
        Workload(
            "gaussian-process",
            DISTANCES,
            "GaussianProcessRegressor of 1,000 points of 8 columns",
            _process,
            "predict",
            _matrix(8),
            work=lambda model: _kernel_work(model.X_train_),
        ),
        Workload(
            "neighbours",
            DISTANCES,
            "the nearest five of 10,000 points of 20 columns, 3 classes",
            _on_numbers(KNeighborsClassifier(5), 10_000, 20, classes=3),
            "predict",
            _matrix(20),
        ),
        Workload(
            "knn-imputer",
            DISTANCES,
            "KNNImputer of 2,000 rows of 20 columns, 8 % missing, and a forest of 100 trees",
            _imputed,
            "predict_proba",
            holed,
        ),
        Workload(
            "stack",
            DISTANCES,
            "a forest, boosted trees, a logistic regression and neighbours of 20,000 rows, stacked",
            _on_numbers(_stack(), 20_000, 20),
            "predict_proba",
            _matrix(20),
        ),
        Workload(
            "words",
            TEXTS,
            "tf-idf of 100,000 words and logistic regression, 90 words a text",
            _words,
            "predict_proba",
            documents,
            MOST_TEXTS,
        ),
        Workload(
            "word-pairs",
            TEXTS,
            "tf-idf of 100,000 words and pairs, LinearSVC of 20 classes",
            _word_pairs,
            "predict",
            documents,
            MOST_TEXTS,
        ),
    )
}
"""All by name, in the order of the page."""
