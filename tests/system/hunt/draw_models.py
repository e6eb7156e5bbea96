"""Estimators at the end of a pipeline, drawn at random: trees of all libraries, others, and
ensembles of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import catboost
import lightgbm
import numpy as np
import xgboost
from hunt.dice import Dice
from sklearn import linear_model
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    HuberRegressor,
    Lasso,
    LassoLars,
    LinearRegression,
    LogisticRegression,
    OrthogonalMatchingPursuit,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestCentroid
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import PowerTransformer, QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

__all__ = ["draw_classifier", "draw_regressor", "draw_tree_classifier", "draw_tree_regressor"]

Maker = Callable[[Dice], Any]
EnsembleMaker = Callable[[Dice, int], Any]

DEEPEST = 2
"""Ensembles inside one another."""

CATBOOST = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
LIGHTGBM = {"verbose": -1, "min_child_samples": 5, "n_jobs": 1}

TREE_CLASSIFIERS: tuple[Maker, ...] = (
    lambda dice: DecisionTreeClassifier(
        max_depth=dice.pick(None, 1, 3, 6), criterion=dice.pick("gini", "entropy")
    ),
    lambda dice: ExtraTreeClassifier(max_depth=4),
    lambda dice: RandomForestClassifier(dice.pick(1, 5, 17), max_depth=dice.pick(None, 2, 5)),
    lambda dice: ExtraTreesClassifier(7, bootstrap=dice.chance(0.5)),
    lambda dice: GradientBoostingClassifier(
        n_estimators=dice.pick(1, 9),
        max_depth=dice.pick(1, 3),
        init=dice.pick(None, "zero"),
        subsample=dice.pick(1, 0.5),
    ),
    lambda dice: HistGradientBoostingClassifier(
        max_iter=dice.pick(1, 7), max_leaf_nodes=dice.pick(3, 31)
    ),
    lambda dice: IsolationForest(n_estimators=9, contamination=dice.pick("auto", 0.1)),
    lambda dice: lightgbm.LGBMClassifier(
        n_estimators=dice.pick(1, 9),
        num_leaves=dice.pick(2, 7, 31),
        boosting_type=dice.pick("gbdt", "dart", "rf"),
        bagging_freq=1,
        bagging_fraction=0.7,
        zero_as_missing=dice.chance(0.2),
        extra_trees=dice.chance(0.2),
        **LIGHTGBM,
    ),
    lambda dice: xgboost.XGBClassifier(
        n_estimators=dice.pick(1, 9),
        max_depth=dice.pick(1, 3, 6),
        booster=dice.pick("gbtree", "dart", "gblinear"),
        tree_method="hist",
        n_jobs=1,
        missing=dice.pick(np.nan, np.nan, 0.0),
        grow_policy=dice.pick("depthwise", "lossguide"),
        base_score=dice.pick(None, 0.2),
    ),
    lambda dice: catboost.CatBoostClassifier(
        iterations=dice.pick(1, 9),
        depth=dice.pick(1, 3, 6),
        grow_policy=dice.pick("SymmetricTree", "Depthwise", "Lossguide"),
        nan_mode=dice.pick("Min", "Max"),
        **CATBOOST,
    ),
)

TREE_REGRESSORS: tuple[Maker, ...] = (
    lambda dice: DecisionTreeRegressor(max_depth=dice.pick(None, 1, 4)),
    lambda dice: RandomForestRegressor(dice.pick(1, 9)),
    lambda dice: ExtraTreesRegressor(7),
    lambda dice: GradientBoostingRegressor(
        n_estimators=8, loss=dice.pick("squared_error", "huber", "quantile")
    ),
    lambda dice: HistGradientBoostingRegressor(
        max_iter=7, loss=dice.pick("squared_error", "absolute_error")
    ),
    lambda dice: AdaBoostRegressor(DecisionTreeRegressor(max_depth=2), n_estimators=4),
    lambda dice: lightgbm.LGBMRegressor(
        n_estimators=9,
        num_leaves=dice.pick(2, 15),
        objective=dice.pick("regression", "l1", "huber", "quantile", "fair"),
        linear_tree=dice.chance(0.3),
        **LIGHTGBM,
    ),
    lambda dice: xgboost.XGBRegressor(
        n_estimators=9, max_depth=4, n_jobs=1, num_parallel_tree=dice.pick(1, 2)
    ),
    lambda dice: catboost.CatBoostRegressor(iterations=9, depth=4, **CATBOOST),
)

CLASSIFIERS: tuple[Maker, ...] = (
    lambda dice: LogisticRegression(
        C=dice.pick(0.1, 1, 100), fit_intercept=dice.chance(0.8), max_iter=200
    ),
    lambda dice: SGDClassifier(loss=dice.pick("hinge", "log_loss", "modified_huber"), max_iter=50),
    lambda dice: RidgeClassifier(),
    lambda dice: Perceptron(max_iter=20),
    lambda dice: _passive_aggressive()(max_iter=20),
    lambda dice: LinearSVC(),
    lambda dice: SVC(
        kernel=dice.pick("rbf", "poly", "linear", "sigmoid"),
        decision_function_shape=dice.pick("ovo", "ovr"),
    ),
    lambda dice: NuSVC(nu=0.1),
    lambda dice: GaussianNB(),
    lambda dice: BernoulliNB(),
    lambda dice: LinearDiscriminantAnalysis(),
    lambda dice: QuadraticDiscriminantAnalysis(reg_param=0.1),
    lambda dice: KNeighborsClassifier(dice.pick(1, 3, 5), weights=dice.pick("uniform", "distance")),
    lambda dice: NearestCentroid(),
    lambda dice: MLPClassifier(
        (dice.pick(3, 8),), activation=dice.pick("relu", "tanh", "logistic"), max_iter=20
    ),
)

REGRESSORS: tuple[Maker, ...] = (
    lambda dice: LinearRegression(),
    lambda dice: Ridge(alpha=0.3),
    lambda dice: Lasso(alpha=0.01),
    lambda dice: ElasticNet(alpha=0.01),
    lambda dice: HuberRegressor(max_iter=30),
    lambda dice: BayesianRidge(),
    lambda dice: ARDRegression(),
    lambda dice: SGDRegressor(max_iter=30),
    lambda dice: TweedieRegressor(power=0),
    lambda dice: LassoLars(alpha=0.01),
    lambda dice: OrthogonalMatchingPursuit(),
    lambda dice: TheilSenRegressor(max_subpopulation=20),
    lambda dice: SVR(),
    lambda dice: LinearSVR(),
    lambda dice: KernelRidge(kernel=dice.pick("rbf", "linear", "poly")),
    lambda dice: KNeighborsRegressor(dice.pick(1, 4), weights=dice.pick("uniform", "distance")),
    lambda dice: MLPRegressor((5,), max_iter=20),
    lambda dice: PLSRegression(1),
    lambda dice: GaussianProcessRegressor(alpha=0.1),
)

CLASSIFIER_ENSEMBLES: tuple[EnsembleMaker, ...] = (
    lambda dice, depth: VotingClassifier(
        [
            ("a", draw_classifier(dice, DEEPEST)),
            ("b", draw_classifier(dice, depth + 1)),
            ("c", draw_classifier(dice, DEEPEST)),
        ],
        voting=dice.pick("hard", "soft"),
    ),
    lambda dice, depth: StackingClassifier(
        [("a", draw_classifier(dice, DEEPEST)), ("b", draw_classifier(dice, depth + 1))],
        final_estimator=dice.pick(None, draw_classifier(dice, DEEPEST)),
        passthrough=dice.chance(0.4),
        cv=2,
    ),
    lambda dice, depth: CalibratedClassifierCV(
        draw_classifier(dice, depth + 1),
        method=dice.pick("sigmoid", "isotonic"),
        cv=2,
        ensemble=dice.chance(0.5),
    ),
    lambda dice, depth: BaggingClassifier(
        draw_classifier(dice, DEEPEST), 3, max_features=dice.pick(1.0, 0.6)
    ),
    lambda dice, depth: AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=dice.pick(1, 2)), n_estimators=4
    ),
    lambda dice, depth: OneVsRestClassifier(draw_classifier(dice, DEEPEST)),
    lambda dice, depth: OneVsOneClassifier(draw_classifier(dice, DEEPEST)),
    lambda dice, depth: OutputCodeClassifier(draw_classifier(dice, DEEPEST)),
    lambda dice, depth: FixedThresholdClassifier(draw_classifier(dice, DEEPEST), threshold=0.3),
    lambda dice, depth: GridSearchCV(draw_classifier(dice, DEEPEST), {}, cv=2),
)

REGRESSOR_ENSEMBLES: tuple[EnsembleMaker, ...] = (
    lambda dice, depth: VotingRegressor(
        [("a", draw_regressor(dice, DEEPEST)), ("b", draw_regressor(dice, depth + 1))],
        weights=dice.pick(None, [1, 3]),
    ),
    lambda dice, depth: StackingRegressor(
        [("a", draw_regressor(dice, DEEPEST)), ("b", draw_regressor(dice, depth + 1))],
        final_estimator=dice.pick(None, draw_tree_regressor(dice)),
        passthrough=dice.chance(0.4),
        cv=2,
    ),
    lambda dice, depth: BaggingRegressor(draw_regressor(dice, DEEPEST), 3),
    lambda dice, depth: TransformedTargetRegressor(
        draw_regressor(dice, DEEPEST),
        transformer=dice.pick(
            StandardScaler(), QuantileTransformer(n_quantiles=20), PowerTransformer(), None
        ),
    ),
)


def _passive_aggressive() -> Any:
    """Return the class, which scikit-learn 1.10 removes, or else another linear one."""
    return getattr(linear_model, "PassiveAggressiveClassifier", Perceptron)


KINDS_OF_CLASSIFIERS = ("tree",) * 16 + ("other",) * len(CLASSIFIERS)
KINDS_OF_REGRESSORS = ("tree",) * 12 + ("other",) * len(REGRESSORS)


def draw_classifier(dice: Dice, depth: int = 0) -> Any:
    """Draw a classifier: a third are trees, and a third are ensembles where these may stand."""
    ensembles = ("ensemble",) * (2 * len(CLASSIFIER_ENSEMBLES)) * (depth < DEEPEST)
    kind = dice.pick(*KINDS_OF_CLASSIFIERS, *ensembles)
    if kind == "tree":
        return draw_tree_classifier(dice)
    if kind == "ensemble":
        return dice.pick(*CLASSIFIER_ENSEMBLES)(dice, depth)
    return dice.pick(*CLASSIFIERS)(dice)


def draw_regressor(dice: Dice, depth: int = 0) -> Any:
    """Draw a regressor, of trees, of ensembles and of others alike."""
    ensembles = ("ensemble",) * (3 * len(REGRESSOR_ENSEMBLES)) * (depth < DEEPEST)
    kind = dice.pick(*KINDS_OF_REGRESSORS, *ensembles)
    if kind == "tree":
        return draw_tree_regressor(dice)
    if kind == "ensemble":
        return dice.pick(*REGRESSOR_ENSEMBLES)(dice, depth)
    return dice.pick(*REGRESSORS)(dice)


def draw_tree_classifier(dice: Dice) -> Any:
    """Draw trees that classify, or that tell outliers."""
    return dice.pick(*TREE_CLASSIFIERS)(dice)


def draw_tree_regressor(dice: Dice) -> Any:
    """Draw trees that answer numbers."""
    return dice.pick(*TREE_REGRESSORS)(dice)
