"""What scikit-learn asks of a fitted estimator, and a model answers.

``SourceMethods`` declares the methods that models may have, for type checkers and editors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.errors import HbconvError, MissingPackageError, OptionError
from hbconv.names import EXPLANATIONS, guess, unknown
from hbconv.runtime.outputs.names import join_names, name_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hbconv.containers import Graph, NamesOut

__all__ = ["SCORES", "SklearnEstimator", "SourceMethods", "compute_score", "explain_absence"]


class SourceMethods:
    """The methods that a model may have; each model has those of its source alone.

    Without these declarations a misspelt method would pass every type checker, and editors could
    complete none. Nothing is declared at run time, where ``hasattr`` is right.
    """

    if TYPE_CHECKING:

        def predict(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Predict labels, values or clusters, of shape (n_rows,) or (n_rows, n_targets)."""

        def predict_class(self, X: Any) -> Any:  # noqa: N803
            """Predict labels, of shape (n_rows,), where ``predict`` gives probabilities."""

        def predict_proba(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Predict probabilities of classes, of shape (n_rows, n_classes)."""

        def predict_log_proba(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Predict logarithms of probabilities, of shape (n_rows, n_classes)."""

        def predict_joint_log_proba(self, X: Any) -> Any:  # noqa: N803
            """Predict logarithms of joint probabilities, of shape (n_rows, n_classes)."""

        def decision_function(self, X: Any) -> Any:  # noqa: N803
            """Score rows: of shape (n_rows,) for two classes, else (n_rows, n_classes)."""

        def transform(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Transform rows, to shape (n_rows, n_outputs)."""

        def inverse_transform(self, X: Any) -> Any:  # noqa: N803
            """Return rows of which ``transform`` makes these, of shape (n_rows, n_features)."""

        def score_samples(self, X: Any) -> Any:  # noqa: N803
            """Return the log-likelihood or normality of each row, of shape (n_rows,)."""

        def mahalanobis(self, X: Any) -> Any:  # noqa: N803
            """Return the squared Mahalanobis distance of each row, of shape (n_rows,)."""

        def kneighbors(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Return distances and positions of neighbours, each of shape (n_rows, n_neighbors)."""

        def kneighbors_graph(self, X: Any) -> Any:  # noqa: N803
            """Return a sparse matrix with ones for neighbours, of shape (n_rows, n_samples_fit)."""

        def radius_neighbors(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Return distances and positions within the radius, two arrays of an array a row."""

        def radius_neighbors_graph(self, X: Any) -> Any:  # noqa: N803
            """Return a sparse matrix with ones within the radius: (n_rows, n_samples_fit)."""

        def apply(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Return the leaf that each row reaches, of shape (n_rows, n_trees)."""

        def decision_path(self, X: Any, *positional: Any, **named: Any) -> Any:  # noqa: N803
            """Return the nodes that each row passes, as a sparse matrix."""

        def staged_predict(self, X: Any) -> Any:  # noqa: N803
            """Yield what ``predict`` returns after each boosting iteration."""

        def staged_predict_proba(self, X: Any) -> Any:  # noqa: N803
            """Yield what ``predict_proba`` returns after each boosting iteration."""

        def staged_decision_function(self, X: Any) -> Any:  # noqa: N803
            """Yield what ``decision_function`` returns after each boosting iteration."""

        def raw_scores(self, X: Any) -> Any:  # noqa: N803
            """Return the sums of a booster's leaves, before any link."""

        def predict_std(self, X: Any) -> Any:  # noqa: N803
            """Return the standard deviation of what ``predict`` gives, of its shape."""

        def contributions(self, X: Any) -> Any:  # noqa: N803
            """Return what each feature adds to each raw score, then the expected value."""

        def interactions(self, X: Any) -> Any:  # noqa: N803
            """Return what each two features add together to each raw score, and each alone."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
            """Return the accuracy of a classifier, or R squared of a regressor."""

        def get_feature_names_out(
            self, input_features: Sequence[str] | None = None
        ) -> npt.NDArray[Any]:
            """Return the names of the columns that ``transform`` returns."""

        def set_output(self, *, transform: str | None = None) -> Self:
            """Choose what ``transform`` returns: "default", "pandas" or "polars"."""


SCORES = {"accuracy": "accuracy_score", "r2": "r2_score"}
"""Functions of ``sklearn.metrics`` by the metric of a model."""


class SklearnEstimator(SourceMethods):
    """What scikit-learn asks of an estimator that is fitted and never fitted again."""

    parsed: Graph

    @property
    def n_features_in_(self) -> int:
        """Number of input columns."""
        return len(self.parsed.schema.columns)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the input columns, if the source model was fitted on named ones."""
        if not self.parsed.schema.named:
            raise AttributeError("feature_names_in_")
        return np.array(self.parsed.schema.names, dtype=object)

    @property
    def classes_(self) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        """Class labels of a classifier; of one with several targets, a list."""
        if self.parsed.traits.classes is None:
            raise AttributeError("classes_")
        classes = self.parsed.traits.classes
        if isinstance(classes, Array):
            return classes.data.copy()
        return [labels.data.copy() for labels in classes]

    def _feature_names_out(
        self, names: NamesOut, input_features: Sequence[str] | None = None
    ) -> npt.NDArray[np.object_]:
        """Return the names of the columns that ``transform`` returns."""
        return np.array(names.of(input_features, self.parsed.schema), dtype=object)

    def _require_method(self, name: object) -> None:
        if not isinstance(name, str):
            known = ", ".join(sorted(self.parsed.outputs))
            raise OptionError(
                f"Expected the name of a method, got a {type(name).__name__}. Known: {known}."
            )
        if name not in self.parsed.outputs:
            raise unknown("method", name, self.parsed.outputs)

    def output_names(self, method: str) -> list[str]:
        """Return the names of the values that a method answers for a row, in their order.

        They are classes, features or columns that ``transform`` returns; positions where the source
        names none. Contributions end with ``"expected value"``. Two features of interactions are
        joined by ``":"``, and stand behind the class where there are several raw scores.

        Raises
        ------
        OptionError
            There is no such method.
        """
        self._require_method(method)
        if method == "transform" and self.parsed.traits.names_out is not None:
            return [str(name) for name in self.parsed.traits.names_out.default]
        axes = name_axes(self.parsed, method)
        return join_names(axes) if axes else [method]

    def fit(self, *_: object, **__: object) -> Self:
        """Refuse: a compiled model is not fitted again."""
        raise HbconvError(
            "A compiled model cannot be fitted. Fit the estimator it came from, and convert that. "
            "Where scikit-learn fits its parts, wrap the model: "
            "sklearn.frozen.FrozenEstimator(model)."
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return no parameters: a compiled model has none."""
        return {}

    def set_params(self, **params: Any) -> Self:
        """Return the model itself, or raise OptionError where a parameter is given."""
        if params:
            raise OptionError(
                f"A compiled model has no parameter {next(iter(params))!r}, nor any other. Set it "
                "on the estimator that the model came from, fit that, and convert it."
            )
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags, TransformerTags

        kind = self.parsed.traits.kind
        return Tags(
            estimator_type=kind if kind in ("classifier", "regressor") else None,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            transformer_tags=TransformerTags() if "transform" in self.parsed.outputs else None,
        )


def compute_score(model: SklearnEstimator, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
    """Return what ``score`` of the source model returns: its metric of ``predict``.

    Parameters
    ----------
    model : SklearnEstimator
        Its ``parsed.traits.metric`` is one of ``SCORES``.
    X, y : array
        Rows and their true answers, of shape (n_rows,) or (n_rows, n_targets).
    sample_weight : array, optional
        Of shape (n_rows,).

    Raises
    ------
    MissingPackageError
        scikit-learn, which has the metric, is not installed.
    """
    try:
        from sklearn import metrics
    except ImportError:
        raise MissingPackageError(
            "score needs scikit-learn, for its metrics. Install with: "
            "pip install 'hbconv[sklearn]'."
        ) from None
    metric = getattr(metrics, SCORES[model.parsed.traits.metric])
    return float(metric(y, model.predict(X), sample_weight=sample_weight))


_OF_SOME = {
    "classes_": "its source is no classifier",
    "feature_names_in_": "its source was fitted without names of columns",
}
"""Attributes that not every model has, and why."""


def explain_absence(model: SklearnEstimator, name: str) -> str:
    """Say that a model has no such method, and which it has."""
    estimator = model.parsed.traits.estimator or "a graph"
    methods = model.parsed.outputs
    if name == "score" and "predict" in methods:
        return (
            f"This Model of {estimator} has no score: that of its source is none of "
            f"{', '.join(SCORES)} of predict. Call a function of sklearn.metrics instead."
        )
    if name in model.parsed.refused:
        return model.parsed.refused[name]
    if name == "interactions" and "contributions" in methods:
        return (
            f"This Model of {estimator} has no interactions. XGBoost's trees have them, because "
            "XGBoost has. See the page 'Contributions of features'."
        )
    if name in EXPLANATIONS:
        return (
            f"This Model of {estimator} has no {name}. Ensembles of trees have them, except "
            "trees with linear leaves, trees without counts of their training rows, and those that "
            "their own library cannot explain. See the page 'Contributions of features'."
        )
    if name in _OF_SOME:
        return f"This Model of {estimator} has no {name}: {_OF_SOME[name]}."
    attributes = [attribute for attribute in dir(model) if not attribute.startswith("_")]
    hint = "" if name.startswith("_") else guess(name, attributes)
    return (
        f"This Model of {estimator} has no attribute {name!r}.{hint} "
        f"Its methods are {', '.join(methods)}."
    )
