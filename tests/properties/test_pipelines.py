"""Random pipelines over a mixed table, fitted and converted: the source's answers on every
backend, one row as in a batch.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn import ensemble, linear_model, neural_network, svm, tree
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sources import compared
from xgboost import XGBClassifier, XGBRegressor

import hbconv

SCALERS = (
    StandardScaler, RobustScaler, MaxAbsScaler, lambda: MinMaxScaler(clip=True),
    lambda: Normalizer("max"), lambda: Normalizer("l1"),
    lambda: Binarizer(threshold=0.2), lambda: PolynomialFeatures(2),
    lambda: PolynomialFeatures(2, interaction_only=True),
    lambda: KBinsDiscretizer(4, encode="onehot-dense"), lambda: FunctionTransformer(np.abs),
    lambda: VarianceThreshold(1e-9),
)  # fmt: skip
ENCODERS = (
    OrdinalEncoder, lambda: OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    lambda: OneHotEncoder(drop="first", sparse_output=False),
    lambda: OneHotEncoder(min_frequency=60, handle_unknown="infrequent_if_exist", sparse_output=False),
)  # fmt: skip
OF_INTS = ("passthrough", StandardScaler(), OrdinalEncoder(), KBinsDiscretizer(3, encode="ordinal"))
REDUCERS = (lambda: SelectKBest(k=3), lambda: SelectPercentile(percentile=60), StandardScaler)
# A product of matrices adds in an order of the BLAS's own. Fitted on it, a tree can put a
# threshold between two roundings of one
# number, which nobody else's sum then meets: projections stand before smooth models only.
PROJECTIONS = (lambda: PCA(2), lambda: TruncatedSVD(2))
SMOOTH = ("sklearn.linear_model", "sklearn.svm", "sklearn.neural_network")
CLASSIFIERS = (
    lambda: linear_model.LogisticRegression(max_iter=300),
    lambda: linear_model.SGDClassifier(loss="modified_huber"), svm.LinearSVC,
    lambda: neural_network.MLPClassifier((8,), max_iter=20), tree.DecisionTreeClassifier,
    lambda: ensemble.RandomForestClassifier(15),
    lambda: ensemble.ExtraTreesClassifier(10),
    lambda: ensemble.GradientBoostingClassifier(n_estimators=8),
    lambda: ensemble.HistGradientBoostingClassifier(max_iter=8),
    lambda: LGBMClassifier(n_estimators=10, verbose=-1), lambda: XGBClassifier(n_estimators=10),
)  # fmt: skip
REGRESSORS = (
    linear_model.LinearRegression, linear_model.Ridge, lambda: linear_model.Lasso(0.1),
    lambda: neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=20),
    tree.DecisionTreeRegressor,
    lambda: ensemble.RandomForestRegressor(15),
    lambda: ensemble.GradientBoostingRegressor(n_estimators=8),
    lambda: ensemble.HistGradientBoostingRegressor(max_iter=8),
    lambda: LGBMRegressor(n_estimators=10, verbose=-1), lambda: XGBRegressor(n_estimators=10),
)  # fmt: skip


def table(rng, rows=300):
    columns = {
        "a": np.where(rng.random(rows) < 0.15, np.nan, rng.normal(size=rows)),
        "b": rng.gamma(2, 3, rows), "f": rng.normal(size=rows).astype(np.float32),
        "i": rng.integers(0, 6, rows), "j": rng.integers(-3, 3, rows),
        "s": rng.choice(["x", "y", "zé", "w"], rows), "t": rng.choice(["p", "q"], rows),
    }  # fmt: skip
    return pd.DataFrame(columns)


def pipeline(rng):
    """Draw an unfitted pipeline, and whether it classifies."""

    def pick(choices):
        return choices[rng.integers(len(choices))]()

    def some(columns):
        return rng.permutation(columns).tolist()[: rng.integers(1, len(columns) + 1)]

    scale = [pick(SCALERS) for _ in range(rng.integers(0, 3))]
    parts = [
        (
            make_pipeline(
                SimpleImputer(strategy="median", add_indicator=bool(rng.integers(2))), *scale
            ),
            some(["a", "b", "f"]),
        ),
        (pick(ENCODERS), some(["s", "t"])),
        (OF_INTS[rng.integers(len(OF_INTS))], some(["i", "j"])),
    ]
    classifies = bool(rng.integers(2))
    model = pick(CLASSIFIERS if classifies else REGRESSORS)
    reducers = (*REDUCERS, *PROJECTIONS) if type(model).__module__.startswith(SMOOTH) else REDUCERS
    reduce = [pick(reducers)] if rng.random() < 0.5 else []
    return make_pipeline(
        make_column_transformer(*parts, sparse_threshold=0), *reduce, model
    ), classifies


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.share("sweep")
def test_random_pipelines(seed, backend):
    rng = np.random.default_rng(seed)
    rows, (estimator, classifies) = table(rng), pipeline(rng)
    np.random.seed(seed)  # noqa: NPY002 - estimators without a random_state draw from it
    score = (rows.b + rows.i * 2 + rows.f * 3).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # too few iterations, constant columns: the fit is not what is tested
        estimator.fit(
            rows, np.digitize(score, np.quantile(score, [0.3, 0.6])) if classifies else score
        )
        model = hbconv.convert(estimator, backend=backend)
        report = hbconv.verify(estimator, model, rows)
    assert report.ok, f"{estimator}\n{report}"
    for method in set(compared(model)) - {"predict_log_proba"}:
        one, batch = (np.asarray(getattr(model, method)(x))[0] for x in (rows[7:8], rows[7:]))
        np.testing.assert_allclose(
            one, batch, rtol=1e-6 if batch.dtype == np.float32 else 1e-9, atol=1e-12
        )
