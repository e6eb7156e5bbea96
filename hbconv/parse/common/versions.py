"""What differs between versions of the libraries whose models are read is asked here alone.

scikit-learn 1.5 describes estimators by a dict (``_get_tags``), later versions by an object
(``__sklearn_tags__``). Attributes came with one version, which the classes of others do not read.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "centres_deviations",
    "estimator_type",
    "find_empty_columns",
    "flattens_one_row",
    "has_missing_policy",
    "has_priors",
    "has_tags",
    "keeps_dtype_of_codes",
    "power_takes_roots",
    "read_fill_dtype",
    "self_trained_classifier",
    "takes_nan",
    "takes_powers_by_scipy",
    "takes_sparse",
    "version_fitted_by",
    "votes_by_probabilities",
    "widens_by_scalars",
]

_DENSE_IN_1_5 = {
    "cluster": "FeatureAgglomeration MeanShift",
    "covariance": "EllipticEnvelope EmpiricalCovariance GraphicalLasso GraphicalLassoCV LedoitWolf "
    "MinCovDet OAS ShrunkCovariance",
    "cross_decomposition": "CCA PLSCanonical PLSRegression PLSSVD",
    "decomposition": "DictionaryLearning FactorAnalysis FastICA MiniBatchDictionaryLearning "
    "MiniBatchSparsePCA SparseCoder SparsePCA",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "ensemble": "HistGradientBoostingClassifier HistGradientBoostingRegressor",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "impute": "IterativeImputer KNNImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "SkewedChi2Sampler",
    "linear_model": "ARDRegression BayesianRidge Lars LarsCV LassoLars LassoLarsCV LassoLarsIC "
    "MultiTaskElasticNet MultiTaskElasticNetCV MultiTaskLasso MultiTaskLassoCV "
    "OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV TheilSenRegressor",
    "manifold": "LocallyLinearEmbedding",
    "mixture": "BayesianGaussianMixture GaussianMixture",
    "naive_bayes": "CategoricalNB GaussianNB",
    "neighbors": "KernelDensity NeighborhoodComponentsAnalysis",
    "preprocessing": "KBinsDiscretizer KernelCenterer MinMaxScaler OneHotEncoder OrdinalEncoder "
    "PowerTransformer SplineTransformer TargetEncoder",
}
"""Estimators that take no sparse matrix, by module: the tags of scikit-learn 1.5 do not tell."""

_KINDS_OF_1_5 = {"DensityEstimator": "density_estimator"}
"""What scikit-learn 1.5 calls a kind of estimators that later versions call otherwise."""

_UNPICKLED = re.compile(r"unpickle estimator (\w+) from version (\S+) when using version (\S+?)\.")


def has_tags(estimator: object) -> bool:
    """Tell whether scikit-learn's own functions know an object as an estimator."""
    return hasattr(estimator, "__sklearn_tags__") or hasattr(estimator, "_get_tags")


def _tags(estimator: Any) -> Any:
    """Return the tags that scikit-learn has since 1.6.

    None before, and for a class of another library that is too old to make them.
    """
    try:
        return estimator.__sklearn_tags__()
    except AttributeError:
        return None


def estimator_type(estimator: Any) -> str | None:
    """Return what scikit-learn counts an estimator as, such as "classifier"."""
    tags = _tags(estimator)
    if tags is None:
        kind = getattr(estimator, "_estimator_type", None)
        return None if kind is None else _KINDS_OF_1_5.get(kind, kind)
    kind = tags.estimator_type
    return None if kind is None else str(kind)


def takes_nan(estimator: Any) -> bool:
    """Tell whether an estimator of scikit-learn takes missing values."""
    tags = _tags(estimator)
    return bool(estimator._get_tags()["allow_nan"] if tags is None else tags.input_tags.allow_nan)


def takes_sparse(estimator: Any) -> bool:
    """Tell whether an estimator of scikit-learn takes a sparse matrix, as far as its tags tell."""
    tags = _tags(estimator)
    if tags is None:
        return not _is_dense_in_1_5(type(estimator))
    return bool(tags.input_tags.sparse)


