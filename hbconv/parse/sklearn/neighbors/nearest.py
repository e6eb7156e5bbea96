"""Estimators of neighbours: votes and means of the nearest rows, or of those within a radius.

Density around a row: the local outlier factor and kernel densities.
The nearest centroid, and a projection learned from neighbours, need no search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lgamma, log, pi
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    MATRIX,
    VECTOR,
    Affine,
    ArgMax,
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    Distances,
    GroupSums,
    Held,
    InverseDistances,
    LabelColumns,
    Labels,
    Linear,
    LogSumExp,
    LookupRows,
    Map,
    MatrixList,
    Maximum,
    Node,
    Output,
    Quotient,
    Scatter,
    Sparse,
    WeightedLookup,
)
from hbconv.errors import UnsupportedError
from hbconv.parse.common.distance_metrics import named_metric, read_metric, refuse_no_metric
from hbconv.parse.common.linear_scores import below_largest, classify
from hbconv.parse.common.versions import has_priors
from hbconv.parse.registry import parses
from hbconv.parse.sklearn.neighbors.search import (
    Neighbors,
    Within,
    constant_like,
    finite_rows,
    kneighbors,
    nearest,
    nearest_center,
    within,
)
from hbconv.parse.step import Step, concat

_VOTED_INSIDE = (
    "braycurtis", "canberra", "chebyshev", "cityblock", "haversine", "infinity", "l1", "l2",
    "manhattan", "minkowski", "p", "seuclidean", "sokalmichener",
)  # fmt: skip
"""Metrics by which the source can count votes inside its search by brute force."""
_PLAIN = {"manhattan": 1, "euclidean": 2, "chebyshev": np.inf}
"""Powers of the metrics that scikit-learn replaces by Minkowski's."""


def vote(step: Step, neighbors: Neighbors) -> Node:
    """Return the weight of each neighbour."""
    weights = step.require("weights", "uniform", "distance", None)
    if weights == "distance":
        return InverseDistances(Cast(neighbors.distances, "float64"))
    return ConstantRows(neighbors.positions, Array(np.ones(neighbors.positions.type.width)))


def one_hot(codes: npt.NDArray[Any], n_classes: int) -> Array:
    """Return a row for each code, with a one at the code."""
    return Array(np.equal.outer(codes, np.arange(n_classes)).astype(np.float64))


def votes_inside_search(estimator: Any) -> bool:
    """Tell whether the source counts votes inside its search, for rows of the fitted dtype alone.

    It never does so by Euclidean distance, which Minkowski's is where the parameter p is 2.
    """
    metric, _ = named_metric(estimator.metric, {})
    return (
        estimator.weights == "uniform"
        and not estimator.outputs_2d_
        and estimator._fit_method == "brute"
        and metric in _VOTED_INSIDE
        and not (metric == "minkowski" and estimator.p == 2)
    )


def refuse_two_metrics(step: Step) -> None:
    """Refuse two metrics: the parameter p for the fitted dtype, ``metric_params`` for others."""
    est = step.estimator
    if est.metric != "minkowski" or not votes_inside_search(est):
        return
    p = _PLAIN.get(est.effective_metric_, est.effective_metric_params_.get("p"))
    if p != est.p:
        hint = (
            f"By brute force scikit-learn takes p={est.p} for rows of some dtypes, and p={p} for "
            "others. Give the same p, or use algorithm='ball_tree'."
        )
        raise step.refuse("metric_params", est.metric_params, hint)


@parses("sklearn.neighbors.KNeighborsClassifier")
def parse_neighbors_classifier(step: Step) -> dict[str, Output]:
    """Let the neighbours vote; each output has classes of its own."""
    est = step.estimator
    refuse_two_metrics(step)
    neighbors = kneighbors(step)
    weights = vote(step, neighbors)
    classes = est.classes_ if est.outputs_2d_ else [est.classes_]
    codes = est._y if est.outputs_2d_ else est._y.reshape(-1, 1)
    votes = [
        WeightedLookup(neighbors.positions, weights, one_hot(codes[:, k], len(labels)))
        for k, labels in enumerate(classes)
    ]
    return {
        **classify_outputs(votes, classes, is_list=est.outputs_2d_),
        **neighbors.outputs(est.n_samples_fit_),
    }


