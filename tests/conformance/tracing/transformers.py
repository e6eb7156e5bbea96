"""Transformers of users' own, as notebooks write them, over arrays and over frames."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_array, check_is_fitted, validate_data


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self


class QuantileClipper(Own):
    def __init__(self, lower=0.01, upper=0.99):
        self.lower = lower
        self.upper = upper

    def fit(self, X, y=None):
        self.lower_ = np.nanquantile(X, self.lower, axis=0)
        self.upper_ = np.nanquantile(X, self.upper, axis=0)
        return self

    def transform(self, X):
        return np.clip(X, self.lower_, self.upper_)


class CombinedAttributesAdder(Own):
    def __init__(self, add_ratio=True):
        self.add_ratio = add_ratio

    def transform(self, X, y=None):
        product = X[:, 0] * X[:, 1]
        if self.add_ratio:
            return np.c_[X, product, X[:, 2] / X[:, 1]]
        return np.c_[X, product]


class IqrCapper(Own):
    def fit(self, X, y=None):
        q1, q3 = np.nanpercentile(X, [25, 75], axis=0)
        self.iqr_ = q3 - q1
        self.bounds_ = {"low": q1 - 1.5 * self.iqr_, "high": q3 + 1.5 * self.iqr_}
        return self

    def transform(self, X):
        check_is_fitted(self, "bounds_")
        return np.minimum(np.maximum(X, self.bounds_["low"]), self.bounds_["high"])


class MedianFiller(Own):
    def fit(self, X, y=None):
        self.medians_ = np.nanmedian(X, axis=0)
        return self

    def transform(self, X):
        X = np.array(X, dtype=float)
        for j in range(X.shape[1]):
            X[np.isnan(X[:, j]), j] = self.medians_[j]
        return X


class MissingIndicatorAdder(Own):
    def transform(self, X):
        return np.hstack([np.nan_to_num(X), np.isnan(X).astype(float)])


class RobustZ(OneToOneFeatureMixin, Own):
    def fit(self, X, y=None):
        X = validate_data(self, X, ensure_all_finite="allow-nan")
        self.center_ = np.nanmedian(X, axis=0)
        self.scale_ = np.nanmedian(np.abs(X - self.center_), axis=0) + 1e-9
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan")
        return (X - self.center_) / self.scale_


class RadialBasis(Own):
    def __init__(self, gamma=0.1):
        self.gamma = gamma

    def fit(self, X, y=None):
        self.centres_ = np.nan_to_num(X[:3, :2])
        return self

    def transform(self, X):
        return np.column_stack([
            np.exp(-self.gamma * ((X[:, :2] - c) ** 2).sum(axis=1)) for c in self.centres_
        ])  # fmt: skip


class BinEncoder(Own):
    def fit(self, X, y=None):
        self.edges_ = [np.unique(np.nanquantile(c, [0.25, 0.5, 0.75])) for c in X.T]
        return self

    def transform(self, X):
        binned = [np.digitize(X[:, j], edges) for j, edges in enumerate(self.edges_)]
        return np.column_stack(binned)


class ColumnDropper(Own):
    def __init__(self, threshold=0.5):
        self.threshold = threshold

    def fit(self, X, y=None):
        self.kept_ = np.flatnonzero(np.nanvar(X, axis=0) > self.threshold)
        return self

    def transform(self, X):
        return X[:, self.kept_]


class MaskSelector(Own):
    def fit(self, X, y=None):
        self.mask_ = np.nanstd(X, axis=0) > 0.5
        return self

    def transform(self, X):
        return X[:, self.mask_]


class Whitener(Own):
    def fit(self, X, y=None):
        X = check_array(np.nan_to_num(X))
        self.mean_ = X.mean(axis=0)
        _u, s, vt = np.linalg.svd(X - self.mean_, full_matrices=False)
        self.components_ = vt / s[:, None]
        return self

    def transform(self, X):
        return (np.nan_to_num(X) - self.mean_) @ self.components_.T


class TargetBins(Own):
    def fit(self, X, y=None):
        self.edges_ = np.nanquantile(X[:, 0], [0.33, 0.66])
        places = np.digitize(X[:, 0], self.edges_)
        self.means_ = np.array([y[places == k].mean() for k in range(3)])
        return self

    def transform(self, X):
        places = np.digitize(X[:, 0], self.edges_)
        return self.means_[places].reshape(-1, 1)


class HelperMethods(Own):
    POWERS = (1, 2, 0.5)

    @staticmethod
    def _size(x):
        return np.abs(x)

    @classmethod
    def _names(cls):
        return list(cls.POWERS)

    @property
    def count(self):
        return len(self.POWERS)

    def _raised(self, x, power):
        return self._size(x) ** power

    def transform(self, X):
        return np.hstack([self._raised(X, p) for p in self.POWERS]) / self.count


class InnerScaler(Own):
    def fit(self, X, y=None):
        self.scaler_ = StandardScaler().fit(np.nan_to_num(X))
        return self

    def transform(self, X):
        return np.tanh(self.scaler_.transform(np.nan_to_num(X)))


class InnerPipeline(Own):
    def fit(self, X, y=None):
        self.steps_ = make_pipeline(SimpleImputer(), MinMaxScaler(), PCA(2)).fit(X)
        return self

    def transform(self, X):
        return np.hstack([X[:, :1], self.steps_.transform(X)])


class ClusterDistances(Own):
    def __init__(self, n_clusters=3):
        self.n_clusters = n_clusters

    def fit(self, X, y=None):
        self.kmeans_ = KMeans(self.n_clusters, n_init=1, random_state=0).fit(np.nan_to_num(X))
        return self

    def transform(self, X):
        return np.exp(-self.kmeans_.transform(np.nan_to_num(X)) / 10)


class ClusterLabel(ClusterDistances):
    def transform(self, X):
        return self.kmeans_.predict(np.nan_to_num(X)).reshape(-1, 1)


class ModelFeature(Own):
    def fit(self, X, y=None):
        self.model_ = LogisticRegression().fit(np.nan_to_num(X), y)
        return self

    def transform(self, X):
        X = np.nan_to_num(X)
        return np.column_stack([X, self.model_.predict_proba(X)[:, 1]])


class StackedFeatures(Own):
    def fit(self, X, y=None):
        X = np.nan_to_num(X)
        self.models_ = [
            LogisticRegression(C=0.1).fit(X, y),
            DecisionTreeClassifier(max_depth=3).fit(X, y),
            RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y),
        ]
        return self

    def transform(self, X):
        X = np.nan_to_num(X)
        return np.hstack([model.predict_proba(X)[:, [1]] for model in self.models_])


class NamedMembers(Own):
    def fit(self, X, y=None):
        X = np.nan_to_num(X)
        self.members_ = {"scale": StandardScaler().fit(X), "poly": PolynomialFeatures(2).fit(X)}
        return self

    def transform(self, X):
        X = np.nan_to_num(X)
        return np.hstack([t.transform(X) for name, t in self.members_.items()])


class LeafPlaces(Own):
    def fit(self, X, y=None):
        self.tree_ = DecisionTreeClassifier(max_depth=3).fit(np.nan_to_num(X), y)
        return self

    def transform(self, X):
        return self.tree_.apply(np.nan_to_num(X)).reshape(-1, 1)


class Nested(Own):
    def fit(self, X, y=None):
        self.clipper_ = QuantileClipper(0.05, 0.95).fit(X)
        self.filler_ = MedianFiller().fit(X)
        return self

    def transform(self, X):
        return self.filler_.transform(self.clipper_.transform(X))


class ClippedScaler(StandardScaler):
    def transform(self, X, copy=None):
        return np.clip(super().transform(X, copy), -3, 3)


class LoggedImputer(SimpleImputer):
    def transform(self, X):
        return np.log1p(np.abs(super().transform(X)))


class CopiedScaler(MinMaxScaler):
    """Overrides nothing that computes."""

    def describe(self):
        return "copied"


class DifferencedPca(PCA):
    def transform(self, X):
        scores = super().transform(np.nan_to_num(X))
        return scores - scores[:, :1]

    def fit(self, X, y=None):
        return super().fit(np.nan_to_num(X), y)


class CountingCalls(Own):
    def fit(self, X, y=None):
        self.n_calls_ = 0
        return self

    def transform(self, X):
        self.n_calls_ += 1
        return X * self.n_calls_


class FitsInside(Own):
    def transform(self, X):
        return StandardScaler().fit_transform(X)


class Reads(Own):
    def transform(self, X):
        return X * np.loadtxt("/tmp/factor.txt")


ARRAYS = (
    QuantileClipper, CombinedAttributesAdder, IqrCapper, MedianFiller, MissingIndicatorAdder,
    RobustZ, RadialBasis, BinEncoder, ColumnDropper, MaskSelector, Whitener, TargetBins,
    HelperMethods, InnerScaler, InnerPipeline, ClusterDistances, ClusterLabel, ModelFeature,
    StackedFeatures, NamedMembers, LeafPlaces, Nested, ClippedScaler, LoggedImputer,
    CopiedScaler, DifferencedPca,
)  # fmt: skip
OTHER_ROWS = (CountingCalls, FitsInside, Reads)


class FrameSelector(Own):
    def __init__(self, attribute_names=("age", "kids")):
        self.attribute_names = attribute_names

    def transform(self, X):
        return X[list(self.attribute_names)].values


class GroupMedianFiller(Own):
    def fit(self, X, y=None):
        self.medians_ = X.groupby("plan")["income"].median().to_dict()
        self.overall_ = X["income"].median()
        return self

    def transform(self, X):
        X = X.copy()
        guess = X["plan"].map(self.medians_).fillna(self.overall_)
        X["income"] = X["income"].fillna(guess)
        return X[["income", "age"]]


class TargetEncoder(Own):
    def __init__(self, cols=("city", "plan"), smoothing=10.0):
        self.cols = cols
        self.smoothing = smoothing

    def fit(self, X, y):
        self.prior_ = float(np.mean(y))
        self.tables_ = {}
        for col in self.cols:
            stats = pd.Series(y, index=X.index).groupby(X[col]).agg(["sum", "count"])
            value = (stats["sum"] + self.smoothing * self.prior_) / (
                stats["count"] + self.smoothing
            )
            self.tables_[col] = value.to_dict()
        return self

    def transform(self, X):
        out = pd.DataFrame(index=X.index)
        for col, table in self.tables_.items():
            out[f"{col}_te"] = X[col].map(table).fillna(self.prior_)
        return out


class FrequencySeries(Own):
    def fit(self, X, y=None):
        self.counts_ = X["city"].value_counts(normalize=True)
        return self

    def transform(self, X):
        return X["city"].map(self.counts_).fillna(0.0).to_frame("frequency")


class MeansOfSeries(Own):
    def fit(self, X, y=None):
        self.means_ = X[["income", "debt"]].mean()
        self.deviations_ = X[["income", "debt"]].std()
        return self

    def transform(self, X):
        return (X[["income", "debt"]] - self.means_) / self.deviations_


class MediansFilled(Own):
    def fit(self, X, y=None):
        self.medians_ = X[["income", "score"]].median()
        return self

    def transform(self, X):
        return X[["income", "score"]].fillna(self.medians_)


class BoundsFrame(Own):
    def fit(self, X, y=None):
        self.bounds_ = X[["income", "debt"]].quantile([0.05, 0.95])
        return self

    def transform(self, X):
        out = X[["income", "debt"]].copy()
        for col in out.columns:
            out[col] = out[col].clip(self.bounds_.loc[0.05, col], self.bounds_.loc[0.95, col])
        return out


class ColumnsChecked(Own):
    def fit(self, X, y=None):
        self.columns_ = list(X.columns)
        return self

    def transform(self, X):
        if not isinstance(X, pd.DataFrame):
            raise TypeError("a frame is needed")
        missing = set(self.columns_) - set(X.columns)
        if missing:
            raise ValueError(f"columns are missing: {missing}")
        return X[self.columns_][["income", "age"]] / 2


class RareGrouper(Own):
    def fit(self, X, y=None):
        counts = X["city"].value_counts()
        self.kept_ = list(counts[counts > 10].index)
        return self

    def transform(self, X):
        X = X.copy()
        X["city"] = X["city"].where(X["city"].isin(self.kept_), "other")
        return X[["city"]]


class InnerEncoder(Own):
    def fit(self, X, y=None):
        self.encoder_ = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        self.encoder_.fit(X[["city", "plan"]])
        return self

    def transform(self, X):
        return np.hstack(
            [X[["income", "age"]].values, self.encoder_.transform(X[["city", "plan"]])]
        )


class InnerFrameScaler(Own):
    def fit(self, X, y=None):
        self.scaler_ = StandardScaler().fit(X[["income", "debt"]])
        return self

    def transform(self, X):
        X = X[["income", "debt", "age"]].copy()
        X[["income", "debt"]] = self.scaler_.transform(X[["income", "debt"]])
        return X


class MonthAdder(Own):
    def transform(self, X):
        X = X.copy()
        X["month"] = X["joined"].dt.month
        return X[["month", "age"]]


TABLES = (
    FrameSelector, GroupMedianFiller, TargetEncoder, FrequencySeries, MeansOfSeries,
    MediansFilled, BoundsFrame, ColumnsChecked, RareGrouper, InnerEncoder, InnerFrameScaler,
    MonthAdder,
)  # fmt: skip
