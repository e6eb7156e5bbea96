"""LightGBM, XGBoost and CatBoost inside every estimator around others."""

import warnings
from collections.abc import Iterator

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sources import dense, methods, quietly

import hbconv
from hbconv.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 4))
ROWS = np.where(RNG.random((80, 4)) < 0.1, np.nan, RNG.standard_normal((80, 4)))
VALUE = X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(150)
VALUES = np.stack([VALUE, X[:, 2] + X[:, 3]], axis=1)
THREE = np.array(["ash", "birch", "cedar"])[np.digitize(VALUE, [-1, 1])]
TWO = np.where(VALUE > 0, "yes", "no")
LABELS = np.stack([VALUE > 0, X[:, 2] > 0.5, VALUE > 1], axis=1).astype(int)
SOME_UNKNOWN = np.where(np.arange(150) % 3, np.digitize(VALUE, [-1, 1]), -1)

CLASSIFIERS = {
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, num_leaves=5, verbosity=-1, n_jobs=1),
    "xgboost": xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1),
    "catboost": catboost.CatBoostClassifier(
        iterations=3, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ),
}
REGRESSORS = {
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=3, num_leaves=5, verbosity=-1, n_jobs=1),
    "xgboost": xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1),
    "catboost": catboost.CatBoostRegressor(
        iterations=3, depth=3, verbose=0, thread_count=1, allow_writing_files=False
    ),
}

AROUND_CLASSIFIERS = {
    "calibration": (lambda b: CalibratedClassifierCV(b, cv=2), TWO),
    "thresholds": (lambda b: FixedThresholdClassifier(b, threshold=0.3), TWO),
    "tuned": (lambda b: TunedThresholdClassifierCV(b, cv=2), TWO),
    "voting hard": (lambda b: VotingClassifier([("a", b), ("b", LogisticRegression())]), None),
    "stacking": (
        lambda b: StackingClassifier([("a", b), ("b", LogisticRegression())], b, cv=2),
        None,
    ),
    "calibrated isotonic": (lambda b: CalibratedClassifierCV(b, cv=2, method="isotonic"), TWO),
    "one against one": (OneVsOneClassifier, None),
    "codes": (lambda b: OutputCodeClassifier(b, random_state=0), None),
    "one against the rest": (OneVsRestClassifier, None),
    "search": (lambda b: GridSearchCV(b, {"learning_rate": [0.1]}, cv=2), None),
    "bagging": (
        lambda b: BaggingClassifier(b, n_estimators=2, max_features=3, random_state=0),
        None,
    ),
    "boosting": (lambda b: AdaBoostClassifier(b, n_estimators=2, random_state=0), None),
    "pipeline": (lambda b: make_pipeline(StandardScaler(), FrozenEstimator(b)), TWO),
    "elimination": (lambda b: RFE(b, n_features_to_select=2), TWO),
    "selection": (lambda b: make_pipeline(SelectFromModel(b), LogisticRegression()), None),
    "self-training": (lambda b: SelfTrainingClassifier(b, max_iter=1), SOME_UNKNOWN),
    "several targets": (MultiOutputClassifier, LABELS),
    "chain": (lambda b: ClassifierChain(b, chain_method="predict_proba"), LABELS),
    "several labels": (OneVsRestClassifier, LABELS),
}
AROUND_REGRESSORS = {
    "voting": (lambda b: VotingRegressor([("a", b), ("b", Ridge())]), VALUE),
    "stacking": (
        lambda b: StackingRegressor([("a", b), ("b", Ridge())], b, cv=2, passthrough=True),
        VALUE,
    ),
    "several targets": (MultiOutputRegressor, VALUES),
    "chain": (RegressorChain, VALUES),
    "target": (
        lambda b: TransformedTargetRegressor(b, transformer=QuantileTransformer(n_quantiles=20)),
        VALUE,
    ),
    "bagging": (lambda b: BaggingRegressor(b, n_estimators=2, random_state=0), VALUE),
    "boosting": (lambda b: AdaBoostRegressor(b, n_estimators=2, random_state=0), VALUE),
}


