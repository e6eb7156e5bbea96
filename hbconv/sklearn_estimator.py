"""SklearnEstimator: what scikit-learn asks of a fitted estimator, and a model answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from hbconv.errors import HbconvError, MissingPackageError, OptionError
from hbconv.names import EXPLANATIONS, guess
from hbconv.source_methods import SourceMethods

if TYPE_CHECKING:
    from hbconv.containers import Graph

__all__ = ["SCORES", "SklearnEstimator", "compute_score", "explain_absence"]

SCORES = {"accuracy": "accuracy_score", "r2": "r2_score"}
"""Functions of ``sklearn.metrics`` by the metric of a model."""


class SklearnEstimator(SourceMethods):
    """What scikit-learn asks of an estimator that is fitted and never fitted again."""

    parsed: Graph

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
    known = [known for known in dir(model) if not known.startswith("_")]
    hint = "" if name.startswith("_") else guess(name, known)
    return (
        f"This Model of {estimator} has no attribute {name!r}.{hint} "
        f"Its methods are {', '.join(methods)}."
    )