def _is_dense_in_1_5(cls: type) -> bool:
    module = cls.__module__.split(".")[1]
    return cls.__name__ in _DENSE_IN_1_5.get(module, "").split()


def has_priors(centroids: Any) -> bool:
    """Tell whether NearestCentroid weighs its classes; before 1.6 it looks at distances alone."""
    return "priors" in type(centroids)._get_param_names()


def votes_by_probabilities(booster: Any) -> bool:
    """Tell whether AdaBoostClassifier adds probabilities up (SAMME.R), as 1.5 does by default.

    1.6 and 1.7 warn of the parameter and count votes, as later versions do without one.
    """
    return _installed() < (1, 6) and booster.algorithm == "SAMME.R"


def power_takes_roots() -> bool:
    """Whether ``np.power`` takes the root for 0.5, as the operator ``**`` does.

    Older versions of numpy take a power: that of negative infinity is no NaN.
    """
    with np.errstate(invalid="ignore"):
        return bool(np.isnan(np.power(np.array([-np.inf]), 0.5))[0])


def read_fill_dtype(imputer: Any) -> np.dtype[Any]:
    """Return the dtype to which SimpleImputer casts its statistics.

    Since 1.8 ``_fill_dtype`` holds it, and an imputer without one fails. Before, the statistics
    themselves have it.
    """
    dtype: np.dtype[Any] = (
        imputer._fill_dtype if _installed() >= (1, 8) else imputer.statistics_.dtype
    )
    return dtype


def has_missing_policy(transformer: Any) -> bool:
    """Tell whether SplineTransformer has a choice for missing values; before 1.8 it has none."""
    return "handle_missing" in type(transformer)._get_param_names()


def keeps_dtype_of_codes() -> bool:
    """Tell whether sparse codes have the dtype of the rows, as since 1.8."""
    return _installed() >= (1, 8)


def flattens_one_row() -> bool:
    """Tell whether SparsePCA makes a vector of one row, as since 1.6."""
    return _installed() >= (1, 6)


def centres_deviations() -> bool:
    """Tell whether BayesianRidge and ARDRegression centre rows for deviations, as since 1.9."""
    return _installed() >= (1, 9)


def takes_powers_by_scipy() -> bool:
    """Tell whether PowerTransformer calls ``scipy.stats.yeojohnson``, as since 1.9."""
    return _installed() >= (1, 9)


def widens_by_scalars() -> bool:
    """Tell whether numpy computes float32 with a float64 scalar in float64, as since 2.0."""
    return int(np.__version__.partition(".")[0]) >= 2


def find_empty_columns(imputer: Any) -> npt.NDArray[np.bool_]:
    """Return in which columns IterativeImputer saw no value; before 1.6 it asks its statistics."""
    if _installed() >= (1, 6):
        return np.asarray(imputer._is_empty_feature)
    return np.asarray(np.isnan(imputer.initial_imputer_.statistics_))


def self_trained_classifier(trained: Any) -> Any:
    """Return the classifier that SelfTrainingClassifier fitted last."""
    return trained.estimator_ if _installed() >= (1, 6) else trained.base_estimator_


def _installed() -> tuple[int, int]:
    """Return major and minor number of the scikit-learn that is loaded."""
    major, minor = sys.modules["sklearn"].__version__.split(".")[:2]
    return int(major), int(minor)


def version_fitted_by(estimator: object) -> str:
    """Return the version of scikit-learn that fitted an estimator, where another one unpickled it.

    Its pickle names it, and unpickling keeps no more of that than a warning. So this asks for what
    Python remembers of the warnings it showed. Empty where nothing tells.
    """
    base = sys.modules.get("sklearn.base")
    shown = getattr(base, "__warningregistry__", None) or {}
    for said in (key[0] for key in shown if isinstance(key, tuple)):
        found = _UNPICKLED.search(str(said))
        if found and found[1] == type(estimator).__name__:
            return found[2]
    return ""