def codes(labels):
    """Labels as XGBoost takes them."""
    return np.unique(labels, return_inverse=True)[1] if labels.dtype.kind == "U" else labels


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def assert_agrees(model, rows):
    """Every method of the source, within what float32 inside explains; XGBoost's results are of
    float32.
    """
    converted = hbconv.convert(model, backend="reference")
    for method in (m for m in methods(model) if m in converted.methods):
        want = quietly(model, method, rows)
        got = getattr(converted, method)(rows)
        assert isinstance(got, list | Iterator) == isinstance(want, list), method
        got = dense(got)
        want = dense(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), method
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7, err_msg=method)
        else:
            np.testing.assert_array_equal(got, want, err_msg=method)
    assert "predict" in converted.methods


@pytest.mark.parametrize("around", AROUND_CLASSIFIERS)
@pytest.mark.parametrize("library", CLASSIFIERS)
def test_classifiers(library, around):
    make, y = AROUND_CLASSIFIERS[around]
    of_columns = library == "catboost" and around in (
        "voting hard",
        "boosting",
    )  # CatBoost's labels of three classes are a column
    y = (TWO if of_columns else THREE) if y is None else y
    missing = not around.startswith(
        ("stacking", "voting", "chain", "selection", "boosting", "pipeline")
    )
    y = codes(y) if library == "xgboost" else y
    model = fit(
        make(fit(CLASSIFIERS[library], X, y) if around == "pipeline" else CLASSIFIERS[library]),
        X,
        y,
    )
    assert_agrees(model, ROWS if missing else np.nan_to_num(ROWS))


@pytest.mark.parametrize("around", AROUND_REGRESSORS)
@pytest.mark.parametrize("library", REGRESSORS)
def test_regressors(library, around):
    make, y = AROUND_REGRESSORS[around]
    assert_agrees(fit(make(REGRESSORS[library]), X, y), np.nan_to_num(ROWS).astype(np.float32))


@pytest.mark.parametrize("voting", ["soft", "hard"])
@pytest.mark.parametrize("first", ["lightgbm", "xgboost", "linear"])
def test_columns_by_the_names_that_scikit_learn_gives_them(first, voting):
    """LightGBM puts underscores for spaces, and XGBoost keeps names of its own; a table is read
    as the strictest member reads it.
    """
    frame = pd.DataFrame(X, columns=["the age", "f1", "f10", "leaf"])
    members = {
        "lightgbm": CLASSIFIERS["lightgbm"],
        "xgboost": CLASSIFIERS["xgboost"],
        "linear": LogisticRegression(),
    }
    names = [first, *(name for name in members if name != first)]
    model = fit(
        VotingClassifier([(name, members[name]) for name in names], voting=voting), frame, THREE
    )
    rows = pd.DataFrame(np.nan_to_num(ROWS), columns=frame.columns)
    assert_agrees(model, rows)
    converted = hbconv.convert(model, backend="reference")
    with pytest.raises(InputError, match="another order"):
        converted.predict(rows[rows.columns[::-1]])
    np.testing.assert_array_equal(
        converted.predict(dict(rows[rows.columns[::-1]])), converted.predict(rows)
    )


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_whole_numbers_are_read_as_the_strictest_member_reads_them(library):
    """LightGBM alone reads an array of ints as float32, a linear model beside it does not."""
    x = (X * 10).astype(np.int64)
    rows = np.array([[2**24 + 1, 1, 2, 3], [1, 2, 3, 4]])
    both = fit(VotingRegressor([("a", REGRESSORS[library]), ("b", Ridge())]), x, VALUE)
    assert_agrees(both, rows)
    assert_agrees(fit(VotingRegressor([("a", REGRESSORS[library])]), x, VALUE), rows)
