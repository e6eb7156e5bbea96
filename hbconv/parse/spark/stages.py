"""Stages of Spark ML: those that make columns, and models, with trees or without."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    VECTOR,
    Affine,
    ArgMax,
    Bins,
    Cast,
    CategoryCodes,
    Choose,
    Compare,
    Concat,
    ConstantRows,
    GroupSums,
    Impute,
    IsMissing,
    Linear,
    Map,
    Node,
    OneHot,
    Output,
    Quotient,
    Recode,
    Select,
    Softmax,
    TreeEnsemble,
)
from hbconv.parse.common.distance_metrics import squared_distances
from hbconv.parse.common.linear_scores import beside_complement
from hbconv.parse.common.node_tables import NodeTable, assemble, category_sizes, category_tables
from hbconv.parse.common.text_columns import category_codes
from hbconv.parse.spark.saved_model import SparkStage, class_output, dense_vector, stage
from hbconv.parse.step import concat
from hbconv.trees.forest import Forest


@stage("StringIndexerModel")
def read_string_indexer(at: SparkStage) -> None:
    """Find the number of texts; unseen and missing ones have the one behind the last, if kept."""
    policy = at.require("handleInvalid", "error", "keep")
    tables = at.model.learned.get("labelsArray") or [at.model.learned["labels"]]
    for name, name_out, labels in zip(at.inputs(), at.outputs(), tables, strict=True):
        codes = category_codes(at.reading(name), 0, np.array(labels, dtype=object))
        # The first entry is for unknown texts: behind the last label, where they are kept.
        table = np.array([len(labels), *range(len(labels))], np.float64)
        if policy == "error":
            at.step.check(
                Compare.of(codes, "eq", -1),
                f"Unseen label in column {name!r} (step {at.step.where!r}).",
            )
        at.frame.add(name_out, Recode(codes, (Array(table),)))
        at.frame.labels[name_out] = tuple(labels)


@stage("IndexToString")
def read_index_to_string(at: SparkStage) -> None:
    """Name numbers by labels; the answers of the model become those texts."""
    labels = at.get("labels")
    if not labels:
        raise at.refuse("labels", labels, "Set labels=indexer.labels, so that the file has them.")
    at.frame.labels[at.inputs()[0]] = tuple(labels)


@stage("OneHotEncoderModel")
def read_one_hot_encoder(at: SparkStage) -> None:
    """Write zeros and a one; the last category, or what is kept behind it, has zeros alone.

    All that is no category is kept: numbers below 0 and from ``size`` on, and NaN.
    """
    policy = at.require("handleInvalid", "error", "keep")
    sizes = at.model.learned["categorySizes"]
    for name, name_out, size in zip(at.inputs(), at.outputs(), sizes, strict=True):
        x = Cast(at.column(name), "float64")
        for odd in (Compare.of(x, "lt", 0.0), Compare.of(x, "ge", float(size)), IsMissing(x)):
            if policy == "error":
                message = f"Unseen value in column {name!r} (step {at.step.where!r})."
                at.step.check(odd, message)
        width = size + (policy == "keep") - bool(at.get("dropLast"))
        # What is kept has a column of its own if the width allows one, else none is hot.
        other = ConstantRows(x, Array([float(size) if width > size else -1.0]))
        below = Choose(Compare.of(x, "lt", float(min(size, width))), x, other)
        codes = Cast(Choose(Compare.of(x, "ge", 0.0), below, other), "int32")
        at.frame.add(name_out, OneHot(codes, (width,)))


@stage("ImputerModel")
def read_imputer(at: SparkStage) -> None:
    """Fill missing numbers, each column with its own."""
    missing = float(at.get("missingValue"))
    for name, name_out in zip(at.inputs(), at.outputs(), strict=True):
        x = Cast(at.column(name), "float64")
        fill = Array(np.array([float(at.model.learned[name])]))
        filled = Impute(x, fill)
        at.frame.add(name_out, filled if np.isnan(missing) else Impute(filled, fill, missing))


@stage("Bucketizer")
def read_bucketizer(at: SparkStage) -> None:
    """Find the bucket of each number; the last one holds its upper end too."""
    policy = at.require("handleInvalid", "error", "keep")
    many = at.get("splitsArray") or [at.get("splits")]
    for name, name_out, stored in zip(at.inputs(), at.outputs(), many, strict=True):
        splits = np.array([_number(split) for split in stored])
        x = Cast(at.column(name), "float64")
        # Spark raises for values out of the splits, whatever handleInvalid says.
        for op, end in (("lt", splits[0]), ("gt", splits[-1])):
            at.step.check(
                Compare.of(x, op, float(end)),
                f"A value of column {name!r} is out of the splits (step {at.step.where!r}).",
            )
        if policy == "error":
            at.step.check(IsMissing(x), f"Column {name!r} holds NaN (step {at.step.where!r}).")
        last = ConstantRows(x, Array([float(len(splits) - 1)]))
        at.frame.add(name_out, Choose(IsMissing(x), last, Bins(x, Array(splits[None, 1:-1]))))


def _number(split: Any) -> float:
    """Return a split, whose infinite values Spark writes as text."""
    return float(str(split).replace("Inf", "inf"))


@stage("VectorAssembler")
def read_vector_assembler(at: SparkStage) -> None:
    """Put columns and vectors side by side; a number that is missing is refused."""
    policy = at.require("handleInvalid", "error", "keep")
    parts = [Cast(at.column(name), "float64") for name in at.inputs()]
    for name, part in zip(at.inputs(), parts, strict=True):
        if policy == "error" and part.type.width == 1:
            at.step.check(IsMissing(part), f"Column {name!r} holds NaN (step {at.step.where!r}).")
    at.frame.add(at.outputs()[0], concat(parts))


@stage("StandardScalerModel")
def read_standard_scaler(at: SparkStage) -> None:
    """Subtract the mean and multiply by one over the deviation, 0 where that is 0."""
    deviation = at.model.vector("std")
    steps = {"sub": at.model.vector("mean")} if at.get("withMean") else {}
    if at.get("withStd"):
        with np.errstate(divide="ignore"):
            # Spark multiplies by the reciprocal, which rounds otherwise than a division.
            steps["mul"] = np.where(deviation == 0, 0.0, 1 / deviation)
    at.frame.add(at.outputs()[0], Affine.of(at.column(at.inputs()[0]), **steps))


@stage("MinMaxScalerModel")
def read_min_max_scaler(at: SparkStage) -> None:
    """Scale the range of fitting to another; a column without range becomes its middle."""
    low, high = at.model.vector("originalMin"), at.model.vector("originalMax")
    least, most = float(at.get("min", 0.0)), float(at.get("max", 1.0))
    x = at.column(at.inputs()[0])
    constant = high == low
    with np.errstate(divide="ignore"):
        # A scale of 0 sends every number of a constant column to the offset.
        scale = np.where(constant, 0.0, (most - least) / (high - low))
    offset = np.where(constant, (least + most) / 2, least)
    scaled = Affine.of(x, sub=low, mul=scale, add=offset)
    at.frame.add(at.outputs()[0], scaled)


@stage("MaxAbsScalerModel")
def read_max_abs_scaler(at: SparkStage) -> None:
    """Divide by the largest magnitude of fitting, by 1 where that is 0."""
    largest = at.model.vector("maxAbs")
    divided = Affine.of(at.column(at.inputs()[0]), div=np.where(largest == 0, 1.0, largest))
    at.frame.add(at.outputs()[0], divided)


@stage("PCAModel")
def read_pca(at: SparkStage) -> None:
    """Project on the principal components, without centring."""
    projected = Linear.of(at.column(at.inputs()[0]), at.model.matrix("pc"))
    at.frame.add(at.outputs()[0], projected)


@stage("VectorSlicer")
def read_vector_slicer(at: SparkStage) -> None:
    """Select entries of a vector by their places."""
    if at.get("names"):
        raise at.refuse("names", at.get("names"), "Select by indices.")
    places = Array.of(at.get("indices"), np.int32)
    at.frame.add(at.outputs()[0], Select(at.column(at.inputs()[0]), places))


@stage("LinearRegressionModel")
def read_linear_regression(at: SparkStage) -> None:
    """Predict the product of columns and coefficients, and the intercept."""
    at.frame.answers = {"predict": Output(_product(at), VECTOR)}


@stage("LinearSVCModel")
def read_linear_svc(at: SparkStage) -> None:
    """Compare the margin with the threshold."""
    margin = _product(at)
    at.frame.answers = {
        "predict": class_output(Compare.of(margin, "gt", float(at.get("threshold")), "int32"), 2),
        "raw_scores": Output(Concat((Map(margin, "neg"), margin))),
    }


def _product(at: SparkStage) -> Node:
    weights = at.model.vector("coefficients")
    return Linear.of(at.column(at.inputs()[0]), weights, np.float64(at.model.learned["intercept"]))


@stage("LogisticRegressionModel")
def read_logistic_regression(at: SparkStage) -> None:
    """Take the logistic of one margin, or the softmax of a margin for each class."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "Set threshold instead.")
    weights = at.model.matrix("coefficientMatrix")
    margins = Linear.of(at.column(at.inputs()[0]), weights.T, at.model.vector("interceptVector"))
    # Of two classes, multinomial models still have a margin for each.
    if at.model.learned["isMultinomial"]:
        _answer_classes(at, margins, Softmax(margins))
        return
    p = Map(margins, "sigmoid")
    least = _margin_of(float(at.get("threshold")))
    at.frame.answers = {
        "predict": class_output(Compare.of(margins, "gt", least, "int32"), 2),
        "predict_proba": Output(beside_complement(p)),
        "raw_scores": Output(Concat((Map(margins, "neg"), margins))),
    }


