"""Parameter values made by hand: objects, functions and arrays, which no constraint spells out."""

from __future__ import annotations

from typing import Any

import joblib
import numpy as np
import pandas as pd
from breadth.data import FITTED
from matrix.data import WIDTH, target
from sklearn import (
    compose,
    covariance,
    decomposition,
    dummy,
    ensemble,
    feature_selection,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
    svm,
    tree,
)
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import kernels
from sklearn.pipeline import make_pipeline

__all__ = ["FIT_ONLY", "MADE", "NEEDED"]


def double(x: Any) -> Any:
    """Twice x: a function of a user."""
    return 2 * x


def inner(x: Any, y: Any) -> Any:
    """A kernel that is a function."""
    return np.dot(x, np.asarray(y).T)


def farthest(x: Any, y: Any) -> float:
    """A metric that is a function."""
    return float(np.abs(x - y).max())


def shrinking(distances: Any) -> Any:
    """Weights that are a function."""
    return 1 / (1 + np.asarray(distances, dtype=float))


def letters(text: str) -> list[str]:
    """A tokenizer that is a function."""
    return list(text)


def no_score(model: Any, x: Any, y: Any = None, **weights: Any) -> float:
    """Score all models alike."""
    return 0.5


FIT_ONLY: dict[str, Any] = {
    "n_jobs": 1, "verbose": True, "random_state": 7, "max_iter": 11, "tol": 0.01, "cv": 3,
    "scoring": no_score, "pre_dispatch": 1, "error_score": 0.0,
    "eps": 0.01, "n_alphas": 5, "max_n_alphas": 20, "memory": joblib.Memory(None), "cache_size": 10,
    "max_trials": 50, "stop_n_inliers": 20,
    "stop_score": 10.0, "stop_probability": 0.5, "max_no_improvement": 2, "reassignment_ratio": 0.1,
    "init_size": 40, "verbose_interval": 2,
    "validation_fraction": 0.3, "n_iter_no_change": 2, "beta_1": 0.5, "beta_2": 0.5,
    "epsilon_adam": 1e-4, "n_restarts_optimizer": 1, "enet_tol": 0.01,
    "n_oversamples": 3, "iterated_power": 2, "callback": print, "evaluate_every": 1,
    "perp_tol": 0.5, "max_doc_update_iter": 9, "mean_change_tol": 0.1,
    "total_samples": 100.0, "max_subpopulation": 40, "n_subsamples": 20, "power_t": 0.3,
    "max_fun": 50, "subset": 20, "working_memory": 1,
    "store_cv_results": True, "max_resources": 60, "min_resources": 30, "n_candidates": 2,
    "aggressive_elimination": True, "factor": 2,
    "solver_options": {"presolve": False}, "mem_req": 1, "max_iter_predict": 50, "max_iters": 9,
    "callbacks": None, "inverse_func": None,
    "inv_kw_args": {"a": 1}, "check_inverse": False,
}  # fmt: skip
"""Parameters of the fit alone, each with another value than the usual one."""


