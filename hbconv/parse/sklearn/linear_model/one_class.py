"""SGDOneClassSVM: a linear one-class support vector machine."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from hbconv.containers import VECTOR, Affine, Cast, Compare, Linear, Node, Output
from hbconv.parse.registry import parses
from hbconv.parse.step import Step

__all__ = ["outlier_outputs"]


@parses("sklearn.linear_model.SGDOneClassSVM")
def parse_sgd_one_class_svm(step: Step) -> dict[str, Output]:
    """Count a row as an inlier where its score is not negative."""
    est = step.estimator
    return outlier_outputs(
        Linear.of(step.require_finite(), est.coef_, -est.offset_), "ge", est.offset_, "int32"
    )


def outlier_outputs(
    score: Node, inlier: str, offset: npt.NDArray[Any], dtype: str
) -> dict[str, Output]:
    """Return the methods of a one-class machine: rows of an inlying score are 1, others -1.

    ``inlier`` is the comparison with 0 that holds for inliers; ``dtype`` is that of predict.
    """
    signs = Affine.of(Compare.of(score, inlier, 0.0, "float64"), mul=2.0, sub=1.0)
    return {
        "predict": Output(Cast(signs, dtype), VECTOR),
        "decision_function": Output(score, VECTOR),
        "score_samples": Output(Affine.of(score, add=offset), VECTOR),
    }
