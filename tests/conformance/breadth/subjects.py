"""Subjects: every estimator of scikit-learn as the sweep starts from it, with the data that it
asks for.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from breadth.data import KINDS, SIZE, Kind
from breadth.made import REDUCE, SCALE
from matrix.case import as_dtype
from matrix.data import target
from scipy.sparse import csr_matrix
from sklearn import base, linear_model, preprocessing, tree
from sklearn.utils import all_estimators

__all__ = ["Subject", "classes", "subject"]

LOGISTIC = linear_model.LogisticRegression()
TREE = tree.DecisionTreeClassifier(max_depth=3)
RIDGE = linear_model.Ridge()
SMALL = {"n_estimators": 3}

START: dict[str, dict[str, Any]] = {
    "AdaBoostClassifier": SMALL, "AdaBoostRegressor": SMALL,
    "AffinityPropagation": {"damping": 0.9}, "BaggingClassifier": SMALL, "BaggingRegressor": SMALL,
    "BayesianGaussianMixture": {"n_components": 3, "max_iter": 5},
    "BernoulliRBM": {"n_components": 3, "n_iter": 2}, "BisectingKMeans": {"n_clusters": 3},
    "CalibratedClassifierCV": {"estimator": LOGISTIC, "cv": 2},
    "ClassifierChain": {"estimator": LOGISTIC},
    "ColumnTransformer": {"transformers": [("scale", preprocessing.StandardScaler(), [0, 1]), ("keep", "passthrough", [3])]},
    "DictionaryLearning": {"n_components": 3, "max_iter": 3},
    "ElasticNetCV": {"alphas": 3, "cv": 2}, "EllipticEnvelope": {"support_fraction": 0.9},
    "ExtraTreesClassifier": SMALL, "ExtraTreesRegressor": SMALL,
    "FactorAnalysis": {"n_components": 2, "max_iter": 9},
    "FastICA": {"n_components": 3, "max_iter": 9, "whiten": "unit-variance"},
    "FeatureHasher": {"n_features": 32},
    "FeatureUnion": {"transformer_list": [SCALE, REDUCE]},
    "FixedThresholdClassifier": {"estimator": LOGISTIC},
    "FrozenEstimator": {"estimator": linear_model.Ridge().fit(KINDS["numbers"].fit(), target("value")[:SIZE])}, "FunctionTransformer": {"func": np.abs},
    "GaussianMixture": {"n_components": 3, "max_iter": 5},
    "GaussianRandomProjection": {"n_components": 3}, "GradientBoostingClassifier": SMALL,
    "GradientBoostingRegressor": SMALL, "GraphicalLasso": {"alpha": 0.3, "max_iter": 9},
    "GraphicalLassoCV": {"alphas": 2, "n_refinements": 1, "max_iter": 9, "cv": 2},
    "GridSearchCV": {"estimator": LOGISTIC, "param_grid": {"C": [0.1, 1.0]}, "cv": 2},
    "HalvingGridSearchCV": {"estimator": LOGISTIC, "param_grid": {"C": [0.1, 1.0]}, "cv": 2},
    "HalvingRandomSearchCV": {"estimator": LOGISTIC, "param_distributions": {"C": [0.1, 1.0]}, "cv": 2}, "HashingVectorizer": {"n_features": 64},
    "HistGradientBoostingClassifier": {"max_iter": 3, "min_samples_leaf": 5, "early_stopping": False},
    "HistGradientBoostingRegressor": {"max_iter": 3, "min_samples_leaf": 5, "early_stopping": False}, "IncrementalPCA": {"n_components": 3},
    "IsolationForest": SMALL,
    "KBinsDiscretizer": {"n_bins": 3, "quantile_method": "averaged_inverted_cdf"},
    "KMeans": {"n_clusters": 3, "n_init": 1},
    "KernelDensity": {"bandwidth": 2.0},
    "KernelPCA": {"n_components": 3, "kernel": "rbf", "gamma": 0.05},
    "LassoCV": {"alphas": 3, "cv": 2},
    "LarsCV": {"cv": 2}, "LassoLars": {"alpha": 0.1}, "LassoLarsCV": {"cv": 2},
    "LatentDirichletAllocation": {"n_components": 3, "max_iter": 2},
    "LocalOutlierFactor": {"novelty": True},
    "LogisticRegressionCV": {"Cs": 2, "cv": 2, "l1_ratios": (0,), "use_legacy_attributes": False, "scoring": "neg_log_loss"},
    "MLPClassifier": {"hidden_layer_sizes": (4,), "max_iter": 9},
    "MLPRegressor": {"hidden_layer_sizes": (4,), "max_iter": 9},
    "MeanShift": {"bandwidth": 8.0},
    "MiniBatchDictionaryLearning": {"n_components": 3, "max_iter": 2},
    "MiniBatchKMeans": {"n_clusters": 3, "n_init": 1},
    "MiniBatchNMF": {"n_components": 3, "max_iter": 5},
    "MiniBatchSparsePCA": {"n_components": 3, "max_iter": 3},
    "MultiOutputClassifier": {"estimator": LOGISTIC}, "MultiOutputRegressor": {"estimator": RIDGE},
    "MultiTaskElasticNetCV": {"alphas": 3, "cv": 2},
    "MultiTaskLassoCV": {"alphas": 3, "cv": 2},
    "NMF": {"n_components": 3, "max_iter": 20, "tol": 0.0},
    "NeighborhoodComponentsAnalysis": {"n_components": 3, "max_iter": 5}, "NuSVC": {"nu": 0.3},
    "Nystroem": {"n_components": 9},
    "OneVsOneClassifier": {"estimator": LOGISTIC}, "OneVsRestClassifier": {"estimator": LOGISTIC},
    "OrthogonalMatchingPursuitCV": {"cv": 2},
    "OutputCodeClassifier": {"estimator": LOGISTIC}, "PCA": {"n_components": 3},
    "Pipeline": {"steps": [SCALE, ("linear", LOGISTIC)]},
    "PolynomialCountSketch": {"n_components": 9}, "QuantileRegressor": {"alpha": 0.01},
    "QuantileTransformer": {"n_quantiles": 20},
    "QuadraticDiscriminantAnalysis": {"reg_param": 0.1}, "RBFSampler": {"n_components": 9},
    "RFE": {"estimator": LOGISTIC},
    "RFECV": {"estimator": LOGISTIC, "cv": 2},
    "RadiusNeighborsClassifier": {"radius": 20.0, "outlier_label": "most_frequent"},
    "RadiusNeighborsRegressor": {"radius": 20.0}, "RadiusNeighborsTransformer": {"radius": 20.0},
    "RandomForestClassifier": SMALL,
    "RandomForestRegressor": SMALL, "RandomTreesEmbedding": SMALL,
    "RandomizedSearchCV": {"estimator": LOGISTIC, "param_distributions": {"C": [0.1, 1.0]}, "n_iter": 2, "cv": 2}, "RegressorChain": {"estimator": RIDGE},
    "SVC": {"gamma": 0.05}, "SelectFdr": {"alpha": 0.5}, "SelectFromModel": {"estimator": LOGISTIC},
    "SelectKBest": {"k": 3},
    "SelfTrainingClassifier": {"estimator": LOGISTIC},
    "SequentialFeatureSelector": {"estimator": LOGISTIC, "n_features_to_select": 2, "cv": 2},
    "SkewedChi2Sampler": {"n_components": 9},
    "SparseCoder": {"dictionary": KINDS["numbers"].fit()[:4]},
    "SparsePCA": {"n_components": 3, "max_iter": 3},
    "SparseRandomProjection": {"n_components": 3, "density": 0.5},
    "StackingClassifier": {"estimators": [("a", LOGISTIC), ("b", TREE)], "cv": 2},
    "StackingRegressor": {"estimators": [("a", RIDGE), ("b", tree.DecisionTreeRegressor(max_depth=2))], "cv": 2},
    "TargetEncoder": {"target_type": "continuous", "cv": 2},
    "TheilSenRegressor": {"max_subpopulation": 50},
    "TransformedTargetRegressor": {"regressor": RIDGE}, "TruncatedSVD": {"n_components": 3},
    "TunedThresholdClassifierCV": {"estimator": LOGISTIC, "thresholds": 5, "cv": 2},
    "VotingClassifier": {"estimators": [("a", LOGISTIC), ("b", TREE)]},
    "VotingRegressor": {"estimators": [("a", RIDGE), ("b", tree.DecisionTreeRegressor(max_depth=2))]},
}  # fmt: skip
"""Parameters that the constructor demands, or that keep the model small."""

DATA = {
    "AdditiveChi2Sampler": "positive", "CategoricalNB": "codes", "ComplementNB": "counts",
    "CountVectorizer": "texts", "DictVectorizer": "dicts",
    "FeatureHasher": "dicts", "GammaRegressor": "moderate", "HashingVectorizer": "texts",
    "IsotonicRegression": "line", "IterativeImputer": "holes",
    "KNNImputer": "holes", "KernelCenterer": "kernel", "LabelBinarizer": "labels",
    "LabelEncoder": "label column", "LatentDirichletAllocation": "counts",
    "MLPClassifier": "moderate", "MLPRegressor": "moderate", "MiniBatchNMF": "positive",
    "MissingIndicator": "holes", "MultiLabelBinarizer": "label sets",
    "MultinomialNB": "counts", "NMF": "positive", "OneHotEncoder": "codes",
    "OrdinalEncoder": "codes", "PoissonRegressor": "moderate",
    "SimpleImputer": "holes", "SkewedChi2Sampler": "positive", "TargetEncoder": "codes",
    "TfidfTransformer": "counts", "TfidfVectorizer": "texts",
    "TweedieRegressor": "moderate", "GaussianProcessClassifier": "normalized",
    "GaussianProcessRegressor": "normalized", "KernelPCA": "normalized",
    "KernelRidge": "normalized", "LabelPropagation": "normalized", "LabelSpreading": "normalized",
    "Nystroem": "normalized", "RBFSampler": "normalized",
    "SVC": "normalized", "NuSVC": "normalized", "SVR": "normalized", "NuSVR": "normalized",
    "OneClassSVM": "normalized", "BernoulliRBM": "normalized",
    "AffinityPropagation": "normalized", "GaussianMixture": "apart",
    "BayesianGaussianMixture": "apart", "PLSCanonical": "moderate",
    "CCA": "moderate", "DictionaryLearning": "normalized",
    "MiniBatchDictionaryLearning": "normalized", "LocallyLinearEmbedding": "normalized",
    "Isomap": "apart", "QuadraticDiscriminantAnalysis": "normalized",
    "KNeighborsClassifier": "apart", "KNeighborsRegressor": "apart",
    "KNeighborsTransformer": "apart", "LocalOutlierFactor": "apart", "NearestNeighbors": "apart",
}  # fmt: skip
"""Kind of data; numbers where nothing is said."""

TARGET = {
    "ClassifierChain": "labels", "GammaRegressor": "positive", "IsotonicRegression": "value",
    "MultiOutputClassifier": "labels",
    "PoissonRegressor": "count", "RegressorChain": "values", "TweedieRegressor": "count",
    "FixedThresholdClassifier": "two",
    "TunedThresholdClassifierCV": "two", "TargetEncoder": "value", "CCA": "values",
    "PLSCanonical": "values", "PLSRegression": "values", "PLSSVD": "values",
    "MultiOutputRegressor": "values", "MultiTaskElasticNet": "values",
    "MultiTaskElasticNetCV": "values", "MultiTaskLasso": "values",
    "MultiTaskLassoCV": "values", "SelectFromModel": "three", "GridSearchCV": "three_text",
    "HalvingGridSearchCV": "three_text",
    "HalvingRandomSearchCV": "three_text", "RandomizedSearchCV": "three_text",
    "Pipeline": "three_text", "FrozenEstimator": "value",
    "NeighborhoodComponentsAnalysis": "three_text", "SelfTrainingClassifier": "three",
}  # fmt: skip
"""Target; of three texts for classifiers and selectors, a value for regressors, where nothing
is said.
"""

LABELS = ("two", "two_bool", "three", "three_text", "labels")
NUMBERS = ("value", "values", "positive", "count")


@dataclass(frozen=True)
class Subject:
    """One estimator, not fitted, with what to fit it on.

    Parameters
    ----------
    estimator : object
    kind : str
        Kind of data.
    y : str
        Name of the target.
    form : str
        What the rows are fitted as: ``"float64"``, ``"float32"``, ``"frame"``, ``"sparse"``.
    """

    estimator: Any
    kind: str = "numbers"
    y: str = ""
    form: str = "float64"

    @property
    def data(self) -> Kind:
        """Rows to fit on and to answer."""
        return KINDS[self.kind]

    def fitted(self) -> Any:
        """Fit a copy; a small model need not converge."""
        model = base.clone(self.estimator)
        x = self._x()
        y = target(self.y)[:SIZE].copy() if self.y else None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return model.fit(x) if y is None else model.fit(x, y)

    def rows(self, n: int, dtype: str, *, known: bool = False) -> Any:
        """New rows, hostile ones among them unless they must be known; a model fitted on named
        columns is given named ones.
        """
        x = (self.data.known if known and self.data.known else self.data.rows)(n)
        x = as_dtype(x, dtype) if hasattr(x, "dtype") else x
        return _frame(x) if self.form == "frame" else x

    def _x(self) -> Any:
        x = deepcopy(self.data.fit())  # some estimators write into what they are fitted on
        forms = {
            "float32": lambda: x.astype("float32"),
            "frame": lambda: _frame(x),
            "sparse": lambda: csr_matrix(x),
        }
        return forms.get(self.form, lambda: x)()

    def variations(self, parameter: str) -> list[Subject]:
        """The same estimator with other targets, or fitted on other forms of its rows."""
        if parameter == "y":
            kinds = LABELS if self.y in LABELS else NUMBERS if self.y in NUMBERS else ()
            return [replace(self, y=y) for y in kinds if y != self.y]
        return (
            [replace(self, form=form) for form in ("float32", "frame", "sparse")]
            if self.kind not in ("texts", "dicts", "labels", "label column", "label sets", "line")
            else []
        )


def _frame(x: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(x, columns=[f"c{i}" for i in range(x.shape[1])])


@cache
def classes() -> dict[str, type]:
    """Every estimator of scikit-learn by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import sklearn.experimental.enable_halving_search_cv
        import sklearn.experimental.enable_iterative_imputer  # noqa: F401

        return dict(all_estimators())


def subject(name: str) -> Subject:
    """Where the sweep starts from for one estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = classes()[name](**START.get(name, {}))
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=0)
    return Subject(estimator, DATA.get(name, "numbers"), TARGET.get(name, _target(estimator)))


def _target(estimator: Any) -> str:
    if base.is_classifier(estimator) or type(estimator).__module__.startswith(
        "sklearn.feature_selection"
    ):
        return "three_text"
    return "value" if base.is_regressor(estimator) else ""
