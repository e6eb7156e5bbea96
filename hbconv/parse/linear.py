"""Linear models: Linear, then a link or a decision."""

from __future__ import annotations

from hbconv.array import Array
from hbconv.containers import Output
from hbconv.containers.affine import Affine
from hbconv.containers.decide import ArgMax, Compare, Softmax
from hbconv.containers.elementwise import Map
from hbconv.containers.linear import Linear
from hbconv.containers.wiring import Concat
from hbconv.parse.registry import parses
from hbconv.parse.step import Step


@parses("sklearn.linear_model.LogisticRegression")
def parse_logistic_regression(step: Step) -> dict[str, Output]:
    """Two classes: the sign of one score, and its sigmoid; more: argmax and softmax of the scores."""
    x, est = step.require_finite(), step.estimator
    classes = Array(est.classes_)
    scores = Linear.of(x, est.coef_.T, est.intercept_)
    if len(classes) > 2:
        return {
            "predict": Output(ArgMax(scores), classes, vector=True),
            "predict_proba": Output(Softmax(scores)),
            "decision_function": Output(scores),
        }
    p = Map(scores, "sigmoid")
    return {
        "predict": Output(Compare.of(scores, "gt", 0.0, "int32"), classes, vector=True),
        "predict_proba": Output(Concat((Affine.of(p, mul=-1.0, add=1.0), p))),
        "decision_function": Output(scores, vector=True),
    }
