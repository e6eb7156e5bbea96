"""Estimators around others: voting, stacking, calibration, strategies for several classes and targets, thresholds, dummies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import lightgbm
import numpy as np
import xgboost
from matrix.case import Case
from matrix.data import fit_rows, rows, target
from sklearn import (
    calibration,
    clone,
    compose,
    dummy,
    ensemble,
    frozen,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    multioutput,
    pipeline,
    preprocessing,
    semi_supervised,
    svm,
    tree,
)

MODERATE = partial(rows, large=30.0)
LOGISTIC = linear_model.LogisticRegression(max_iter=50)
RIDGE, LINEAR = linear_model.Ridge(), linear_model.LinearRegression()
TREE, REGRESSION_TREE = (
    tree.DecisionTreeClassifier(max_depth=3, random_state=0),
    tree.DecisionTreeRegressor(max_depth=3, random_state=0),
)
LIGHT = partial(lightgbm.LGBMClassifier, n_estimators=4, num_leaves=5, verbosity=-1, n_jobs=1)
XGB = partial(xgboost.XGBClassifier, n_estimators=4, max_depth=3, n_jobs=1)


def fit(estimator: Any, y: str) -> Callable[[], Any]:
    """Return a function that fits the estimator to a target."""
    return lambda: estimator.fit(fit_rows(), target(y))


def voting() -> Iterator[Case]:
    """Means and votes."""
    case, members = (
        partial(Case, "sklearn.ensemble.VotingClassifier"),
        [("linear", LOGISTIC), ("tree", TREE), ("light", LIGHT())],
    )
    yield case("soft", fit(ensemble.VotingClassifier(members, voting="soft"), "three_text"))
    yield case("hard", fit(ensemble.VotingClassifier(members), "three_text"))
    weighted = ensemble.VotingClassifier(
        [*members, ("none", "drop"), ("xgb", XGB())], voting="soft", weights=[0.1, 2, 3, 7, 0.3]
    )
    yield case("soft, weights, drop, xgboost", fit(weighted, "two_bool"), kind="float32 inside")
    yield case(
        "hard, weights", fit(ensemble.VotingClassifier(members, weights=[0.1, 0.2, 0.3]), "two")
    )
    of_xgb = ensemble.VotingClassifier([("a", XGB()), ("b", XGB(max_depth=2))], voting="soft")
    yield case("soft, float32", fit(of_xgb, "three"), kind="trees")
    case, members = (
        partial(Case, "sklearn.ensemble.VotingRegressor"),
        [("linear", RIDGE), ("tree", REGRESSION_TREE)],
    )
    yield case("mean", fit(ensemble.VotingRegressor(members), "value"))
    yield case(
        "weights, drop",
        fit(ensemble.VotingRegressor([*members, ("none", "drop")], weights=[1, 2.5, 3]), "value"),
    )
    boosters = [
        ("a", xgboost.XGBRegressor(n_estimators=3, n_jobs=1)),
        ("b", xgboost.XGBRegressor(n_estimators=2, n_jobs=1)),
    ]
    yield case("float32", fit(ensemble.VotingRegressor(boosters), "value"), kind="trees")


def stacking() -> Iterator[Case]:
    """Every stack_method, the input passed through or not."""
    case, members = (
        partial(Case, "sklearn.ensemble.StackingClassifier"),
        [("linear", LOGISTIC), ("tree", TREE), ("svm", svm.LinearSVC())],
    )
    yield case("three text", fit(ensemble.StackingClassifier(members, cv=2), "three_text"))
    yield case(
        "two, passthrough",
        fit(ensemble.StackingClassifier(members, LIGHT(), cv=2, passthrough=True), "two_text"),
    )
    for method in ("predict_proba", "decision_function", "predict"):
        some = [("a", LOGISTIC), ("b", linear_model.SGDClassifier("log_loss", random_state=0))]
        yield case(
            method, fit(ensemble.StackingClassifier(some, TREE, cv=2, stack_method=method), "two")
        )
    several = [
        ("tree", TREE),
        ("chain", multioutput.MultiOutputClassifier(LOGISTIC)),
        ("none", "drop"),
    ]
    yield case(
        "several labels",
        fit(ensemble.StackingClassifier(several, TREE, cv=2), "labels"),
        kind="trees",
    )
    yield case(
        "boosters",
        fit(
            ensemble.StackingClassifier([("xgb", XGB()), ("light", LIGHT())], XGB(), cv=2),
            "three_text",
        ),
        kind="float32 inside",
    )
    case, members = (
        partial(Case, "sklearn.ensemble.StackingRegressor"),
        [("linear", RIDGE), ("tree", REGRESSION_TREE), ("none", "drop")],
    )
    yield case("default", fit(ensemble.StackingRegressor(members, cv=2), "value"))
    yield case(
        "passthrough",
        fit(ensemble.StackingRegressor(members, LINEAR, cv=2, passthrough=True), "value"),
    )
    fitted = [
        ("a", xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(fit_rows(), target("value"))),
        ("b", clone(RIDGE).fit(fit_rows(), target("value"))),
    ]
    yield case(
        "prefit, xgboost",
        fit(ensemble.StackingRegressor(fitted, REGRESSION_TREE, cv="prefit"), "value"),
    )


def calibrations() -> Iterator[Case]:
    """Every method, of scores and of probabilities, in two and three classes."""
    case, make = (
        partial(Case, "sklearn.calibration.CalibratedClassifierCV"),
        partial(calibration.CalibratedClassifierCV, cv=2),
    )
    for method in ("sigmoid", "isotonic", "temperature"):
        yield case(f"{method}, scores, three", fit(make(LOGISTIC, method=method), "three_text"))
        yield case(
            f"{method}, probabilities, two",
            fit(make(LIGHT(), method=method), "two_text"),
            kind="trees",
        )
        yield case(
            f"{method}, scores, two",
            fit(make(svm.LinearSVC(), method=method, ensemble=False), "two_bool"),
        )
        yield case(
            f"{method}, probabilities, three, float32",
            fit(make(XGB(), method=method, ensemble=False), "three"),
            kind="float32 inside",
        )
    held = frozen.FrozenEstimator(clone(LOGISTIC).fit(fit_rows(), target("two")))
    yield case("frozen", fit(make(held), "two"))


def strategies() -> Iterator[Case]:
    """One against the rest, one against one, codes."""
    case = partial(Case, "sklearn.multiclass.OneVsRestClassifier")
    for y in ("three_text", "two_bool", "labels"):
        yield case(f"scores, {y}", fit(multiclass.OneVsRestClassifier(LOGISTIC), y))
        yield case(
            f"probabilities, {y}", fit(multiclass.OneVsRestClassifier(LIGHT()), y), kind="trees"
        )
        yield case(f"float32, {y}", fit(multiclass.OneVsRestClassifier(XGB()), y), kind="trees")
    yield case("regressors", fit(multiclass.OneVsRestClassifier(RIDGE), "three"))
    yield case("regressors of two", fit(multiclass.OneVsRestClassifier(REGRESSION_TREE), "two"))
    case = partial(Case, "sklearn.multiclass.OneVsOneClassifier")
    yield case("scores", fit(multiclass.OneVsOneClassifier(LOGISTIC), "three_text"))
    yield case("scores, two", fit(multiclass.OneVsOneClassifier(svm.LinearSVC()), "two_text"))
    yield case("trees", fit(multiclass.OneVsOneClassifier(TREE), "three"), kind="trees")
    yield case(
        "xgboost, two", fit(multiclass.OneVsOneClassifier(XGB()), "two_bool"), kind="float32 inside"
    )
    yield case(
        "regressors", fit(multiclass.OneVsOneClassifier(REGRESSION_TREE), "three"), kind="trees"
    )
    case = partial(Case, "sklearn.multiclass.OutputCodeClassifier")
    yield case(
        "scores",
        fit(multiclass.OutputCodeClassifier(LOGISTIC, code_size=3, random_state=0), "three_text"),
    )
    yield case(
        "probabilities",
        fit(multiclass.OutputCodeClassifier(TREE, code_size=4, random_state=1), "three"),
        kind="trees",
    )


def targets() -> Iterator[Case]:
    """Several targets, side by side and in chains."""
    case = partial(Case, "sklearn.multioutput.MultiOutputClassifier")
    yield case("probabilities", fit(multioutput.MultiOutputClassifier(LOGISTIC), "labels"))
    texts = np.stack([target("three_text"), target("two_text")], axis=1)
    yield case(
        "text", lambda: multioutput.MultiOutputClassifier(TREE).fit(fit_rows(), texts), kind="trees"
    )
    yield case(
        "no probabilities", fit(multioutput.MultiOutputClassifier(svm.LinearSVC()), "labels")
    )
    yield case("xgboost", fit(multioutput.MultiOutputClassifier(XGB()), "labels"), kind="trees")
    case = partial(Case, "sklearn.multioutput.MultiOutputRegressor")
    yield case("linear", fit(multioutput.MultiOutputRegressor(RIDGE), "values"))
    yield case(
        "xgboost",
        fit(
            multioutput.MultiOutputRegressor(xgboost.XGBRegressor(n_estimators=3, n_jobs=1)),
            "values",
        ),
        kind="trees",
    )
    case, chain = partial(Case, "sklearn.multioutput.ClassifierChain"), multioutput.ClassifierChain
    yield case("default", fit(chain(LOGISTIC), "labels"))
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        yield case(
            method,
            fit(chain(LOGISTIC, order=[2, 0, 1], chain_method=method, cv=2), "labels"),
            rows=MODERATE,
        )
    yield case(
        "xgboost",
        fit(chain(XGB(), order="random", random_state=1, chain_method="predict_proba"), "labels"),
        kind="float32 inside",
    )
    case = partial(Case, "sklearn.multioutput.RegressorChain")
    yield case("linear", fit(multioutput.RegressorChain(RIDGE, order=[1, 0]), "values"))
    light = lightgbm.LGBMRegressor(n_estimators=3, num_leaves=5, verbosity=-1, n_jobs=1)
    yield case("lightgbm", fit(multioutput.RegressorChain(light), "values"), kind="trees")


def thresholds() -> Iterator[Case]:
    """Moved thresholds."""
    case, make = (
        partial(Case, "sklearn.model_selection.FixedThresholdClassifier"),
        model_selection.FixedThresholdClassifier,
    )
    yield case("automatic", fit(make(LOGISTIC), "two_text"))
    yield case(
        "first class",
        fit(make(LOGISTIC, threshold=0.3, pos_label=3, response_method="decision_function"), "two"),
    )
    yield case("no probabilities", fit(make(svm.LinearSVC(), threshold=-0.2), "two"))
    yield case(
        "xgboost", fit(make(XGB(), threshold=0.4, pos_label=False), "two_bool"), kind="trees"
    )
    case, make = (
        partial(Case, "sklearn.model_selection.TunedThresholdClassifierCV"),
        partial(model_selection.TunedThresholdClassifierCV, cv=2),
    )
    yield case("default", fit(make(LOGISTIC), "two_text"))
    yield case(
        "first class",
        fit(make(TREE, scoring=metrics.make_scorer(metrics.f1_score, pos_label="no")), "two_text"),
        kind="trees",
    )
    yield case(
        "scores",
        fit(
            make(
                LOGISTIC,
                scoring="accuracy",
                response_method="decision_function",
                refit=False,
                cv=0.5,
                random_state=0,
            ),
            "two",
        ),
    )


def transformed() -> Iterator[Case]:
    """Targets transformed by functions and by transformers, of one and two columns."""
    case, make = (
        partial(Case, "sklearn.compose.TransformedTargetRegressor"),
        compose.TransformedTargetRegressor,
    )
    p = preprocessing
    yield case("nothing", fit(make(), "value"))
    for forth, back in ((np.log, np.exp), (np.log1p, np.expm1), (np.sqrt, np.square)):
        yield case(
            back.__name__,
            fit(make(RIDGE, func=forth, inverse_func=back), "positive"),
            rows=MODERATE,
        )
    scalers = (
        p.StandardScaler(),
        p.MinMaxScaler(),
        p.MaxAbsScaler(),
        p.RobustScaler(),
        p.PowerTransformer(),
        p.QuantileTransformer(n_quantiles=20),
    )
    for scaler in (
        *scalers,
        p.QuantileTransformer(n_quantiles=20, output_distribution="normal"),
        p.PowerTransformer(method="box-cox", standardize=False),
    ):
        y, name = (
            "positive" if getattr(scaler, "method", "") == "box-cox" else "value",
            str(scaler).replace("Transformer", ""),
        )
        yield case(name, fit(make(RIDGE, transformer=scaler), y), rows=partial(rows, large=3.0))
    steps = pipeline.make_pipeline(p.StandardScaler(), "passthrough", p.PowerTransformer())
    yield case(
        "pipeline, two targets",
        fit(make(REGRESSION_TREE, transformer=steps), "values"),
        kind="trees",
    )
    yield case(
        "a column",
        lambda: make(LINEAR, transformer=p.StandardScaler()).fit(
            fit_rows(), target("value")[:, None]
        ),
    )
    boosted = xgboost.XGBRegressor(n_estimators=3, n_jobs=1)
    for scaler in (p.StandardScaler(), p.QuantileTransformer(n_quantiles=20), p.PowerTransformer()):
        yield case(
            f"{type(scaler).__name__}, xgboost",
            fit(make(boosted, transformer=scaler), "value"),
            kind="trees",
        )


def others() -> Iterator[Case]:
    """Frozen, self-trained and dummy estimators."""
    case = partial(Case, "sklearn.frozen.FrozenEstimator")
    yield case("logistic", lambda: frozen.FrozenEstimator(fit(clone(LOGISTIC), "three_text")()))
    yield case(
        "forest",
        lambda: frozen.FrozenEstimator(
            fit(ensemble.RandomForestClassifier(3, max_depth=3, random_state=0), "three")()
        ),
        kind="trees",
    )
    yield case("lightgbm", lambda: frozen.FrozenEstimator(fit(LIGHT(), "two_text")()), kind="trees")
    known = np.where(np.arange(200) % 3 > 0, target("three"), -1)
    trained = semi_supervised.SelfTrainingClassifier
    yield Case(
        "sklearn.semi_supervised.SelfTrainingClassifier",
        "logistic",
        lambda: trained(LOGISTIC).fit(fit_rows(), known),
    )
    yield Case(
        "sklearn.semi_supervised.SelfTrainingClassifier",
        "xgboost",
        lambda: trained(XGB(), criterion="k_best").fit(fit_rows(), known),
        kind="trees",
    )
    case, both = (
        partial(Case, "sklearn.dummy.DummyClassifier", kind="elementwise"),
        np.stack([target("three"), target("two")], axis=1),
    )
    for strategy in ("prior", "most_frequent"):
        yield case(strategy, fit(dummy.DummyClassifier(strategy=strategy), "three_text"))
        yield case(
            f"{strategy}, two targets",
            lambda strategy=strategy: dummy.DummyClassifier(strategy=strategy).fit(
                fit_rows(), both
            ),
        )
    yield case(
        "constant", fit(dummy.DummyClassifier(strategy="constant", constant="low"), "three_text")
    )
    yield case(
        "constant, two targets",
        lambda: dummy.DummyClassifier(strategy="constant", constant=[2, 3]).fit(fit_rows(), both),
    )
    case = partial(Case, "sklearn.dummy.DummyRegressor", kind="elementwise")
    yield case("mean", fit(dummy.DummyRegressor(), "value"))
    yield case(
        "quantile, two targets",
        fit(dummy.DummyRegressor(strategy="quantile", quantile=0.2), "values"),
    )
    yield case(
        "constant, whole", fit(dummy.DummyRegressor(strategy="constant", constant=3), "value")
    )


CASES = (
    *voting(),
    *stacking(),
    *calibrations(),
    *strategies(),
    *targets(),
    *thresholds(),
    *transformed(),
    *others(),
)