def classify_outputs(
    votes: Sequence[Node], classes: Sequence[npt.NDArray[Any]], *, is_list: bool
) -> dict[str, Output]:
    """Return the classes of most votes and the shares of votes, a list for several outputs."""
    labels = tuple(Array(labels) for labels in classes)
    shares = concat([Quotient((each, GroupSums(each, 1))) for each in votes])
    if not is_list:
        return {
            "predict": Output(ArgMax(votes[0]), Labels(labels[0])),
            "predict_proba": Output(shares),
        }
    codes = concat([ArgMax(each) for each in votes])
    return {
        "predict": Output(codes, LabelColumns(labels)),
        "predict_proba": Output(shares, MatrixList(tuple(len(each) for each in labels))),
    }


@parses("sklearn.neighbors.KNeighborsRegressor")
def parse_neighbors_regressor(step: Step) -> dict[str, Output]:
    """Average the targets of the neighbours, weighted where they count by distance."""
    targets = np.asarray(step.estimator._y)
    neighbors = kneighbors(step)
    weights = vote(step, neighbors)
    table = targets.reshape(len(targets), -1)
    if isinstance(weights, ConstantRows):
        # np.mean keeps the dtype of float targets, and sums ints in float64.
        dtype = table.dtype if table.dtype.kind == "f" else np.dtype(np.float64)
        ones = ConstantRows(neighbors.positions, Array(weights.values.data.astype(dtype)))
        mean: Node = Affine.of(
            WeightedLookup(neighbors.positions, ones, Array(table.astype(dtype))),
            div=len(weights.values),
        )
    else:
        mean = Quotient(
            (
                WeightedLookup(neighbors.positions, weights, Array(table.astype(np.float64))),
                GroupSums(weights, 1),
            )
        )
    return {
        "predict": Output(mean, VECTOR if targets.ndim == 1 else MATRIX),
        **neighbors.outputs(step.estimator.n_samples_fit_),
    }


def _nearest_outputs(step: Step) -> dict[str, Output]:
    return kneighbors(step).outputs(step.estimator.n_samples_fit_)


def _radius_outputs(step: Step) -> dict[str, Output]:
    return within(step).outputs


_SEARCHES = (
    (("kneighbors", "kneighbors_graph"), _nearest_outputs),
    (("radius_neighbors", "radius_neighbors_graph"), _radius_outputs),
)


@parses("sklearn.neighbors.NearestNeighbors")
def parse_nearest_neighbors(step: Step) -> dict[str, Output]:
    """Return the neighbours themselves; what refuses one search leaves the other."""
    outputs: dict[str, Output] = {}
    refusals = []
    for methods, search in _SEARCHES:
        try:
            outputs |= search(step)
        except UnsupportedError as refusal:
            refusals.append(refusal)
            step.conditions.refused |= dict.fromkeys(methods, str(refusal))
    if not outputs:
        raise refusals[0]
    return outputs


@parses("sklearn.neighbors.KNeighborsTransformer")
def parse_neighbors_transformer(step: Step) -> dict[str, Output]:
    """Put distances, or ones, in the places of the neighbours.

    With distances there is one neighbour more.
    """
    est = step.estimator
    mode = step.require("mode", "distance", "connectivity")
    neighbors = kneighbors(step)
    size = est.n_samples_fit_
    # A fitted row would find itself first: the source asks for one neighbour more.
    entries = nearest(step, est, step.x, est.n_neighbors + 1) if mode == "distance" else neighbors
    values = (
        entries.distances
        if mode == "distance"
        else ConstantRows(entries.positions, Array(np.ones(est.n_neighbors)))
    )
    return {
        "transform": Output(Scatter(values, entries.positions, size), Sparse()),
        **neighbors.outputs(size),
    }


def _weights(step: Step, neighbors: Within) -> Node:
    """Return the weight of each fitted row, zero beyond the radius.

    By distance, rows that are met exactly count alone.
    """
    if step.require("weights", "uniform", "distance", None) != "distance":
        return Cast(neighbors.near, "float64")
    distances = Cast(neighbors.distances, "float64")
    return InverseDistances(Choose(neighbors.near, distances, constant_like(distances, np.inf)))


@parses("sklearn.neighbors.RadiusNeighborsTransformer")
def parse_radius_transformer(step: Step) -> dict[str, Output]:
    """Put the distances, or ones, in the places of the neighbours."""
    neighbors = within(step)
    values = neighbors.distances
    if step.require("mode", "distance", "connectivity") == "connectivity":
        values = constant_like(values, 1.0)
    return {"transform": Output(Held(neighbors.near, values), Sparse()), **neighbors.outputs}


