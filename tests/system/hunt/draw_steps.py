"""Steps of a pipeline, drawn at random: tables by what a step does to its columns.

A seed draws the same pipeline until a table changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hunt.dice import Dice
from sklearn.cluster import Birch, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import (
    PCA,
    FactorAnalysis,
    FastICA,
    IncrementalPCA,
    KernelPCA,
    TruncatedSVD,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, RandomTreesEmbedding
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import (
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
)
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
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
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

__all__ = [
    "draw_encoder",
    "draw_imputer",
    "draw_simple_step",
    "draw_step",
    "draw_vectorizer",
]

Maker = Callable[[Dice], Any]

SCALERS: tuple[Maker, ...] = (
    lambda dice: StandardScaler(with_mean=dice.chance(0.8), with_std=dice.chance(0.8)),
    lambda dice: MinMaxScaler(feature_range=dice.pick((0, 1), (-1, 2)), clip=dice.chance(0.5)),
    lambda dice: MaxAbsScaler(),
    lambda dice: RobustScaler(unit_variance=dice.chance(0.3)),
    lambda dice: Normalizer(dice.pick("l1", "l2", "max")),
    lambda dice: Binarizer(threshold=dice.pick(0, 0.5, -0.3)),
    lambda dice: StandardScaler(),
    lambda dice: MinMaxScaler(),
    lambda dice: RobustScaler(),
    lambda dice: "passthrough",
)

FUNCTIONS: tuple[Maker, ...] = (
    lambda dice: PolynomialFeatures(
        2, interaction_only=dice.chance(0.5), include_bias=dice.chance(0.5)
    ),
    lambda dice: KBinsDiscretizer(
        dice.pick(2, 4),
        encode=dice.pick("ordinal", "onehot", "onehot-dense"),
        strategy=dice.pick("uniform", "quantile", "kmeans"),
        quantile_method=dice.pick("linear", "averaged_inverted_cdf"),
    ),
    lambda dice: SplineTransformer(
        n_knots=dice.pick(3, 5),
        degree=dice.pick(1, 2, 3),
        extrapolation=dice.pick("constant", "linear", "continue", "periodic", "error"),
    ),
    lambda dice: PowerTransformer(standardize=dice.chance(0.5)),
    lambda dice: QuantileTransformer(
        n_quantiles=dice.pick(10, 50), output_distribution=dice.pick("uniform", "normal")
    ),
    lambda dice: FunctionTransformer(
        dice.pick(np.log1p, np.abs, np.sqrt, np.sign, np.tanh, np.square)
    ),
)

PROJECTIONS: tuple[Maker, ...] = (
    lambda dice: PCA(dice.pick(1, 2, 0.9), whiten=dice.chance(0.3)),
    lambda dice: TruncatedSVD(1),
    lambda dice: FastICA(1),
    lambda dice: FactorAnalysis(1),
    lambda dice: IncrementalPCA(1),
    lambda dice: KernelPCA(2, kernel=dice.pick("rbf", "poly", "linear")),
    lambda dice: PLSRegression(1),
    lambda dice: LinearDiscriminantAnalysis(n_components=1),
    lambda dice: GaussianRandomProjection(3),
    lambda dice: SparseRandomProjection(3),
    lambda dice: RBFSampler(n_components=5),
    lambda dice: Nystroem(n_components=4),
)

SELECTIONS: tuple[Maker, ...] = (
    lambda dice: VarianceThreshold(),
    lambda dice: SelectKBest(k=1),
    lambda dice: SelectPercentile(percentile=60),
    lambda dice: SelectFromModel(ExtraTreesClassifier(5)),
)

GROUPS: tuple[Maker, ...] = (
    lambda dice: KMeans(3, n_init=1),
    lambda dice: Birch(n_clusters=2),
    lambda dice: RandomTreesEmbedding(4, max_depth=3, sparse_output=dice.chance(0.5)),
)

BRANCHES: tuple[Maker, ...] = (
    lambda dice: FeatureUnion(
        [("a", draw_simple_step(dice)), ("b", draw_simple_step(dice))],
        transformer_weights=dice.pick(None, {"a": 2.0}),
    ),
    lambda dice: FeatureUnion(
        [
            ("p", "passthrough"),
            ("q", Pipeline([("s", draw_simple_step(dice)), ("k", draw_simple_step(dice))])),
        ]
    ),
    lambda dice: ColumnTransformer(
        [
            ("x", draw_simple_step(dice), [0]),
            ("y", dice.pick("drop", "passthrough", draw_simple_step(dice)), slice(1, None)),
        ],
        remainder=dice.pick("drop", "passthrough"),
        sparse_threshold=dice.pick(0, 0.3, 1.0),
    ),
)

IMPUTERS: tuple[Maker, ...] = (
    lambda dice: SimpleImputer(
        strategy=dice.pick("mean", "median", "most_frequent"),
        add_indicator=dice.chance(0.4),
        keep_empty_features=True,
    ),
    lambda dice: SimpleImputer(strategy="constant", fill_value=dice.pick(0, -1, 1e3)),
    lambda dice: KNNImputer(n_neighbors=dice.pick(1, 3)),
)

SIMPLE_STEPS: tuple[Maker, ...] = (
    lambda dice: StandardScaler(),
    lambda dice: MinMaxScaler(),
    lambda dice: RobustScaler(),
    lambda dice: PCA(1),
    lambda dice: PolynomialFeatures(2),
    lambda dice: QuantileTransformer(n_quantiles=10),
    lambda dice: KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
    lambda dice: Binarizer(),
    lambda dice: VarianceThreshold(),
    lambda dice: Normalizer(),
)
"""What stands inside others."""

ENCODERS: tuple[Maker, ...] = (
    lambda dice: OneHotEncoder(
        handle_unknown=dice.pick("ignore", "infrequent_if_exist"),
        min_frequency=dice.pick(None, 5),
        sparse_output=dice.chance(0.5),
    ),
    lambda dice: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    lambda dice: TargetEncoder(cv=2),
    lambda dice: OneHotEncoder(drop=dice.pick(None, "first", "if_binary")),
)

VECTORIZERS: tuple[Maker, ...] = (
    lambda dice: TfidfVectorizer(
        ngram_range=dice.pick((1, 1), (1, 2)),
        sublinear_tf=dice.chance(0.4),
        norm=dice.pick("l1", "l2", None),
        strip_accents=dice.pick(None, "ascii", "unicode"),
        lowercase=dice.chance(0.7),
        analyzer=dice.pick("word", "char", "char_wb"),
    ),
    lambda dice: CountVectorizer(
        binary=dice.chance(0.5),
        min_df=dice.pick(1, 2),
        token_pattern=dice.pick(r"(?u)\b\w\w+\b", r"\S+"),
    ),
    lambda dice: HashingVectorizer(n_features=16, alternate_sign=dice.chance(0.5)),
)

STEPS = (
    *SCALERS,
    *FUNCTIONS,
    *PROJECTIONS,
    *SELECTIONS,
    *GROUPS,
    *BRANCHES,
    *IMPUTERS,
)


def draw_step(dice: Dice) -> Any:
    """Draw a step for columns of numbers."""
    return dice.pick(*STEPS)(dice)


def draw_simple_step(dice: Dice) -> Any:
    """Draw a step that reads any finite numbers, one column of them too."""
    return dice.pick(*SIMPLE_STEPS)(dice)


def draw_imputer(dice: Dice) -> Any:
    """Draw an imputer of numbers."""
    return dice.pick(*IMPUTERS)(dice)


def draw_encoder(dice: Dice) -> Any:
    """Draw an encoder of categories, behind an imputer of texts or not."""
    encoder = dice.pick(*ENCODERS)(dice)
    if dice.chance(0.6):
        return encoder
    strategy = dice.pick("most_frequent", "constant")
    imputer = SimpleImputer(strategy=strategy, fill_value="zz")
    return Pipeline([("i", imputer), ("e", encoder)])


def draw_vectorizer(dice: Dice) -> Any:
    """Draw a vectorizer of texts."""
    return dice.pick(*VECTORIZERS)(dice)
