"""A source whose own arithmetic is rounded otherwise: which numbers its steps hand on, and which
of its points are nearest, is decided by other last bits.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from hunt.members import members
from tolerances import brute_force

__all__ = ["is_exact", "rounded_otherwise"]

FUNCTIONS = {"FunctionTransformer", "PowerTransformer", "QuantileTransformer"}
"""Steps that take functions, which each library rounds in its own way."""
JUMPS = {"Binarizer", "KBinsDiscretizer", "QuantileTransformer"}
"""Steps other than trees whose answer jumps: behind a function, the last bit decides where."""

EXACT = FUNCTIONS | JUMPS | {
    "ColumnTransformer", "FeatureUnion", "MaxAbsScaler", "MinMaxScaler", "OneHotEncoder",
    "OrdinalEncoder", "Pipeline", "PolynomialFeatures", "RandomTreesEmbedding", "RobustScaler",
    "SelectFromModel", "SelectKBest", "SelectPercentile", "SimpleImputer", "StandardScaler",
    "TargetEncoder", "VarianceThreshold",
    "AdaBoostRegressor", "CatBoostClassifier", "CatBoostRegressor", "DecisionTreeClassifier",
    "DecisionTreeRegressor", "DummyClassifier", "DummyRegressor", "ExtraTreeClassifier",
    "ExtraTreeRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor",
    "GradientBoostingClassifier", "GradientBoostingRegressor", "HistGradientBoostingClassifier",
    "HistGradientBoostingRegressor", "IsolationForest", "LGBMClassifier", "LGBMRegressor",
    "LabelBinarizer", "LabelEncoder", "RandomForestClassifier", "RandomForestRegressor",
    "XGBClassifier", "XGBRegressor", "_BinMapper",
}  # fmt: skip
"""Classes that add nothing in an order of their own: behind them, trees decide as the source."""

CENTERS = {"Birch": "subcluster_centers_", "KMeans": "cluster_centers_"}
"""Steps that answer distances to points, which cancel where a row is near one."""

UNITS = 100
"""Units in the last place of the largest number of a row by which numbers are moved."""

Array = npt.NDArray[Any]


def is_exact(model: Any) -> bool:
    """Whether a model is made of such classes alone, with at most one function or jump where one
    is a function.
    """
    names = [type(member).__name__ for member in members(model)]
    chained = [name for name in names if name in FUNCTIONS | JUMPS]
    return set(names) <= EXACT and (len(chained) < 2 or FUNCTIONS.isdisjoint(chained))


def rounded_otherwise(source: Any, rng: np.random.Generator) -> Any:
    """Return a copy whose steps read and answer numbers some units beside, and whose neighbours
    do not tie.
    """
    other = copy.deepcopy(source)
    for member in members(other):
        name = type(member).__name__
        if (name not in EXACT or name in FUNCTIONS) and hasattr(member, "transform"):
            member.transform = partial(_transform, member, member.transform, rng)
        if name in NEAREST:
            member.predict = partial(_nearest, member, NEAREST[name], rng)
        if name == "NearestCentroid":
            member._decision_function = partial(_weighed, member, member._decision_function, rng)
        if name == "SplineTransformer" and member.extrapolation == "error":
            member.extrapolation = "constant"  # rows on the last knot move beyond it
        if "_fit_X" in vars(member):
            member._fit_X = _moved_points(member, rng)
            _grow_again(member)
    return other


def _transform(member: Any, transform: Any, rng: np.random.Generator, rows: Any) -> Any:
    answer = transform(_moved(rows, rng))
    centers = CENTERS.get(type(member).__name__)
    if centers is None:
        return _moved(answer, rng)
    apart = brute_force(_dense(rows), getattr(member, centers))
    noise = rng.uniform(-1, 1, answer.shape)
    return np.sqrt(np.maximum(answer**2 + noise * apart**2, 0)).astype(answer.dtype)


def _moved(numbers: Any, rng: np.random.Generator) -> Any:
    """Move numbers by some units of the largest in their row; of a sparse matrix, those it holds."""
    if getattr(getattr(numbers, "dtype", None), "type", None) not in (np.float32, np.float64):
        return numbers
    if scipy.sparse.issparse(numbers):
        moved = numbers.copy()
        moved.data = _moved(moved.data[None], rng)[0]
        return moved
    sizes = np.nan_to_num(np.abs(numbers)).max(axis=1, keepdims=True, initial=0)
    units = UNITS * np.finfo(numbers.dtype).eps * sizes
    return (numbers + rng.uniform(-1, 1, numbers.shape) * units).astype(numbers.dtype)


def _scores(member: Any, rows: Any) -> Array:
    """Scores that an OutputCodeClassifier compares with its codes."""
    scored = [
        one.decision_function(rows)
        if hasattr(one, "decision_function")
        else one.predict_proba(rows)[:, 1]
        for one in member.estimators_
    ]
    return np.column_stack(scored)


def _dense(rows: Any) -> Array:
    held = rows.toarray() if scipy.sparse.issparse(rows) else rows
    return np.asarray(held, np.float64)


NEAREST = {
    "NearestCentroid": (lambda member, rows: _dense(rows), "centroids_"),
    "OutputCodeClassifier": (_scores, "code_book_"),
}
"""What is compared with which points, of classifiers that take the nearest."""


def _nearest(member: Any, compared: Any, rng: np.random.Generator, rows: Any) -> Array:
    """Return the class whose point is nearest, by squares that cancel."""
    place, name = compared
    places = place(member, rows)
    points = np.asarray(getattr(member, name), np.float64)
    squares = ((places[:, None] - points) ** 2).sum(axis=2)
    noise = rng.uniform(-1, 1, squares.shape) * brute_force(places, points) ** 2
    return member.classes_[(squares + noise).argmin(axis=1)]


def _weighed(member: Any, score: Any, rng: np.random.Generator, rows: Any) -> Array:
    """Return the scores of classes, whose squares cancel too."""
    spread = np.where(member.within_class_std_dev_ == 0, 1.0, member.within_class_std_dev_)
    apart = brute_force(_dense(rows) / spread, member.centroids_ / spread)
    scores = score(rows)
    return scores + rng.uniform(-1, 1, scores.shape) * apart**2


def _moved_points(member: Any, rng: np.random.Generator) -> Any:
    """Move points by what their distances are off: by products of matrices far more than by a
    search tree.
    """
    points = member._fit_X
    if getattr(points, "dtype", np.dtype(object)).kind != "f":
        return points
    numbers = np.nan_to_num(_dense(points))
    apart = UNITS * np.finfo(points.dtype).eps * np.abs(numbers).max(initial=1.0)
    if vars(member).get("_tree") is None:
        apart += brute_force(numbers, numbers)
    moved = points + rng.uniform(-apart, apart, points.shape)
    is_sparse = scipy.sparse.issparse(points)
    return scipy.sparse.csr_matrix(moved) if is_sparse else moved.astype(points.dtype)


def _grow_again(member: Any) -> None:
    """Make the search tree of the points that a member has now."""
    tree = vars(member).get("_tree")
    if tree is not None:
        metric = {"metric": member.effective_metric_, **member.effective_metric_params_}
        member._tree = type(tree)(member._fit_X, member.leaf_size, **metric)