def _margin_of(share: float) -> float:
    """Return the margin that the threshold of a probability stands for: Spark compares margins."""
    if share in (0.0, 1.0):
        return math.inf if share else -math.inf
    return math.log(share / (1.0 - share))


@stage("NaiveBayesModel")
def read_naive_bayes(at: SparkStage) -> None:
    """Add the logarithms of shares, times counts, to those of the classes."""
    at.require("modelType", "multinomial")
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    theta = at.model.matrix("theta")
    scores = Linear.of(at.column(at.inputs()[0]), theta.T, at.model.vector("pi"))
    x = at.column(at.inputs()[0])
    at.step.check(Compare.of(x, "lt", 0.0), f"Features are negative (step {at.step.where!r}).")
    _answer_classes(at, scores, Softmax(scores))


@stage("MultilayerPerceptronClassificationModel")
def read_perceptron(at: SparkStage) -> None:
    """Pass layers with logistic units; the last one has the softmax.

    The weights of a layer are stored by columns of (outputs, inputs), then its offsets.
    """
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    weights = at.model.vector("weights")
    layers = list(at.get("layers"))
    x: Node = at.column(at.inputs()[0])
    start = 0
    for n_inputs, n_outputs in pairwise(layers):
        end = start + n_inputs * n_outputs
        layer = weights[start:end].reshape(n_inputs, n_outputs)
        x = Linear.of(Map(x, "sigmoid") if start else x, layer, weights[end : end + n_outputs])
        start = end + n_outputs
    _answer_classes(at, x, Softmax(x))


