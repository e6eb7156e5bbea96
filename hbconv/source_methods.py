"""SourceMethods: the methods that models may have, as type checkers and editors see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SourceMethods"]


class SourceMethods:
    """The methods that a model may have; each model has those of its source alone.

    Without these declarations a misspelt method would pass every type checker, and editors could
    complete none. Nothing is declared at run time, where ``hasattr`` tells the truth.
    """

    if TYPE_CHECKING:

        def predict(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Predict labels, values or clusters, of shape (n_rows,) or (n_rows, n_targets)."""

        def predict_class(self, X: Any) -> Any:  # noqa: N803
            """Predict labels, of shape (n_rows,), where ``predict`` gives probabilities."""

        def predict_proba(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Predict probabilities of classes, of shape (n_rows, n_classes)."""

        def predict_log_proba(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Predict logarithms of probabilities, of shape (n_rows, n_classes)."""

        def predict_joint_log_proba(self, X: Any) -> Any:  # noqa: N803
            """Predict logarithms of joint probabilities, of shape (n_rows, n_classes)."""

        def decision_function(self, X: Any) -> Any:  # noqa: N803
            """Score rows: of shape (n_rows,) for two classes, else (n_rows, n_classes)."""

        def transform(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Transform rows, to shape (n_rows, n_outputs)."""

        def inverse_transform(self, X: Any) -> Any:  # noqa: N803
            """Return rows of which ``transform`` makes these, of shape (n_rows, n_features)."""

        def score_samples(self, X: Any) -> Any:  # noqa: N803
            """Return the log-likelihood or normality of each row, of shape (n_rows,)."""

        def mahalanobis(self, X: Any) -> Any:  # noqa: N803
            """Return the squared Mahalanobis distance of each row, of shape (n_rows,)."""

        def kneighbors(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Return distances and positions of neighbours, each of shape (n_rows, n_neighbors)."""

        def kneighbors_graph(self, X: Any) -> Any:  # noqa: N803
            """Return a sparse matrix with ones for neighbours, of shape (n_rows, n_samples_fit)."""

        def radius_neighbors(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Return distances and positions within the radius, two arrays of an array a row."""

        def radius_neighbors_graph(self, X: Any) -> Any:  # noqa: N803
            """Return a sparse matrix with ones within the radius: (n_rows, n_samples_fit)."""

        def apply(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
            """Return the leaf that each row reaches, of shape (n_rows, n_trees)."""

        def decision_path(self, X: Any, *given: Any, **named: Any) -> Any:  # noqa: N803
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