@parses("sklearn.neighbors.RadiusNeighborsRegressor")
def parse_radius_regressor(step: Step) -> dict[str, Output]:
    """Average the targets of the neighbours.

    A row without any gets NaN, or what NaN becomes as an int target.
    """
    targets = np.asarray(step.estimator._y)
    table = targets.reshape(len(targets), -1)
    neighbors = within(step)
    weights = _weights(step, neighbors)
    with np.errstate(invalid="ignore"):
        # full_like casts NaN to the targets: an int becomes what the processor makes of it.
        nothing = np.full_like(table[0], np.nan).astype(np.float64)
    total = GroupSums(weights, 1)
    mean = Quotient((Linear.of(weights, table.astype(np.float64)), total))
    answer = Choose(Compare.of(total, "eq", 0.0), ConstantRows(total, Array(nothing)), mean)
    # Means of float32 targets stay float32; weights by distance are float64.
    narrow = targets.dtype == np.float32 and step.estimator.weights != "distance"
    return {
        "predict": Output(
            Cast(answer, "float32") if narrow else answer, VECTOR if targets.ndim == 1 else MATRIX
        ),
        **neighbors.outputs,
    }


@parses("sklearn.neighbors.RadiusNeighborsClassifier")
def parse_radius_classifier(step: Step) -> dict[str, Output]:
    """Let the neighbours vote; a row without any gets the outlier label."""
    est = step.estimator
    refuse_two_metrics(step)
    if est.outlier_label is not None and votes_inside_search(est):
        hint = (
            "By brute force its probabilities depend on the dtype of the rows. Use "
            "algorithm='ball_tree', or outlier_label=None."
        )
        raise step.refuse("outlier_label", est.outlier_label, hint)
    neighbors = within(step)
    weights = _weights(step, neighbors)
    alone = Compare.of(GroupSums(weights, 1), "eq", 0.0)
    if est.outlier_label_ is None:
        step.check(
            alone,
            f"No neighbours found for some rows (step {step.where!r}), and outlier_label is None.",
        )
    elif any(label is None for label in est.outlier_label_):
        raise step.damaged("outlier_label_ holds None, which the source model takes for a label")
    classes = est.classes_ if est.outputs_2d_ else [est.classes_]
    codes = est._y if est.outputs_2d_ else est._y.reshape(-1, 1)
    outliers = [None] * len(classes) if est.outlier_label_ is None else list(est.outlier_label_)
    each = [
        _answer(weights, alone, codes[:, k], labels, outliers[k])
        for k, labels in enumerate(classes)
    ]
    decided, shares, labels = zip(*each, strict=True)
    if not est.outputs_2d_:
        return {
            "predict": Output(decided[0], Labels(labels[0])),
            "predict_proba": Output(shares[0]),
            **neighbors.outputs,
        }
    return {
        "predict": Output(concat(decided), LabelColumns(labels)),
        "predict_proba": Output(
            concat(shares), MatrixList(tuple(len(labels) for labels in classes))
        ),
        **neighbors.outputs,
    }


def _answer(
    weights: Node, alone: Node, codes: npt.NDArray[Any], classes: npt.NDArray[Any], outlier: Any
) -> tuple[Node, Node, Array]:
    """Return class codes, shares of votes, and labels.

    The last label is an outlier label that is not a class.
    """
    votes = Linear.of(weights, one_hot(codes, len(classes)).data)
    # The outlier label may be one of the classes, and then shares its column.
    place = np.flatnonzero(classes == outlier)
    beside = ConstantRows(
        alone,
        Array(
            (np.arange(len(classes)) == (place[0] if len(place) == 1 else -1)).astype(np.float64)
        ),
    )
    shares = Choose(alone, beside, Quotient((votes, GroupSums(votes, 1))))
    labels = classes if outlier is None else np.append(classes, outlier).astype(classes.dtype)
    code = ConstantRows(
        alone, Array(np.array([len(labels) - 1 if not len(place) else place[0]], dtype=np.int32))
    )
    return Choose(alone, code, ArgMax(votes)), shares, Array(labels)


