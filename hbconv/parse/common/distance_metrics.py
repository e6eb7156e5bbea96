"""Distance metrics by name: a cheap monotone surrogate, and the distance recovered from it.

Neighbours are found by the surrogate, such as a squared distance.
The root is taken only of those found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, sin
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    BINARY_FORMULAS,
    Affine,
    Angle,
    BinaryDistances,
    Cast,
    CastLike,
    Clip,
    Distances,
    Haversine,
    Linear,
    Map,
    Node,
    Normalize,
    Power,
    SharedDistances,
    SquaredDistances,
)
from hbconv.parse.common.linear_scores import promote
from hbconv.parse.step import Step

__all__ = [
    "COUNTING",
    "Surrogate",
    "as_it_is",
    "named_metric",
    "read_metric",
    "refuse_no_metric",
    "squared_distances",
]

Points = npt.NDArray[Any]
Params = Mapping[str, Any]

COUNTING = (*BINARY_FORMULAS, "sokalmichener", "hamming")
"""Metrics that count features: under them most rows are as far as many others."""

_OBJECTS = (
    "euclidean", "manhattan", "chebyshev", "canberra", "hamming", "haversine", "jaccard", "dice",
    "rogerstanimoto", "russellrao", "sokalsneath", "sokalmichener",
)  # fmt: skip
"""Metrics without parameters that there are objects of."""

_WIDE = 15
"""Features beyond which one product pays; scikit-learn takes it from here on too."""


def as_it_is(values: Any) -> Any:
    """Return the values."""
    return values


@dataclass(frozen=True)
class Surrogate:
    """A value that grows with the distance to each point.

    Parameters
    ----------
    node : Node
        A column for each point.
    to_distance : callable
        Makes distances of such columns.
    of_distance : callable
        Makes the surrogate of one distance.
    of_distances : callable
        Makes such columns of distances.
    """

    node: Node
    to_distance: Callable[[Node], Node] = as_it_is
    of_distance: Callable[[float], float] = as_it_is
    of_distances: Callable[[Node], Node] = as_it_is


def read_metric(step: Step, x: Node, points: Points, metric: object, params: Params) -> Surrogate:
    """Return the surrogate of a metric by name, or refuse an unknown metric."""
    if not isinstance(metric, str) or metric not in _READERS:
        raise step.refuse("metric", metric, f"hbconv handles {', '.join(sorted(_READERS))}.")
    reader, allowed = _READERS[metric]
    parameters = {name: value for name, value in params.items() if value is not None}
    if unknown := sorted(parameters.keys() - allowed):
        raise step.refuse(
            "metric_params",
            params,
            f"With {metric!r} hbconv handles {', '.join(allowed) or 'none'}, not "
            f"{', '.join(unknown)}.",
        )
    return reader(step, x, points, parameters)


def named_metric(metric: Any, params: Params) -> tuple[Any, Params]:
    """Return the name and the parameters of a ``DistanceMetric`` object; other metrics as given.

    Examples
    --------
    >>> from sklearn.metrics import DistanceMetric
    >>> named_metric(DistanceMetric.get_metric("cityblock"), {})
    ('manhattan', {})
    >>> named_metric("cosine", {})
    ('cosine', {})
    """
    cls = type(metric)
    if cls.__module__ != "sklearn.metrics._dist_metrics":
        return metric, params
    # Objects for float32 rows keep their suffix here, so they are refused as unknown.
    name = cls.__name__.removesuffix("Distance64").lower()
    # Attributes of the compiled class are hidden; its pickled state holds the parameters.
    p, weights, _ = metric.__getstate__()
    constants = weights if len(weights) else None
    if name == "minkowski":
        return name, {"p": p, "w": constants}
    if name == "seuclidean":
        return name, {"V": constants}
    return (name if name in _OBJECTS else metric), {}


def refuse_no_metric(step: Step, metric: object) -> None:
    """Refuse a search tree over distances without the triangle inequality.

    Such a tree skips some near points.
    """
    if metric == "dice":
        raise step.refuse(
            "metric",
            metric,
            "It is not a true metric, so the search tree of the source model misses some "
            "neighbours. Use algorithm='brute'.",
        )


def squared_distances(x: Node, points: Points) -> Node:
    """Return squared distances in the common dtype of both, computed in float64.

    Rows with many features are computed by one matrix product, as the source model does.
    """
    if points.shape[1] > _WIDE:
        return SquaredDistances(x, Array(points))
    # Few terms are summed one by one: a product of matrices would cancel digits of near points.
    squares = _fold("square", x, points)
    return squares if points.dtype == np.float64 else CastLike(squares, promote(x, points))


def _fold(kind: str, x: Node, points: Points, p: float = 2.0) -> Node:
    return Distances(Cast(x, "float64"), Array(points.astype(np.float64)), kind, p)


_Reader = Callable[[Step, Node, Points, Params], Surrogate]


def _power(p: float, x: Node, points: Points) -> Surrogate:
    """Sum ``|x - y|^p``."""
    if p == 2:
        return Surrogate(
            _fold("square", x, points),
            lambda node: Map(node, "sqrt"),
            lambda radius: radius * radius,
            lambda node: Map(node, "square"),
        )
    if p == 1:
        # Sums and maxima are distances already, so nothing is undone.
        return Surrogate(_fold("absolute", x, points))
    if p == inf:
        return Surrogate(_fold("largest", x, points))
    return Surrogate(
        _fold("power", x, points, float(p)),
        lambda node: Power(node, 1.0 / p),
        lambda radius: radius**p,
        lambda node: Power(node, p),
    )


def _norm(p: float) -> _Reader:
    return lambda step, x, points, params: _power(p, x, points)


def _minkowski(step: Step, x: Node, points: Points, params: Params) -> Surrogate:
    """Scale features by their weights: ``w |x - y|^p = |w^(1/p) x - w^(1/p) y|^p``.

    A power below 1 magnifies the rounding of scaled features that are nearly equal.
    """
    p = float(params.get("p", 2))
    if "w" not in params:
        return _power(p, x, points)
    if not 1 <= p < inf:
        raise step.refuse("p", p, "With weights w hbconv handles a finite p from 1 on.")
    return _power(
        p, *_scale_features(x, points, np.asarray(params["w"], dtype=np.float64) ** (1.0 / p))
    )


def _scale_features(x: Node, points: Points, scale: Points) -> tuple[Node, Points]:
    return Affine.of(Cast(x, "float64"), mul=scale), points.astype(np.float64) * scale


def _standardized(_step: Step, x: Node, points: Points, params: Params) -> Surrogate:
    """Sum ``(x - y)^2 / V``."""
    return _power(
        2, *_scale_features(x, points, 1.0 / np.sqrt(np.asarray(params["V"], dtype=np.float64)))
    )


def _mahalanobis(step: Step, x: Node, points: Points, params: Params) -> Surrogate:
    """Use that ``(x - y) VI (x - y)`` is the squared length of ``(x - y) L``, ``VI = L L^T``."""
    inverse = np.asarray(
        params["VI"] if "VI" in params else np.linalg.inv(params["V"]), dtype=np.float64
    )
    try:
        # The quadratic form sees only the symmetric part, and cholesky reads only one triangle.
        factor = np.linalg.cholesky((inverse + inverse.T) / 2)
    except np.linalg.LinAlgError as error:
        raise step.refuse("metric_params", dict(params), "VI must be positive definite.") from error
    return _power(2, Linear.of(Cast(x, "float64"), factor), points.astype(np.float64) @ factor)


def _hamming(_step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
    # The metric is the share of unequal features, while the sum counts them.
    return Surrogate(Affine.of(_fold("different", x, points), div=points.shape[1]))


def _canberra(_step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
    return Surrogate(_fold("canberra", x, points))


def _binary(metric: str) -> _Reader:
    def read(step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
        if metric in ("dice", "sokalsneath") and not np.all(np.any(points != 0, axis=1)):
            raise step.refuse(
                "metric",
                metric,
                "A fitted row is all zeros: between it and another such row the metric is 0 / 0.",
            )
        return Surrogate(BinaryDistances(x, Array(points), metric))

    return read


def _haversine(step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
    if points.shape[1] != 2:
        raise step.refuse(
            "metric",
            "haversine",
            f"It is a distance of two columns, and was fitted on {points.shape[1]}: the "
            "source model finds no neighbours.",
        )
    node = Haversine(x, Array(points.astype(np.float64)))
    return Surrogate(
        node,
        Angle,
        # The node is the squared sine of half the angle, so a radius becomes one too.
        lambda radius: sin(0.5 * radius) ** 2,
        lambda angle: Map(Map(Affine.of(angle, mul=0.5), "sin"), "square"),
    )


def _cosine(_step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
    """Return one minus the product of normalized rows, clipped to 0 ... 2."""
    wide = points.astype(np.float64)
    length = np.sqrt((wide**2).sum(axis=1, keepdims=True))
    # scikit-learn divides by 1 where a length is below 10 eps (_handle_zeros_in_scale).
    normalized = wide / np.where(length < 10 * np.finfo(np.float64).eps, 1.0, length)
    similarity = Linear.of(Normalize(Cast(x, "float64"), "l2"), normalized.T)
    # Rounding makes products of unit rows exceed 1; cosine_distances clips as well.
    distance = Clip.of(Affine.of(similarity, mul=-1.0, add=1.0), 0.0, 2.0)
    return Surrogate(CastLike(distance, promote(x, points)))


def _nan_euclidean(_step: Step, x: Node, points: Points, _params: Params) -> Surrogate:
    return Surrogate(Map(CastLike(SharedDistances(x, Array(points)), promote(x, points)), "sqrt"))


_READERS: dict[str, tuple[_Reader, tuple[str, ...]]] = {
    **dict.fromkeys(("euclidean", "l2"), (_norm(2.0), ())),
    **dict.fromkeys(("manhattan", "cityblock", "l1"), (_norm(1.0), ())),
    **dict.fromkeys(("chebyshev", "infinity"), (_norm(inf), ())),
    **dict.fromkeys(("minkowski", "p"), (_minkowski, ("p", "w"))),
    "sqeuclidean": (lambda step, x, points, params: Surrogate(_fold("square", x, points)), ()),
    "seuclidean": (_standardized, ("V",)),
    "mahalanobis": (_mahalanobis, ("V", "VI")),
    "hamming": (_hamming, ()),
    "canberra": (_canberra, ()),
    "haversine": (_haversine, ()),
    "cosine": (_cosine, ()),
    "nan_euclidean": (_nan_euclidean, ()),
    **{metric: (_binary(metric), ()) for metric in BINARY_FORMULAS},
    "sokalmichener": (_binary("rogerstanimoto"), ()),
}
"""How each metric is read, and the parameters it has."""