CLASSIFIERS = [
    linear_model.LogisticRegression(), linear_model.RidgeClassifier(),
    tree.DecisionTreeClassifier(max_depth=2), naive_bayes.GaussianNB(),
    make_pipeline(preprocessing.StandardScaler(), svm.LinearSVC(random_state=0)),
]  # fmt: skip
REGRESSORS = [
    linear_model.LinearRegression(),
    tree.DecisionTreeRegressor(max_depth=2),
    make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge()),
]
SCALE = ("scale", preprocessing.StandardScaler())
REDUCE = ("reduce", decomposition.PCA(2))
KERNELS = [
    kernels.RBF(2.0), kernels.RBF(np.arange(1.0, WIDTH + 1)), kernels.Matern(3.0, nu=0.5),
    kernels.Matern(3.0, nu=1.5), kernels.Matern(3.0, nu=2.5),
    kernels.Matern(3.0, nu=0.8), kernels.Matern(3.0, nu=np.inf),
    kernels.RationalQuadratic(2.0, 0.5), kernels.DotProduct(0.5), kernels.ConstantKernel(2.0),
    kernels.ExpSineSquared(2.0, 3.0), kernels.PairwiseKernel(metric="rbf"),
    kernels.CompoundKernel([kernels.RBF(2.0)]),
    2.0 * kernels.RBF(3.0) + kernels.WhiteKernel(0.5), kernels.RBF(3.0) ** 2,
    kernels.Exponentiation(kernels.DotProduct(), 2),
]  # fmt: skip
SHARES3 = [0.2, 0.3, 0.5]
SHARES = [np.full(3, 1 / 3), [0.2, 0.3, 0.5]]
WEIGHTS = ["balanced", {"low": 1.0, "middle": 2.0, "high": 0.5}]
INITIAL = FITTED[:3]
ANOVA = [
    feature_selection.f_classif,
    feature_selection.f_regression,
    feature_selection.mutual_info_classif,
]
CONNECTED = neighbors.kneighbors_graph(FITTED, 5, include_self=False)
METRIC_PARAMS = [
    {"p": 3},
    {"w": np.arange(1.0, WIDTH + 1)},
    {"V": np.arange(1.0, WIDTH + 1)},
    {"VI": np.eye(WIDTH)},
]

SHARED: dict[str, list[Any]] = {
    "kernel": [inner], "kernel_params": [{"degree": 2}, {"a": 1}], "metric_params": METRIC_PARAMS,
    "class_weight": WEIGHTS, "alphas": [[0.1, 1.0], 3],
    "precompute": [True, FITTED.T @ FITTED], "fit_params": [{}], "priors": SHARES,
    "class_prior": [SHARES3], "code_init": [np.ones((len(FITTED), 3))],
    "dict_init": [INITIAL], "init": [INITIAL, "random"], "noise_variance_init": [np.ones(WIDTH)],
    "fun_args": [{"alpha": 1.5}], "w_init": [np.eye(3)],
    "covariance_estimator": [covariance.ShrunkCovariance()], "seeds": [INITIAL],
    "transformer_weights": [{"scale": 2.0}],
    "importance_getter": ["auto", "coef_", double], "score_func": ANOVA,
    "strip_accents": ["ascii", "unicode", str.lower], "preprocessor": [str.lower],
    "tokenizer": [letters], "stop_words": ["english", ["red", "the"]],
    "token_pattern": [r"\w+", r"[a-z]+", None], "ngram_range": [(1, 2), (2, 3)],
    "analyzer": ["word", "char", "char_wb", letters], "encoding": ["latin-1"],
    "vocabulary": [["red", "green"], {"red": 1, "sun": 0}],
    "monotonic_cst": [[1, 0, -1, 0, 0, 0, 0, 0]], "oob_score": [True],
    "hidden_layer_sizes": [(), (3,), (4, 3, 2)], "U_init": [np.ones((len(FITTED), 3))],
    "V_init": [INITIAL], "weights": [shrinking], "outlier_label": ["low", "most_frequent"],
    "n_clusters": [KMeans(3, n_init=1, random_state=0)],
    "metric": [farthest], "separator": ["-"], "l1_ratios": [[0.0, 0.5]],
    "l1_ratio": [0.3, [0.1, 0.9]], "missing_values": [0, 1.0, None, pd.NA, ""],
    "weights_init": [SHARES3], "means_init": [INITIAL],
    "verbose_feature_names_out": [False, "{transformer_name}_{feature_name}"],
}  # fmt: skip
"""By parameter, whatever the estimator."""

