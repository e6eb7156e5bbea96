"""Results of statsmodels' linear, generalized linear and discrete models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    Cast,
    Choose,
    Compare,
    Concat,
    ConstantRows,
    GroupSums,
    Linear,
    Map,
    Node,
    Output,
    Quotient,
    Schema,
)
from hbconv.parse.registry import parses
from hbconv.parse.step import Step, select

Link = Callable[[Node], Node]


def _one(x: Node) -> Node:
    return ConstantRows(x, Array([1.0]))


def _logistic(x: Node) -> Node:
    """Return ``1 / (1 + exp(-x))``, which is 0 where the exponential exceeds all floats."""
    return Quotient((_one(x), Affine.of(Map(Map(x, "neg"), "exp"), add=1.0)))


def _complement_of_exponential(x: Node) -> Node:
    return Affine.of(Map(x, "exp"), mul=-1.0, add=1.0)


def _complementary_log_log(x: Node) -> Node:
    return _complement_of_exponential(Map(Map(x, "exp"), "neg"))


def _log_log(x: Node) -> Node:
    return Map(Map(Map(Map(x, "neg"), "exp"), "neg"), "exp")


def _odds_shares(x: Node) -> Node:
    """Return the shares of 1 and of the exponentials."""
    odds = Concat((_one(x), Map(x, "exp")))
    return Quotient((odds, GroupSums(odds, 1)))


_MEANS: dict[str, Link] = {
    "statsmodels.discrete.discrete_model.Logit": _logistic,
    "statsmodels.discrete.discrete_model.MNLogit": _odds_shares,
    "statsmodels.discrete.discrete_model.Poisson": lambda x: Map(x, "exp"),
    **dict.fromkeys(
        (
            "statsmodels.regression.linear_model.GLS",
            "statsmodels.regression.linear_model.GLSAR",
            "statsmodels.regression.linear_model.OLS",
            "statsmodels.regression.linear_model.WLS",
            "statsmodels.regression.quantile_regression.QuantReg",
            "statsmodels.robust.robust_linear_model.RLM",
        ),
        lambda x: x,
    ),
}
"""What each model predicts of the product of columns and parameters."""

_LINKS: dict[str, Link] = {
    "CLogLog": _complementary_log_log,
    "Identity": lambda x: x,
    "InversePower": lambda x: Map(x, "reciprocal"),
    "Log": lambda x: Map(x, "exp"),
    "LogC": _complement_of_exponential,
    "LogLog": _log_log,
    "Logit": _logistic,
    "Sqrt": lambda x: Map(x, "square"),
}
"""Means of a generalized linear model, by the name of its link."""

_LINK_MODULE = "statsmodels.genmod.families.links"
_GLM = "statsmodels.genmod.generalized_linear_model.GLM"


def _features(results: Any) -> Schema:
    """Return the columns of the design matrix; those of a frame are found by position."""
    names = [str(name) for name in results.model.exog_names[: len(np.asarray(results.params))]]
    frames = type(results.model.data).__name__ == "PandasData"
    return Schema.table(names, finds="positions") if frames else Schema.matrix(len(names))


@parses("statsmodels.base.wrapper.ResultsWrapper", features=_features)
def parse_results(step: Step) -> dict[str, Output]:
    """Multiply the columns by the parameters, and apply what the model makes of the product."""
    step.refuse_sparse()
    model = step.estimator.model
    if getattr(model.data, "model_spec", None) is not None:
        hint = "Fit the model on the design matrix that the formula makes, and give hbconv that."
        raise step.refuse("formula", getattr(model, "formula", None), hint)
    mean = _mean(step, model)
    params = np.asarray(step.estimator.params, np.float64)
    predicted = mean(_product(step.x, params))
    return {"predict": Output(predicted, VECTOR if params.ndim == 1 else MATRIX)}


def _product(x: Node, params: npt.NDArray[np.float64]) -> Node:
    """Return the product of columns and parameters.

    Zero times what is not finite is NaN. The optimizer leaves such columns out of a product, so
    they are looked at apart.
    """
    product = Linear.of(x, params)
    # Penalties set parameters to 0, and numpy makes NaN of infinity times 0.
    unused = np.flatnonzero(~params.reshape(len(params), -1).any(axis=1))
    if not len(unused):
        return product
    finite = Compare.of(Map(Cast(select(x, unused.tolist()), "float64"), "abs"), "lt", np.inf)
    all_finite = Compare.of(GroupSums(Cast(finite, "int32"), 1), "ge", len(unused))
    return Choose(all_finite, product, ConstantRows(x, Array([np.nan] * product.type.width)))


def _mean(step: Step, model: Any) -> Link:
    name = f"{type(model).__module__}.{type(model).__name__}"
    if name == _GLM:
        cls = type(model.family.link)
        link = cls.__name__
        # A user's class may have the name of a link.
        if link not in _LINKS or cls.__module__ != _LINK_MODULE:
            raise step.refuse("link", link, f"hbconv handles {', '.join(_LINKS)}.")
        return _LINKS[link]
    if name not in _MEANS:
        handled = sorted(model_name.rpartition(".")[2] for model_name in (*_MEANS, _GLM))
        raise step.refuse("model", type(model).__name__, f"hbconv handles {', '.join(handled)}.")
    return _MEANS[name]
