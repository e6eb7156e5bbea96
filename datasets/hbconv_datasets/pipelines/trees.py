"""Pipelines that end in trees."""

from __future__ import annotations

from typing import Any

from lightgbm import LGBMClassifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
)
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

from hbconv_datasets.pipelines.tables import CATEGORIES, NUMBERS

MOST_DEPTH = 8


def lightgbm(trees: int) -> Any:
    """Return LightGBM with its default size of trees."""
    return LGBMClassifier(n_estimators=trees, num_leaves=31, verbose=-1, n_jobs=1)


def random_forest(trees: int) -> Any:
    """Return a random forest of bounded depth."""
    return RandomForestClassifier(trees, max_depth=MOST_DEPTH, random_state=0)


def histogram_boosting(trees: int) -> Any:
    """Return scikit-learn's histogram boosting."""
    return HistGradientBoostingClassifier(max_iter=trees, random_state=0)


def impute_and_scale() -> Any:
    """Fill holes with medians, then scale."""
    return make_pipeline(SimpleImputer(strategy="median"), StandardScaler())


def one_hot() -> Any:
    """Encode categories as columns; unknown ones are zeros."""
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False)


def by_column(encoder: Any) -> Any:
    """Impute and scale the numbers, and encode the text."""
    return make_column_transformer((impute_and_scale(), list(NUMBERS)), (encoder, list(CATEGORIES)))


def imputed_lightgbm(trees: int) -> Any:
    """Impute, scale, LightGBM."""
    return make_pipeline(impute_and_scale(), lightgbm(trees))


def imputed_histogram_boosting(trees: int) -> Any:
    """Impute, scale, histogram boosting."""
    return make_pipeline(impute_and_scale(), histogram_boosting(trees))


def imputed_forest(trees: int) -> Any:
    """Impute, scale, random forest."""
    return make_pipeline(impute_and_scale(), random_forest(trees))


def one_hot_lightgbm(trees: int) -> Any:
    """Scale numbers, one-hot encode text, LightGBM."""
    return make_pipeline(by_column(one_hot()), lightgbm(trees))


def ordinal_lightgbm(trees: int) -> Any:
    """Scale numbers, number the categories, LightGBM."""
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(by_column(encoder), lightgbm(trees))


def target_encoded_forest(trees: int) -> Any:
    """Scale numbers, encode text by the target, random forest."""
    return make_pipeline(by_column(TargetEncoder(random_state=0)), random_forest(trees))


def binned_lightgbm(trees: int) -> Any:
    """Cut each column into numbered bins, LightGBM."""
    return make_pipeline(KBinsDiscretizer(32, encode="ordinal"), lightgbm(trees))


def projected_forest(trees: int) -> Any:
    """Scale, project on principal axes, random forest."""
    return make_pipeline(StandardScaler(), PCA(8), random_forest(trees))


def three_branches(trees: int) -> Any:
    """Scale, power-transform and one-hot encode, select columns, LightGBM."""
    power = make_pipeline(SimpleImputer(), PowerTransformer())
    branches = ColumnTransformer(
        [
            ("scaled", impute_and_scale(), list(NUMBERS[:8])),
            ("power", power, list(NUMBERS[8:12])),
            ("encoded", one_hot(), list(CATEGORIES)),
        ],
        remainder="passthrough",
    )
    return make_pipeline(branches, SelectKBest(f_classif, k=40), lightgbm(trees))


def calibrated(trees: int) -> Any:
    """Calibrate five fits of scaler and LightGBM."""
    return CalibratedClassifierCV(make_pipeline(StandardScaler(), lightgbm(trees)), cv=5)


def stacked(trees: int) -> Any:
    """Stack two random forests and LightGBM under a logistic regression."""
    half = max(1, trees // 2)
    extra = ExtraTreesClassifier(half, max_depth=MOST_DEPTH, random_state=0)
    members = [("forest", random_forest(half)), ("extra", extra), ("lgbm", lightgbm(trees))]
    stack = StackingClassifier(members, LogisticRegression(), cv=3)
    return make_pipeline(StandardScaler(), stack)


def many_lightgbms(trees: int) -> Any:
    """Fit one LightGBM for each of five targets."""
    each = lightgbm(max(1, trees // 2))
    return make_pipeline(StandardScaler(), MultiOutputClassifier(each))


def quantile_xgboost(trees: int) -> Any:
    """Map columns on their quantiles, XGBoost."""
    quantiles = QuantileTransformer(n_quantiles=200, random_state=0)
    return make_pipeline(quantiles, XGBClassifier(n_estimators=trees, max_depth=6, n_jobs=1))


def power_histogram_boosting(trees: int) -> Any:
    """Impute with means, power-transform, histogram boosting."""
    return make_pipeline(SimpleImputer(), PowerTransformer(), histogram_boosting(trees))


def one_versus_rest(trees: int) -> Any:
    """Scale to a range and clip, one LightGBM for each of three classes."""
    each = lightgbm(max(1, trees // 2))
    return make_pipeline(MinMaxScaler(clip=True), OneVsRestClassifier(each))


def bagged_trees(trees: int) -> Any:
    """Bag pipelines of imputer, scaler and one tree."""
    tree = make_pipeline(impute_and_scale(), DecisionTreeClassifier(max_depth=MOST_DEPTH))
    return BaggingClassifier(tree, n_estimators=max(2, trees // 10), random_state=0)