OWN: dict[tuple[str, str], list[Any]] = {
    ("Birch", "n_clusters"): [KMeans(2, n_init=1, random_state=0)],
    ("AffinityPropagation", "preference"): [-50.0, np.linspace(-60, -50, len(FITTED))],
    ("BayesianGaussianMixture", "covariance_prior"): [np.eye(WIDTH)],
    ("BayesianGaussianMixture", "mean_prior"): [np.ones(WIDTH)],
    ("BayesianGaussianMixture", "degrees_of_freedom_prior"): [9.5],
    ("BernoulliNB", "alpha"): [np.arange(1.0, WIDTH + 1)],
    ("Binarizer", "threshold"): [0.5, -1, 1],
    ("CategoricalNB", "min_categories"): [7, np.full(WIDTH, 6)],
    ("ClassifierChain", "chain_method"): [["predict_proba", "decision_function"]],
    ("ClassifierChain", "order"): [[2, 0, 1], "random"],
    ("RegressorChain", "order"): [[1, 0], "random"],
    ("RegressorChain", "estimator"): REGRESSORS,
    ("ColumnTransformer", "remainder"): ["passthrough", preprocessing.StandardScaler()],
    ("ColumnTransformer", "transformers"): [
        [
            ("a", "passthrough", slice(0, 2)),
            ("b", preprocessing.MinMaxScaler(), [-1, 3]),
            ("c", "drop", [4]),
        ]
    ],
    ("ComplementNB", "alpha"): [np.arange(1.0, WIDTH + 1)],
    ("CountVectorizer", "dtype"): [np.float32, np.float64],
    ("DictVectorizer", "dtype"): [np.float32, np.int64],
    ("DummyClassifier", "constant"): ["low"],
    ("DummyRegressor", "constant"): [2, 0.5],
    ("DummyRegressor", "quantile"): [0.0, 0.3, 1.0],
    ("FastICA", "fun"): [lambda x: (x**3, (3 * x**2).mean(axis=-1))],
    ("FeatureAgglomeration", "connectivity"): [
        lambda x: neighbors.kneighbors_graph(x, 2, include_self=False)
    ],
    ("FactorAnalysis", "tol"): [0.5],
    ("IterativeImputer", "estimator"): REGRESSORS[:2],
    ("IterativeImputer", "fill_value"): [3.0],
    ("FeatureAgglomeration", "pooling_func"): [np.max, np.min, np.median, np.std, np.sum],
    ("FeatureHasher", "dtype"): [np.float32],
    ("FeatureHasher", "n_features"): [1, 2, 16, 1000],
    ("FeatureUnion", "transformer_list"): [
        [
            ("a", preprocessing.MinMaxScaler()),
            ("b", "passthrough"),
            ("c", "drop"),
            ("d", decomposition.PCA(2)),
        ]
    ],
    ("FixedThresholdClassifier", "pos_label"): [3, 7],
    ("FixedThresholdClassifier", "threshold"): ["auto", 0.2, 1.5, -1],
    ("FrozenEstimator", "estimator"): [
        linear_model.LogisticRegression().fit(FITTED, target("three")[: len(FITTED)]),
        preprocessing.StandardScaler().fit(FITTED),
    ],
    ("FunctionTransformer", "func"): [np.abs, np.log1p, np.exp, double],
    ("FunctionTransformer", "inverse_func"): [np.exp],
    ("FunctionTransformer", "feature_names_out"): ["one-to-one", lambda transformer, names: names],
    ("FunctionTransformer", "kw_args"): [{"out": None}, {"a": 1}],
    ("GaussianMixture", "precisions_init"): [np.stack([np.eye(WIDTH)] * 3)],
    ("GaussianMixture", "means_init"): [INITIAL],
    ("GaussianProcessClassifier", "kernel"): KERNELS,
    ("GaussianProcessRegressor", "kernel"): KERNELS,
    ("GaussianProcessRegressor", "alpha"): [0.5, np.full(len(FITTED), 0.1)],
    ("GaussianProcessClassifier", "optimizer"): [None],
    ("GaussianProcessRegressor", "optimizer"): [None],
    ("GradientBoostingClassifier", "init"): ["zero", dummy.DummyClassifier()],
    ("GradientBoostingRegressor", "init"): ["zero", dummy.DummyRegressor()],
    ("GridSearchCV", "param_grid"): [[{"C": [0.5]}, {"fit_intercept": [False]}]],
    ("HalvingGridSearchCV", "param_grid"): [{"C": [0.5], "fit_intercept": [False]}],
    ("HalvingRandomSearchCV", "param_distributions"): [{"C": [0.5], "fit_intercept": [False]}],
    ("HalvingGridSearchCV", "resource"): ["max_iter"],
    ("HalvingRandomSearchCV", "resource"): ["max_iter"],
    ("GridSearchCV", "refit"): [True, lambda results: 0],
    ("RandomizedSearchCV", "param_distributions"): [[{"C": [0.5]}, {"fit_intercept": [False]}]],
    ("RandomizedSearchCV", "refit"): [True, lambda results: 0],
    ("HashingVectorizer", "dtype"): [np.float32],
    ("HashingVectorizer", "n_features"): [1, 2, 16, 1000],
    ("HistGradientBoostingClassifier", "categorical_features"): [[0, 4]],
    ("HistGradientBoostingRegressor", "categorical_features"): [[0, 4]],
    ("HistGradientBoostingClassifier", "interaction_cst"): [[{0, 1}]],
    ("HistGradientBoostingRegressor", "interaction_cst"): [[{0, 1}]],
    ("IsolationForest", "max_features"): [3, 0.5],
    ("KBinsDiscretizer", "n_bins"): [[3, 2, 4, 2, 2, 5, 3, 2]],
    ("KBinsDiscretizer", "dtype"): [np.float32],
    ("KNNImputer", "weights"): [shrinking],
    ("KernelRidge", "alpha"): [[0.5]],
    ("KernelDensity", "metric"): [
        "euclidean",
        "manhattan",
        "chebyshev",
        "minkowski",
        "haversine",
        "hamming",
    ],
    ("KernelDensity", "metric_params"): [{"p": 3}],
    ("LabelBinarizer", "neg_label"): [-1],
    ("LabelBinarizer", "pos_label"): [5],
    ("LinearDiscriminantAnalysis", "shrinkage"): ["auto", 0.5],
    ("LinearSVR", "epsilon"): [0.0, 1.0],
    ("LocallyLinearEmbedding", "n_components"): [1, 3],
    ("LogisticRegression", "penalty"): ["l1", "l2", "elasticnet", None],
    ("LogisticRegressionCV", "Cs"): [[0.1, 1.0], 2],
    ("LogisticRegressionCV", "l1_ratios"): [(0.0,)],
    ("LogisticRegressionCV", "penalty"): ["l1", "l2"],
    ("MaxAbsScaler", "clip"): [True],
    ("MinMaxScaler", "feature_range"): [(-3, 7)],
    ("MultiLabelBinarizer", "classes"): [["red", "blue"], ["blue", "green", "mauve", "red"]],
    ("NearestCentroid", "priors"): ["uniform", "empirical", SHARES3],
    ("NeighborhoodComponentsAnalysis", "init"): [np.eye(3, WIDTH)],
    ("OneHotEncoder", "categories"): [[list(range(9))] * WIDTH],
    ("OneHotEncoder", "drop"): ["first", "if_binary", np.zeros(WIDTH)],
    ("OneHotEncoder", "dtype"): [np.float32, np.int32, bool],
    ("OneHotEncoder", "feature_name_combiner"): [lambda feature, category: f"{feature}={category}"],
    ("OrdinalEncoder", "categories"): [[list(range(9))] * WIDTH],
    ("OrdinalEncoder", "dtype"): [np.float32, np.int32],
    ("OrdinalEncoder", "encoded_missing_value"): [-2, np.nan],
    ("OrdinalEncoder", "unknown_value"): [-1, np.nan],
    ("TargetEncoder", "categories"): [[list(range(9))] * WIDTH],
    ("Pipeline", "steps"): [
        [REDUCE],
        [SCALE, ("none", "passthrough"), REDUCE],
        [SCALE, ("linear", linear_model.Ridge())],
        [SCALE, ("tree", tree.DecisionTreeClassifier())],
    ],
    ("Pipeline", "transform_input"): [["X_val"]],
    ("OrthogonalMatchingPursuitCV", "max_iter"): [3],
    ("PolynomialFeatures", "degree"): [1, 3, (2, 3), (0, 0)],
    ("QuadraticDiscriminantAnalysis", "shrinkage"): ["auto", 0.5],
    ("RANSACRegressor", "estimator"): [
        linear_model.Ridge(),
        tree.DecisionTreeRegressor(max_depth=2),
    ],
    ("RANSACRegressor", "min_samples"): [9, 0.5],
    ("RANSACRegressor", "is_data_valid"): [lambda x, y: True],
    ("RANSACRegressor", "is_model_valid"): [lambda model, x, y: True],
    ("RANSACRegressor", "loss"): [lambda y, z: np.abs(y - z)],
    ("Ridge", "alpha"): [np.array([0.5])],
    ("RobustScaler", "quantile_range"): [(10.0, 80.0)],
    ("SelectFromModel", "threshold"): ["mean", "median", "0.5*mean", 0.1, -np.inf],
    ("SelectFromModel", "max_features"): [3, lambda x: 2],
    ("SelectKBest", "k"): [0, 1, 5, "all"],
    ("SelectPercentile", "percentile"): [0, 30, 100],
    ("SequentialFeatureSelector", "estimator"): [tree.DecisionTreeClassifier(max_depth=2)],
    ("SimpleImputer", "fill_value"): [7.5, 0],
    ("SimpleImputer", "strategy"): [np.max],
    ("SparseCoder", "dictionary"): [INITIAL],
    ("SplineTransformer", "knots"): [np.linspace(-3, 5, 4)[:, None].repeat(WIDTH, axis=1)],
    ("StackingClassifier", "estimators"): [
        [
            ("a", tree.DecisionTreeClassifier(max_depth=2)),
            ("b", "drop"),
            ("c", linear_model.RidgeClassifier()),
        ]
    ],
    ("StackingRegressor", "estimators"): [
        [("a", tree.DecisionTreeRegressor(max_depth=2)), ("b", "drop"), ("c", linear_model.Ridge())]
    ],
    ("StackingClassifier", "final_estimator"): CLASSIFIERS,
    ("StackingRegressor", "final_estimator"): REGRESSORS,
    ("VotingClassifier", "estimators"): [
        [
            ("a", tree.DecisionTreeClassifier(max_depth=2)),
            ("b", "drop"),
            ("c", linear_model.LogisticRegression()),
        ]
    ],
    ("VotingRegressor", "estimators"): [
        [("a", tree.DecisionTreeRegressor(max_depth=2)), ("b", "drop"), ("c", linear_model.Ridge())]
    ],
    ("VotingClassifier", "weights"): [[1.0, 2.5]],
    ("VotingRegressor", "weights"): [[1.0, 2.5]],
    ("TfidfVectorizer", "dtype"): [np.float32],
    ("TransformedTargetRegressor", "func"): [np.log1p],
    ("TransformedTargetRegressor", "inverse_func"): [np.expm1],
    ("TransformedTargetRegressor", "regressor"): REGRESSORS,
    ("TransformedTargetRegressor", "transformer"): [
        preprocessing.StandardScaler(),
        preprocessing.QuantileTransformer(n_quantiles=20),
        compose.TransformedTargetRegressor,
    ],
    ("TunedThresholdClassifierCV", "thresholds"): [5, np.linspace(0.1, 0.9, 5)],
    ("TunedThresholdClassifierCV", "scoring"): ["accuracy"],
    ("AdaBoostRegressor", "estimator"): REGRESSORS,
    ("BaggingRegressor", "estimator"): REGRESSORS,
    ("MultiOutputRegressor", "estimator"): REGRESSORS,
    ("SelectFromModel", "estimator"): [
        linear_model.LogisticRegression(),
        ensemble.RandomForestClassifier(3, random_state=0),
    ],
    ("RFE", "estimator"): [tree.DecisionTreeClassifier()],
    ("RFECV", "estimator"): [tree.DecisionTreeClassifier()],
}
"""By estimator and parameter; they come before what is shared."""

