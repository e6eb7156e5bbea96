"""Subjects: a model of each kind of the matrix, and the rows that its case is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from matrix.case import fitted
from matrix.estimators import case_names

import hbconv

__all__ = ["SUBJECTS", "Subject", "find_subject"]

BACKENDS = ("reference", "tvm")
ON_TORCH = (
    "LogisticRegression[two]",
    "StandardScaler[default]",
    "RandomForestClassifier[three text]",
    "lightgbm.LGBMClassifier[two text]",
    "ColumnTransformer[text beside numbers]",
)
LINEAR = (
    "LinearRegression[one target]",
    "LogisticRegression[two]",
    "SVC[rbf, three text, probabilities]",
    "MLPClassifier[relu, three text]",
    "MultiOutputClassifier[probabilities]",
    "GaussianProcessRegressor[scaled rbf and noise]",
    "GaussianMixture[full]",
    "PCA[three]",
    "StandardScaler[default]",
    "PolynomialFeatures[2]",
    "RobustScaler[default]",
    "FunctionTransformer[identity]",
    "TfidfTransformer[l2]",
    "SimpleImputer[mean]",
    "KBinsDiscretizer[one-hot, quantile]",
    "FeatureUnion[pca, scale]",
)
TREES = (
    "RandomForestClassifier[three text]",
    "DecisionTreeClassifier[three text]",
    "RandomTreesEmbedding[sparse]",
    "IsolationForest[default]",
    "HistGradientBoostingClassifier[two text]",
    "GradientBoostingRegressor[squared error]",
    "lightgbm.LGBMClassifier[two text]",
    "xgboost.XGBClassifier[two]",
    "xgboost.XGBRegressor[missing values]",
    "catboost.CatBoostClassifier[two text]",
)
TABLES = (
    "ColumnTransformer[text beside numbers]",
    "OneHotEncoder[text, unknown ignored]",
    "OrdinalEncoder[text, error]",
    "TargetEncoder[regression]",
    "category_encoders.OneHotEncoder[default]",
    "feature_engine.imputation.MeanMedianImputer[frame]",
    "feature_engine.encoding.OrdinalEncoder[unseen as a number]",
    "skrub.DropCols[texts]",
    "sklego.preprocessing.ColumnCapper[plain]",
    "interpret.glassbox.ExplainableBoostingRegressor[missing values]",
    "LabelEncoder[numbers]",
)
TEXTS = (
    "Pipeline[text, logistic regression]",
    "TfidfVectorizer[words]",
    "HashingVectorizer[l2]",
    "DictVectorizer[sparse]",
)
NEIGHBOURS = ("KNeighborsClassifier[default]", "NearestNeighbors[default]", "KNNImputer[default]")
NAMES = (*LINEAR, *TREES, *TABLES, *TEXTS, *NEIGHBOURS)
SESSION = "ONNX file of "
SESSIONS = ("OneHotEncoder[text, unknown ignored]",)


@dataclass(frozen=True)
class Subject:
    """A model on a backend, and what it is asked.

    Parameters
    ----------
    name : str
    convert : callable
        ``convert(**options)`` returns the model, fresh: it remembers no call.
    rows : callable
        Makes n rows, of float64 or a table.
    """

    name: str
    convert: Callable[..., hbconv.Model]
    rows: Callable[[int], Any]


SUBJECTS = (
    *(f"{name} on {backend}" for name in NAMES for backend in BACKENDS),
    *(f"{name} on torch" for name in ON_TORCH),
    *(f"{SESSION}{name} on reference" for name in SESSIONS),
)


def find_subject(name: str) -> Subject:
    """Return a subject by its name, such as ``"PCA[three] on tvm"``."""
    case_name, _, backend = name.removeprefix(SESSION).rpartition(" on ")
    case = next(each for each in case_names() if str(each) == case_name).made()
    source = fitted(case)
    if name.startswith(SESSION):
        source = hbconv.convert(source, "reference").to_bytes(".onnx")
    return Subject(name, partial(hbconv.convert, source, backend), case.rows)
