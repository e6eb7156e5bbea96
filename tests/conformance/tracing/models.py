"""Models of users' own, as notebooks write them: in plain numpy, or around fitted estimators."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor


class Classifier(ClassifierMixin, BaseEstimator):
    pass


class Regressor(RegressorMixin, BaseEstimator):
    pass


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class NormalEquations(Regressor):
    def fit(self, X, y):
        A = np.c_[np.ones(len(X)), X]
        self.theta_ = np.linalg.lstsq(A, y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.c_[np.ones((len(X), 1)), X] @ self.theta_


class GradientDescent(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.w, self.b = np.zeros(X.shape[1]), 0.0
        for _ in range(50):
            gap = sigmoid(X @ self.w + self.b) - (y == self.classes_[1])
            self.w -= 0.01 * X.T @ gap / len(X)
            self.b -= 0.01 * gap.mean()
        return self

    def decision_function(self, X):
        return X.dot(self.w) + self.b

    def predict_proba(self, X):
        p = sigmoid(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


class NearestMean(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def predict(self, X):
        gaps = np.column_stack([((X - m) ** 2).sum(axis=1) for m in self.means_])
        return self.classes_[np.argmin(gaps, axis=1)]


class GaussianBayes(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.stats_ = [(X[y == c].mean(0), X[y == c].var(0) + 1e-9) for c in self.classes_]
        self.log_priors_ = np.log([np.mean(y == c) for c in self.classes_])
        return self

    def _joint(self, X):
        rows = []
        for (mean, var), prior in zip(self.stats_, self.log_priors_, strict=False):
            terms = -0.5 * np.log(2 * np.pi * var) - (X - mean) ** 2 / (2 * var)
            rows.append(prior + terms.sum(axis=1))
        return np.column_stack(rows)

    def predict_proba(self, X):
        joint = self._joint(X)
        joint = np.exp(joint - joint.max(axis=1, keepdims=True))
        return joint / joint.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[np.argmax(self._joint(X), axis=1)]


class Perceptron(Classifier):
    """Labels are -1 and 1."""

    def fit(self, X, y):
        self.w_ = np.zeros(X.shape[1] + 1)
        for row, label in zip(X, np.where(y == np.unique(y)[1], 1, -1), strict=False):
            guess = 1 if row @ self.w_[1:] + self.w_[0] >= 0 else -1
            self.w_[1:] += 0.1 * (label - guess) * row
            self.w_[0] += 0.1 * (label - guess)
        return self

    def net_input(self, X):
        return np.dot(X, self.w_[1:]) + self.w_[0]

    def predict(self, X):
        return np.where(self.net_input(X) >= 0.0, 1, -1)


class RuleOfThumb(Classifier):
    def fit(self, X, y):
        self.classes_ = np.array(["no", "yes"])
        self.cut_ = float(np.median(X[:, 1]))
        return self

    def predict(self, X):
        return np.where(X[:, 1] > self.cut_, "yes", "no")


class ThreeRules(Classifier):
    def fit(self, X, y):
        self.classes_ = np.array(["high", "low", "middle"], dtype=object)
        return self

    def predict(self, X):
        return np.select([X[:, 1] < 25, X[:, 1] > 60], ["low", "high"], default="middle")


class Majority(Classifier):
    def fit(self, X, y):
        self.classes_, counts = np.unique(y, return_counts=True)
        self.winner_ = self.classes_[np.argmax(counts)]
        return self

    def predict(self, X):
        return np.full(len(X), self.winner_)


class MeanRegressor(Regressor):
    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.mean_)


class ThresholdClassifier(Classifier):
    def __init__(self, threshold=0.3):
        self.threshold = threshold

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def predict(self, X):
        return np.where(self.predict_proba(X)[:, 1] > self.threshold, 1, 0)


class ThresholdLabels(Classifier):
    def fit(self, X, y):
        self.names_ = np.array(["bad", "good"])
        self.forest_ = RandomForestClassifier(5, random_state=0).fit(X, self.names_[y])
        self.classes_ = self.forest_.classes_
        return self

    def predict(self, X):
        p = self.forest_.predict_proba(X)[:, 1]
        return np.where(p >= 0.4, self.classes_[1], self.classes_[0])


class LabelsEncoded(Classifier):
    def fit(self, X, y):
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        self.tree_ = DecisionTreeClassifier(max_depth=3).fit(X, self.encoder_.transform(y))
        return self

    def predict(self, X):
        return self.encoder_.inverse_transform(self.tree_.predict(X))


class Blend(Regressor):
    def __init__(self, weight=0.7):
        self.weight = weight

    def fit(self, X, y):
        self.ridge_ = Ridge().fit(X, y)
        self.tree_ = DecisionTreeRegressor(max_depth=4).fit(X, y)
        return self

    def predict(self, X):
        return self.weight * self.ridge_.predict(X) + (1 - self.weight) * self.tree_.predict(X)


class AveragedProbabilities(Classifier):
    def fit(self, X, y):
        self.models_ = [m.fit(X, y) for m in (LogisticRegression(), GaussianNB())]
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.mean([m.predict_proba(X) for m in self.models_], axis=0)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class SummedProbabilities(AveragedProbabilities):
    def predict_proba(self, X):
        return sum(m.predict_proba(X) for m in self.models_) / len(self.models_)


class TwoStages(Regressor):
    """A share of rows is zero: a classifier says which, and a regressor how much."""

    def fit(self, X, y):
        self.is_any_ = LogisticRegression().fit(X, y > np.median(y))
        self.amount_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        return np.where(self.is_any_.predict(X), self.amount_.predict(X), 0.0)


class LogTarget(Regressor):
    def fit(self, X, y):
        self.model_ = GradientBoostingRegressor(n_estimators=8, random_state=0)
        self.model_.fit(X, np.log1p(y))
        return self

    def predict(self, X):
        return np.expm1(self.model_.predict(X)).clip(0)


class BySegment(Regressor):
    def fit(self, X, y):
        young = X[:, 1] < 40
        self.models_ = {"young": Ridge().fit(X[young], y[young])}
        self.models_["old"] = Ridge().fit(X[~young], y[~young])
        return self

    def predict(self, X):
        young = self.models_["young"].predict(X)
        return np.where(X[:, 1] < 40, young, self.models_["old"].predict(X))


class ByMaskedSegment(BySegment):
    def predict(self, X):
        out = np.zeros(len(X))
        young = X[:, 1] < 40
        out[young] = self.models_["young"].predict(X[young])
        out[~young] = self.models_["old"].predict(X[~young])
        return out


class Residuals(Regressor):
    def fit(self, X, y):
        self.base_ = LinearRegression().fit(X, y)
        self.trees_ = []
        rest = y - self.base_.predict(X)
        for _ in range(3):
            self.trees_.append(DecisionTreeRegressor(max_depth=2).fit(X, rest))
            rest = rest - 0.5 * self.trees_[-1].predict(X)
        return self

    def predict(self, X):
        total = self.base_.predict(X)
        for tree in self.trees_:
            total = total + 0.5 * tree.predict(X)
        return total


class Stacked(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.base_ = [GaussianNB().fit(X, y), KNeighborsClassifier().fit(X, y)]
        self.final_ = LogisticRegression().fit(self._meta(X), y)
        return self

    def _meta(self, X):
        return np.column_stack([m.predict_proba(X)[:, 1] for m in self.base_])

    def predict_proba(self, X):
        return self.final_.predict_proba(self._meta(X))

    def predict(self, X):
        return self.final_.predict(self._meta(X))


class ScaledModel(Classifier):
    def fit(self, X, y):
        self.scaler_ = StandardScaler().fit(X)
        self.svm_ = SVC(kernel="linear").fit(self.scaler_.transform(X), y)
        self.classes_ = self.svm_.classes_
        return self

    def decision_function(self, X):
        return self.svm_.decision_function(self.scaler_.transform(X))

    def predict(self, X):
        return self.svm_.predict(self.scaler_.transform(X))


class Votes(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.models_ = [DecisionTreeClassifier(max_depth=d).fit(X, y) for d in (1, 2, 3)]
        return self

    def predict(self, X):
        votes = np.column_stack([m.predict(X) for m in self.models_])
        return (votes.sum(axis=1) >= 2).astype(int)


class Calibrated(Classifier):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.model_ = LogisticRegression().fit(X, y)
        self.grid_ = np.linspace(0, 1, 5)
        self.values_ = self.grid_**1.2
        return self

    def predict_proba(self, X):
        p = np.interp(self.model_.predict_proba(X)[:, 1], self.grid_, self.values_)
        return np.vstack([1 - p, p]).T


class ClippedRidge(Ridge):
    def predict(self, X):
        return np.clip(super().predict(X), 0, None)


class SmoothedLogistic(LogisticRegression):
    def predict_proba(self, X):
        p = super().predict_proba(X)
        return 0.9 * p + 0.1 / p.shape[1]


class CutLogistic(LogisticRegression):
    def predict(self, X):
        return (self.predict_proba(X)[:, 1] >= 0.25).astype(int)


class LoggedForest(RandomForestClassifier):
    def fit(self, X, y, sample_weight=None):
        self.seen_ = len(X)
        return super().fit(X, y, sample_weight)


class ScoreByRows(Regressor):
    def fit(self, X, y):
        self.w_ = np.ones(X.shape[1])
        return self

    def predict(self, X):
        return np.array([float(row @ self.w_) for row in X])


class DriftOfBatch(Regressor):
    def fit(self, X, y):
        self.mean_ = X.mean(axis=0)
        return self

    def predict(self, X):
        return X[:, 0] - X[:, 0].mean() + self.mean_[0]


ARRAYS = (
    NormalEquations, GradientDescent, NearestMean, GaussianBayes, Perceptron, RuleOfThumb,
    ThreeRules, Majority, MeanRegressor, ThresholdClassifier, ThresholdLabels, LabelsEncoded,
    Blend, AveragedProbabilities, SummedProbabilities, TwoStages, LogTarget, BySegment,
    ByMaskedSegment, Residuals, Stacked, ScaledModel, Votes, Calibrated, ClippedRidge,
    SmoothedLogistic, CutLogistic, LoggedForest, ScoreByRows,
)  # fmt: skip
OTHER_ROWS = (DriftOfBatch,)
