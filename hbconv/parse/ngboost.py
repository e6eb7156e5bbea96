"""Natural gradient boosting of ngboost: trees for each parameter of a distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    ArgMax,
    Concat,
    ConstantRows,
    Labels,
    Map,
    Multiply,
    Node,
    Output,
    Select,
    Softmax,
    TreeEnsemble,
)
from hbconv.parse.common.node_tables import assemble
from hbconv.parse.registry import find_parser, parses
from hbconv.parse.sklearn.tree import read_trees, require_own_counts, tree_input
from hbconv.parse.step import Step


def _first(params: Node) -> Node:
    return Select(params, Array.of([0], np.int32))


def _exponential_of_first(params: Node) -> Node:
    return Map(_first(params), "exp")


def _log_normal(params: Node) -> Node:
    """Return ``sqrt(exp(s**2)) * exp(location)`` where ``s`` is ``exp`` of the second parameter."""
    scale = Map(Select(params, Array.of([1], np.int32)), "exp")
    return Multiply((Map(Map(Map(scale, "square"), "exp"), "sqrt"), _exponential_of_first(params)))


_MEANS: dict[str, Callable[[Node], Node]] = {
    "Exponential": _exponential_of_first,
    "Laplace": _first,
    "LogNormal": _log_normal,
    "Normal": _first,
    "NormalFixedVar": _first,
    "Poisson": _exponential_of_first,
}
"""The mean of each distribution, by its class name, of the parameters that the trees give."""


def _is_fitted(booster: Any) -> bool:
    return getattr(booster, "init_params", None) is not None


@parses("ngboost.NGBRegressor", features=lambda est: int(est.n_features), is_fitted=_is_fitted)
def parse_regressor(step: Step) -> dict[str, Output]:
    """Predict the mean of the distribution."""
    name = _distribution(step.estimator.Dist)
    if name not in _MEANS:
        raise step.refuse("Dist", name, f"hbconv handles {', '.join(_MEANS)}.")
    return {"predict": Output(_MEANS[name](_params(step)), VECTOR)}


def _distribution(cls: type) -> str:
    """Return the name of a distribution, with its module where it is not ngboost's.

    Fitting wraps it to take targets without censoring.
    """
    wrapped = cls.__name__ == "DistWithUncensoredScore"
    distribution = cls.__bases__[0] if wrapped else cls
    ours = distribution.__module__.startswith("ngboost.")
    return distribution.__name__ if ours else f"{distribution.__module__}.{distribution.__name__}"


@parses("ngboost.NGBClassifier", features=lambda est: int(est.n_features), is_fitted=_is_fitted)
def parse_classifier(step: Step) -> dict[str, Output]:
    """Predict the softmax of the parameters; that of the first class is 0."""
    name = _distribution(step.estimator.Dist)
    if name not in ("Bernoulli", "Categorical"):
        raise step.refuse("Dist", name, "hbconv handles k_categorical.")
    params = _params(step)
    zero = ConstantRows(params, Array([0.0]))
    p = Softmax(Concat((zero, params)))
    classes = Labels(Array(np.arange(p.type.width)))
    return {"predict": Output(ArgMax(p), classes), "predict_proba": Output(p)}


def _params(step: Step) -> Node:
    """Subtract each stage's trees from the first parameters, in the source's order."""
    est = step.estimator
    first = np.ones(est.Manifold.n_params) * np.ravel(est.init_params)
    members = [model for models in est.base_models for model in models]
    if not members:
        return ConstantRows(step.require_finite(allow_nan=True), Array(first))
    # Subclasses and other learners have predict methods of their own.
    if not all(
        find_parser(model, step.where).name.startswith("sklearn.tree.") for model in members
    ):
        raise step.refuse("Base", est.Base, "hbconv handles scikit-learn's trees.")
    require_own_counts(step, members)
    columns = [
        positions
        for positions, models in zip(est.col_idxs, est.base_models, strict=True)
        for _ in models
    ]
    trees = read_trees(
        [model.tree_ for model in members], values=list(_values(est)), columns=columns
    )
    x = tree_input(step, members[0])
    # Every tree adds to all parameters, zeros to those of the
    # others, so one forest sums them in order.
    forest = assemble(trees, first, strict=False, n_features=x.type.width)
    return TreeEnsemble(x, forest)


def _values(est: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield what the leaves of each tree add to the parameters, rounded as in the source."""
    for models, scaling in zip(est.base_models, est.scalings, strict=True):
        for parameter, model in enumerate(models):
            values = np.zeros((model.tree_.node_count, est.Manifold.n_params))
            leaves = model.tree_.value[:, 0, 0]
            # The product in the source's order, then the sign: the sum
            # of all rounds as its difference does.
            values[:, parameter] = -(est.learning_rate * leaves * scaling)
            yield values