def _answer_classes(at: SparkStage, scores: Node, p: Node) -> None:
    at.frame.answers = {
        "predict": class_output(ArgMax(scores), p.type.width),
        "predict_proba": Output(p),
        "raw_scores": Output(scores),
    }


@stage("KMeansModel")
def read_k_means(at: SparkStage) -> None:
    """Find the nearest centre."""
    at.require("distanceMeasure", "euclidean", None)
    rows = sorted(at.model.rows, key=lambda row: int(row["clusterIdx"]))
    centres = np.array([dense_vector(row["clusterCenter"]) for row in rows])
    # The nearest by squares is the nearest: roots keep the order.
    distances = squared_distances(at.column(at.inputs()[0]), centres)
    nearest = ArgMax(Map(distances, "neg"))
    at.frame.answers = {"predict": Output(Cast(nearest, "int32"), VECTOR)}


Rows = Sequence[dict[str, Any]]


@stage("DecisionTreeRegressionModel")
def read_tree_regressor(at: SparkStage) -> None:
    """Predict the number of the leaf."""
    sums = _sums(at, _predictions)
    at.frame.answers = {"predict": Output(sums, VECTOR)}


@stage("RandomForestRegressionModel")
def read_forest_regressor(at: SparkStage) -> None:
    """Predict the mean of the trees' numbers."""
    mean = Affine.of(_sums(at, _predictions), div=float(len(_trees(at))))
    at.frame.answers = {"predict": Output(mean, VECTOR)}


@stage("GBTRegressionModel")
def read_boosted_regressor(at: SparkStage) -> None:
    """Predict the sum of the trees' numbers, each times its weight."""
    at.frame.answers = {"predict": Output(_sums(at, _predictions, _weights(at)), VECTOR)}