@parses("sklearn.neighbors.LocalOutlierFactor")
def parse_local_outlier_factor(step: Step) -> dict[str, Output]:
    """Score new rows, where the model was fitted with ``novelty=True``."""
    est = step.estimator
    if not est.novelty:
        raise step.refuse(
            "novelty", est.novelty, "It scores no new rows: fit it with novelty=True."
        )
    scores = _outlier_scores(step, nearest(step, est, finite_rows(step), est.n_neighbors_))
    decision = Affine.of(scores, sub=est.offset_)
    inlier, outlier = (ConstantRows(decision, Array(np.array([label]))) for label in (1, -1))
    outputs = {
        "predict": Output(Choose(Compare.of(decision, "lt", 0.0), outlier, inlier), VECTOR),
        "decision_function": Output(decision, VECTOR),
        "score_samples": Output(scores, VECTOR),
    }
    # With more neighbors than rows the scores take all rows, and the source refuses the others.
    if est.n_neighbors <= est.n_samples_fit_:
        outputs |= kneighbors(step).outputs(est.n_samples_fit_)
    return outputs


def _outlier_scores(step: Step, neighbors: Neighbors) -> Node:
    """Return minus the mean density of the neighbours, divided by the density of the row.

    A density is one by the mean distance; each distance is at least the neighbour's reach.
    Distances have the dtype of float rows.
    """
    est = step.estimator
    count = neighbors.positions.type.width
    distances = CastLike(neighbors.distances, Cast(step.x, "float"))
    # The distance of a fitted row to its own last neighbour.
    reach = LookupRows(neighbors.positions, Array(est._distances_fit_X_[:, count - 1 : count]))
    # The source adds 1e-10, so that duplicates have a finite density.
    mean = Affine.of(GroupSums(Maximum((distances, reach)), 1), div=count, add=1e-10)
    density = Map(mean, "reciprocal")
    densities = LookupRows(neighbors.positions, Array(est._lrd[:, None]))
    return Affine.of(GroupSums(Quotient((densities, density)), 1), div=count, mul=-1.0)


@parses("sklearn.neighbors.KernelDensity")
def parse_kernel_density(step: Step) -> dict[str, Output]:
    """Return the log of the mean bump; a tolerance is refused."""
    est = step.estimator
    for tolerance in ("atol", "rtol"):
        if getattr(est, tolerance) != 0:
            raise step.refuse(
                tolerance,
                getattr(est, tolerance),
                "Within it the result depends on the search tree of the source model. Use "
                f"{tolerance}=0.",
            )
    refuse_no_metric(step, est.metric)
    x = step.require_finite(Cast(step.x, "float64"))
    points = np.asarray(est.tree_.data, dtype=np.float64)
    width = step.x.type.width
    surrogate = read_metric(step, x, points, est.metric, est.metric_params or {})
    ratios = Affine.of(surrogate.to_distance(surrogate.node), div=est.bandwidth_)
    bumps = _KERNELS[step.require("kernel", *_KERNELS)](ratios)
    weights = None if est.tree_.sample_weight is None else np.asarray(est.tree_.sample_weight)
    if weights is not None:
        with np.errstate(divide="ignore"):
            # Weights multiply the bumps, whose logarithms are summed here.
            bumps = Affine.of(bumps, add=np.log(weights))
    total = log(len(points) if weights is None else float(est.tree_.sum_weight))
    volume = _LOG_VOLUMES[est.kernel](width) + width * log(est.bandwidth_)
    return {"score_samples": Output(Affine.of(LogSumExp(bumps), sub=volume + total), VECTOR)}


def _cut_bump(x: Node, bump: Node) -> Node:
    """Return the bump for ratios below 1, and zero elsewhere."""
    return Choose(
        Compare.of(x, "lt", 1.0),
        bump,
        # Outside the bump is zero, whose logarithm is -inf.
        ConstantRows(x, Array(np.full(x.type.width, -np.inf))),
    )


_KERNELS: dict[str, Callable[[Node], Node]] = {
    "gaussian": lambda x: Affine.of(Map(x, "square"), mul=-0.5),
    "tophat": lambda x: _cut_bump(x, ConstantRows(x, Array(np.zeros(x.type.width)))),
    "epanechnikov": lambda x: _cut_bump(
        x, Map(Affine.of(Map(x, "square"), mul=-1.0, add=1.0), "log")
    ),
    "exponential": lambda x: Affine.of(x, mul=-1.0),
    "linear": lambda x: _cut_bump(x, Map(Affine.of(x, mul=-1.0, add=1.0), "log")),
    "cosine": lambda x: _cut_bump(x, Map(Map(Affine.of(x, mul=0.5 * pi), "cos"), "log")),
}
"""Logarithms of bumps of height 1, by the ratio of distance and bandwidth."""