MADE: dict[tuple[str, str], list[Any]] = {
    ("*", name): made for name, made in (SHARED | {"estimator": CLASSIFIERS}).items()
} | OWN

PREFIT = FrozenEstimator(
    linear_model.LogisticRegression().fit(FITTED, target("three_text")[: len(FITTED)])
)
SEARCHES = [
    ("GridSearchCV", "param_grid"),
    ("HalvingGridSearchCV", "param_grid"),
    ("HalvingRandomSearchCV", "param_distributions"),
    ("RandomizedSearchCV", "param_distributions"),
]
NEEDED: dict[tuple[str, str], dict[str, Any]] = {
    **{(name, "estimator"): {grid: {}} for name, grid in SEARCHES},
    ("FeatureAgglomeration", "distance_threshold"): {"n_clusters": None, "compute_full_tree": True},
    ("GaussianProcessRegressor", "kernel"): {"alpha": 0.1},
    ("DictionaryLearning", "positive_code"): {
        "transform_algorithm": "lasso_cd",
        "fit_algorithm": "cd",
    },
    ("MiniBatchDictionaryLearning", "positive_code"): {
        "transform_algorithm": "lasso_cd",
        "fit_algorithm": "cd",
    },
    ("NMF", "beta_loss"): {"solver": "mu"},
    ("SparseCoder", "positive_code"): {"transform_algorithm": "lasso_cd"},
    ("HalvingGridSearchCV", "resource"): {"max_resources": 50},
    ("HalvingRandomSearchCV", "resource"): {"max_resources": 50},
    ("Isomap", "radius"): {"n_neighbors": None},
    ("KNNImputer", "missing_values"): {"kind": "numbers"},
    ("KernelDensity", "metric_params"): {"metric": "minkowski"},
    ("IterativeImputer", "missing_values"): {"kind": "numbers"},
    ("LinearDiscriminantAnalysis", "covariance_estimator"): {"solver": "lsqr"},
    ("LinearDiscriminantAnalysis", "shrinkage"): {"solver": "lsqr"},
    ("LogisticRegression", "l1_ratio"): {"solver": "saga"},
    ("LogisticRegression", "dual"): {"solver": "liblinear", "y": "two_text"},
    ("LogisticRegressionCV", "dual"): {"solver": "liblinear", "y": "two_text"},
    ("MissingIndicator", "missing_values"): {"kind": "counts"},
    ("Nystroem", "kernel"): {"n_components": 5},
    ("OrdinalEncoder", "handle_unknown"): {"unknown_value": -1},
    ("OrdinalEncoder", "unknown_value"): {"handle_unknown": "use_encoded_value"},
    ("PowerTransformer", "method"): {"kind": "above zero"},
    ("RANSACRegressor", "estimator"): {"min_samples": 9},
    ("QuadraticDiscriminantAnalysis", "covariance_estimator"): {"solver": "eigen"},
    ("QuadraticDiscriminantAnalysis", "shrinkage"): {"solver": "eigen"},
    ("SelectFromModel", "prefit"): {"estimator": PREFIT},
    ("SimpleImputer", "missing_values"): {"kind": "counts"},
    ("TransformedTargetRegressor", "func"): {"inverse_func": np.expm1, "y": "count"},
    ("TransformedTargetRegressor", "inverse_func"): {"func": np.log1p, "y": "count"},
    ("TunedThresholdClassifierCV", "refit"): {"cv": 0.5},
}
"""Other parameters, target (``y``) or kind of data without which the source fits no other value
of a parameter, or answers with few digits.
"""