@stage("GBTClassificationModel")
def read_boosted_classifier(at: SparkStage) -> None:
    """Predict by the sign of the sum; probabilities are logistic in twice the sum."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    margin = _sums(at, _predictions, _weights(at))
    p = Map(Affine.of(margin, mul=2.0), "sigmoid")
    codes = Compare.of(margin, "gt", 0.0, "int32")
    at.frame.answers = {
        "predict": class_output(codes, 2),
        "predict_proba": Output(beside_complement(p)),
        "raw_scores": Output(Concat((Map(margin, "neg"), margin))),
    }


@stage("DecisionTreeClassificationModel", "RandomForestClassificationModel")
def read_forest_classifier(at: SparkStage) -> None:
    """Sum the trees' class counts, of a forest's tree as shares, and divide by their total."""
    if at.get("thresholds"):
        raise at.refuse("thresholds", at.get("thresholds"), "hbconv handles none.")
    forest = at.model.kind.startswith("RandomForest")
    raw = _sums(at, _shares if forest else _counts)
    at.frame.answers = {
        "predict": class_output(ArgMax(raw), raw.type.width),
        "predict_proba": Output(Quotient((raw, GroupSums(raw, 1)))),
        "raw_scores": Output(raw),
    }


def _trees(at: SparkStage) -> list[Rows]:
    """Return the nodes of each tree, in the order of their numbers."""
    rows = at.model.rows
    # A single tree has its nodes as rows; a forest wraps them with the number of their tree.
    if not rows or "nodeData" not in rows[0]:
        return [sorted(rows, key=_node_id)]
    trees: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        trees.setdefault(row["treeID"], []).append(row["nodeData"])
    return [sorted(trees[number], key=_node_id) for number in sorted(trees)]


def _node_id(node: dict[str, Any]) -> int:
    return int(node["id"])


def _weights(at: SparkStage) -> npt.NDArray[np.float64]:
    """Return the weight of each tree, which Spark keeps beside the nodes."""
    rows = sorted(at.model.table("treesMetadata"), key=lambda row: int(row["_1"]))
    return np.array([row["_3"] for row in rows], np.float64)


def _predictions(node: dict[str, Any]) -> list[float]:
    return [node["prediction"]]


def _counts(node: dict[str, Any]) -> list[float]:
    return list(node["impurityStats"])


def _shares(node: dict[str, Any]) -> list[float]:
    total = sum(node["impurityStats"])
    return [count / total if total else 0.0 for count in node["impurityStats"]]


def _sums(at: SparkStage, values: Any, weights: npt.NDArray[np.float64] | None = None) -> Node:
    """Add what the leaf of each tree holds, tree after tree."""
    trees = _trees(at)
    # A leaf times its weight is one product either way, so it is taken when the model is read.
    each = np.ones(len(trees)) if weights is None else weights
    x: Node = Cast(at.column(at.inputs()[0]), "float64")
    nodes = [node for tree in trees for node in tree]
    leaf_values = np.array([values(node) for node in nodes], np.float64)
    scaled = leaf_values * np.repeat(each, [len(tree) for tree in trees])[:, None]
    forest, sizes = _forest(nodes, [len(tree) for tree in trees], scaled, x.type.width)
    return TreeEnsemble(CategoryCodes(x, sizes) if sizes.data.any() else x, forest)


def _forest(
    nodes: Rows, counts: list[int], values: npt.NDArray[np.float64], n_features: int
) -> tuple[Forest, Array]:
    """Make the forest."""
    splits = [node["split"] for node in nodes]
    left = np.array([node["leftChild"] for node in nodes], np.int64)
    feature = np.array([split["featureIndex"] for split in splits], np.int64)
    categorical = np.array([split["numCategories"] >= 0 for split in splits]) & (left >= 0)
    tests = np.flatnonzero(categorical)
    # Leaves and thresholds have numCategories=-1.
    kept = [_kept_categories(splits[i]) for i in tests]
    lists = [categories for categories, _ in kept]
    counts_of = np.array([len(categories) for categories in lists], np.int64)
    listed_left = np.array([goes_left for _, goes_left in kept], np.bool_)
    set_of = np.full(len(nodes), -1)
    set_of[tests] = np.arange(len(tests))
    tables = category_tables(
        set_of,
        counts_of,
        np.concatenate(lists) if lists else np.zeros(0, np.int64),
        listed_left=np.repeat(listed_left, counts_of),
        nan_left=~listed_left,
        other_left=~listed_left,
    )
    table = NodeTable(
        counts,
        feature,
        np.array([(split["leftCategoriesOrThreshold"] or [0.0])[0] for split in splits]),
        np.zeros(len(nodes), np.bool_),
        left,
        np.array([node["rightChild"] for node in nodes], np.int64),
        values,
        tables,
    )
    sizes = category_sizes(
        n_features,
        feature[tests],
        np.array([categories.max(initial=-1) for categories in lists], np.int64),
    )
    start = np.zeros(values.shape[1])
    return assemble(table.split(), start, strict=False, n_features=n_features), sizes


def _kept_categories(split: dict[str, Any]) -> tuple[npt.NDArray[np.int64], bool]:
    """Return the categories that Spark looks for, and whether they go left.

    It keeps those of the smaller side; all others go to the other side, also those never seen.
    """
    left = np.array(split["leftCategoriesOrThreshold"], np.int64)
    # Spark's CategoricalSplit decides by this size which side unknown categories take.
    if len(left) <= split["numCategories"] // 2:
        return left, True
    return np.setdiff1d(np.arange(split["numCategories"]), left), False