def _log_ball(width: int) -> float:
    """Return the log volume of the unit ball: ``pi^(d/2) / gamma(d/2 + 1)``."""
    return 0.5 * width * log(pi) - lgamma(0.5 * width + 1)


def _log_sphere(width: int) -> float:
    """Return the log surface of the unit ball: ``2 pi`` times its volume in d - 2 dimensions."""
    return log(2 * pi) + _log_ball(width - 2)


def _log_cosine(width: int) -> float:
    """Return the log integral of ``r^(d - 1) cos(pi r / 2)`` over r from 0 to 1, by parts.

    The terms are those of the source model; the result is NaN where their sum is negative.
    """
    total = 0.0
    term = 2.0 / pi
    for k in range(1, width + 1, 2):
        total += term
        # Integration by parts lowers the power of r by 2 at each step.
        term *= -(width - k) * (width - k - 1) * (2.0 / pi) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.log(total))


_LOG_VOLUMES: dict[str, Callable[[int], float]] = {
    "gaussian": lambda width: 0.5 * width * log(2 * pi),
    "tophat": _log_ball,
    "epanechnikov": lambda width: _log_ball(width) + log(2.0 / (width + 2.0)),
    "exponential": lambda width: _log_sphere(width) + lgamma(width),
    "linear": lambda width: _log_ball(width) - log(width + 1.0),
    "cosine": lambda width: _log_cosine(width) + _log_sphere(width),
}
"""Logarithms of the volumes under the bumps, by the number of dimensions."""


@parses("sklearn.neighbors.NearestCentroid")
def parse_nearest_centroid(step: Step) -> dict[str, Output]:
    """Return the class of the nearest centroid, weighed by unequal priors.

    Probabilities come with the Euclidean metric only.
    """
    est = step.estimator
    x = step.require_finite()
    classes = Array(est.classes_)
    metric = step.require("metric", "euclidean", "manhattan")
    if not has_priors(est):
        return {"predict": Output(_nearest_centroid(step, x, metric), Labels(classes))}
    scores = _centroid_scores(step, x, metric)
    # With equal priors the source predicts by distance alone, by the metric of the estimator.
    has_equal_priors = np.isclose(est.class_prior_, 1 / len(classes)).all()
    label = _nearest_centroid(step, x, metric) if has_equal_priors else ArgMax(scores)
    predict = {"predict": Output(label, Labels(classes))}
    if metric == "manhattan":
        return predict
    two = len(classes) == 2
    decision = Linear.of(scores, np.array([-1.0, 1.0])) if two else scores
    return {
        **classify(below_largest(scores), est.classes_),
        **predict,
        "decision_function": Output(decision, VECTOR if two else MATRIX),
    }


def _nearest_centroid(step: Step, x: Node, metric: str) -> Node:
    centroids = step.estimator.centroids_
    if metric == "euclidean":
        return nearest_center(step, x, centroids)
    return ArgMax(Map(read_metric(step, x, centroids, metric, {}).node, "neg"))


def _centroid_scores(step: Step, x: Node, metric: str) -> Node:
    """Return ``2 log(prior) - distance^2``, columns divided by their spread within the classes."""
    est = step.estimator
    # Columns that never vary within a class are not scaled.
    spread = np.where(est.within_class_std_dev_ == 0, 1.0, est.within_class_std_dev_)
    scaled = Affine.of(Cast(x, "float64"), div=spread)
    squares: Node = Distances(
        scaled, Array(est.centroids_ / spread), "square" if metric == "euclidean" else "absolute"
    )
    squares = squares if metric == "euclidean" else Map(squares, "square")
    with np.errstate(divide="ignore"):
        return Affine.of(squares, mul=-1.0, add=2.0 * np.log(est.class_prior_))


@parses("sklearn.neighbors.NeighborhoodComponentsAnalysis")
def parse_neighborhood_components(step: Step) -> Node:
    """Project on the components."""
    return Linear.of(step.require_finite(), step.estimator.components_.T)
