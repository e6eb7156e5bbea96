"""Products with constant matrices, linear models and support vector machines.

What all classifiers of ``ai.onnx.ml`` share is here too: from scores to probabilities and labels.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    ArgMax,
    Cast,
    Choose,
    Clip,
    Compare,
    Concat,
    ConstantRows,
    GroupSums,
    Impute,
    Linear,
    Map,
    Multiply,
    Node,
    PairwiseCoupling,
    Pool,
    Power,
    Quotient,
    Softmax,
    SquaredDistances,
)
from hbconv.parse.onnx.arithmetic import add, broadcast
from hbconv.parse.onnx.operator import OnnxOperator, operator
from hbconv.parse.onnx.values import KnownTensor, LabelTensor, RowTensor

__all__ = [
    "class_labels",
    "compare_with",
    "find_largest",
    "label_codes",
    "post_transform",
    "transform_predictions",
]

ML = "ai.onnx.ml"

Numbers = npt.NDArray[Any]


@operator("MatMul")
def read_matmul(op: OnnxOperator) -> RowTensor:
    """Multiply rows by a constant matrix, or a constant matrix by columns of rows."""
    if isinstance(op.value(1), KnownTensor):
        return _times(op, op.rows(0), op.constant(1))
    if isinstance(op.value(0), KnownTensor):
        x = op.rows(1)
        weights = op.constant(0)
        if x.axis != 1 or len(x.dims) != 2 or weights.ndim != 2:
            raise op.refuse("B", list(x.dims), "It must be (columns, rows).")
        return RowTensor((len(weights), 1), 1, _product(op, x, weights.T))
    return _row_products(op)


def _times(op: OnnxOperator, x: RowTensor, weights: Numbers) -> RowTensor:
    flat = x.axis == 0 and len(x.dims) == 2
    if not flat or weights.ndim not in (1, 2):
        raise op.refuse("A", list(x.dims), "It must be (rows, columns).")
    product = _product(op, x, weights if weights.ndim == 2 else weights[:, None])
    return RowTensor((1, weights.shape[1]) if weights.ndim == 2 else (1,), 0, product)


def _product(op: OnnxOperator, x: RowTensor, weights: Numbers) -> Node:
    if not x.dtype.startswith("float") or weights.dtype.name != x.dtype:
        raise op.refuse("input type", x.dtype, "hbconv multiplies floats.")
    if len(weights) != x.width:
        raise op.damaged(f"multiplies {x.width} columns by a matrix of {len(weights)} rows")
    return Linear.of(x.node, weights)


def _row_products(op: OnnxOperator) -> RowTensor:
    """Multiply a row vector by a column vector of the same row: (rows, 1, k) by (rows, k, 1)."""
    x, y = op.rows(0), op.rows(1)
    if (x.axis, y.axis) != (0, 0) or x.dims[:2] != (1, 1) or y.dims != (1, x.width, 1):
        raise op.refuse("inputs", "two tensors of rows", "One must be a constant of the file.")
    return RowTensor((1, 1, 1), 0, GroupSums(Multiply((x.node, y.node)), 1))


@operator("Gemm")
def read_gemm(op: OnnxOperator) -> RowTensor:
    """``alpha * A @ B + beta * C`` for constant B and C."""
    x = op.rows(0)
    if op.get("transA", 0):
        x = x.take(np.ascontiguousarray(x.places.T), 1 - x.axis)
    weights = op.constant(1)
    weights = weights.T if op.get("transB", 0) else weights
    product = _times(op, x, weights)
    alpha = op.get("alpha", 1.0)
    node = product.node if alpha == 1 else Affine.of(product.node, mul=alpha)
    plus = op.has(2) and op.get("beta", 1.0) != 0
    return _plus(op, product.of(node)) if plus else product.of(node)


def _plus(op: OnnxOperator, product: RowTensor) -> RowTensor:
    """Add C, scaled, to a product."""
    beta = op.get("beta", 1.0)
    bias = op.value(2)
    scaled = (
        KnownTensor(bias.data * bias.data.dtype.type(beta))
        if isinstance(bias, KnownTensor)
        else op.rows(2).of(Affine.of(op.rows(2).node, mul=beta))
    )
    (x, y), shape = broadcast(replace(op, inputs=(product, scaled)), (0, 1))
    if shape.dims != product.dims:
        raise op.damaged(f"adds {shape.dims} to {product.dims}")
    return shape.of(add(op, x, y))


@operator("LinearRegressor", domain=ML)
def read_regressor(op: OnnxOperator) -> RowTensor:
    """Multiply by the coefficients of each target, and transform."""
    x = op.matrix().cast("float32")
    scores = _scores(op, x, op.get("targets", 1))
    predictions = transform_predictions(op, scores, op.get("post_transform", "NONE"))
    return RowTensor((1, scores.type.width), 0, predictions)


def _scores(op: OnnxOperator, x: RowTensor, targets: int) -> Node:
    weights = op.numbers("coefficients")
    bias = op.numbers("intercepts")
    if targets < 1 or len(weights) != targets * x.width or len(bias) not in (0, targets):
        raise op.damaged(
            f"has {len(weights)} coefficients and {len(bias)} intercepts for {targets} targets of "
            f"{x.width} columns"
        )
    # onnxruntime takes missing intercepts for 0.
    bias = bias if len(bias) else np.zeros(targets, np.float32)
    return Linear.of(x.node, weights.reshape(targets, x.width).T, bias)


def _post_transform(op: OnnxOperator, scores: Node) -> Node:
    return post_transform(op, scores, op.get("post_transform", "NONE"))


@operator("LinearClassifier", domain=ML)
def read_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Score each class; a single score decides between two by its sign.

    Scores of two classes are made of one as onnxruntime does: softmax leaves them as they are.
    """
    labels = class_labels(op)
    x = op.matrix().cast("float32")
    targets = len(op.numbers("intercepts")) or len(op.numbers("coefficients")) // max(x.width, 1)
    scores = _scores(op, x, targets)
    # onnxruntime makes the score of the first class from that of the second.
    if targets == 1 and len(labels) == 2:
        code = Compare(scores, "gt", Array(np.zeros(1, np.float32)), "int32")
        return label_codes(code, labels), RowTensor((1, 2), 0, _both(op, scores))
    if targets != len(labels):
        raise op.damaged(f"has {targets} scores for {len(labels)} classes")
    written = RowTensor((1, targets), 0, _post_transform(op, scores))
    return label_codes(find_largest(scores), labels), written


def _both(op: OnnxOperator, score: Node) -> Node:
    transform = op.get("post_transform", "NONE")
    if transform == "LOGISTIC":
        return Concat((Map(Map(score, "neg"), "sigmoid"), Map(score, "sigmoid")))
    if transform in ("NONE", "SOFTMAX", "SOFTMAX_ZERO"):
        return Concat((Affine.of(score, mul=-1.0, add=1.0), score))
    raise op.refuse("post_transform", transform, "Use LOGISTIC, SOFTMAX or NONE.")


@operator("SVMRegressor", domain=ML)
def read_svm_regressor(op: OnnxOperator) -> RowTensor:
    """Weigh the kernels of the support vectors; of one class only their sign is told.

    onnxruntime reads no ``post_transform`` here.
    """
    x = op.matrix().cast("float32")
    rho = _require_entries(op, "rho", 1)
    count = op.get("n_supports", 0)
    coefficients = op.numbers("coefficients")
    if count > 0:
        kernels = _kernels(op, x, _support_vectors(op, x, count))
        weights = _of_size(op, "coefficients", coefficients, count)
        score: Node = Linear.of(kernels, weights, rho)
    else:
        weights = _of_size(op, "coefficients", coefficients, x.width)
        score = Linear.of(x.node, weights, rho)
    if op.get("one_class", 0):
        sign = Affine.of(Compare(score, "gt", Array(np.zeros(1, np.float32)), "float32"),
                         mul=2.0, sub=1.0)  # fmt: skip
        return RowTensor((1, 1), 0, sign)
    return RowTensor((1, 1), 0, score)


def _require_entries(op: OnnxOperator, name: str, least: int) -> Numbers:
    entries = op.numbers(name)
    if len(entries) < least:
        raise op.damaged(f"has {len(entries)} entries of {name}, where there are {least}")
    return entries[:least]


def _of_size(op: OnnxOperator, name: str, entries: Numbers, size: int) -> Numbers:
    if len(entries) != size:
        raise op.damaged(f"has {len(entries)} entries of {name}, where there are {size}")
    return entries


def _support_vectors(op: OnnxOperator, x: RowTensor, count: int) -> Numbers:
    vectors = _of_size(op, "support_vectors", op.numbers("support_vectors"), count * x.width)
    return vectors.reshape(count, x.width)


def _kernels(op: OnnxOperator, x: RowTensor, vectors: Numbers) -> Node:
    """Return the kernel of each row and support vector, in float32."""
    kernel = op.one_of("kernel_type", "LINEAR", "LINEAR", "POLY", "RBF", "SIGMOID")
    params = op.numbers("kernel_params")
    gamma, coef0, degree = (*(float(p) for p in params[:3]), *(0.0, 0.0, 0.0)[len(params) :])
    if kernel == "RBF":
        return Map(Affine.of(SquaredDistances(x.node, Array(vectors)), mul=-gamma), "exp")
    products = Linear.of(x.node, vectors.T)
    if kernel == "LINEAR":
        return products
    scaled = Affine.of(products, mul=gamma, add=coef0)
    return Power(scaled, degree) if kernel == "POLY" else Map(scaled, "tanh")


@operator("SVMClassifier", domain=ML)
def read_svm_classifier(op: OnnxOperator) -> tuple[LabelTensor, RowTensor]:
    """Score each pair of classes; votes decide, and probabilities are coupled from the pairs."""
    labels = class_labels(op, "classlabels_strings")
    x = op.matrix().cast("float32")
    counts = op.numbers("vectors_per_class", "int64").astype(np.int64)
    if not counts.sum():
        return _linear(op, labels, x)
    classes = len(labels)
    if len(counts) != classes or counts.min() < 0 or classes < 2:
        raise op.damaged(f"has {len(counts)} counts of vectors for {classes} classes")
    scores = _pair_scores(op, x, counts)
    votes = _votes(scores, classes)
    if len(op.numbers("prob_a")):
        probabilities = _couple_pairs(op, scores, classes)
        transform = op.get("post_transform", "NONE")
        written = post_transform(op, probabilities, transform)
        return label_codes(ArgMax(votes), labels), RowTensor((1, classes), 0, written)
    return _without_probabilities(op, labels, scores, votes)


def _linear(op: OnnxOperator, labels: Numbers, x: RowTensor) -> tuple[LabelTensor, RowTensor]:
    """Score each class by a linear model, all with the first rho."""
    classes = len(labels)
    if classes < 3:
        raise op.refuse("vectors_per_class", [], "Linear machines of two classes are not read.")
    weights = _of_size(op, "coefficients", op.numbers("coefficients"), classes * x.width)
    rho = np.repeat(_require_entries(op, "rho", 1), classes)
    scores = Linear.of(x.node, weights.reshape(classes, x.width).T, rho)
    written = post_transform(op, scores, op.get("post_transform", "NONE"))
    return label_codes(find_largest(scores), labels), RowTensor((1, classes), 0, written)


def _pair_scores(op: OnnxOperator, x: RowTensor, counts: npt.NDArray[np.int64]) -> Node:
    """Weigh the kernels of the vectors of both classes of each pair, in float64."""
    classes = len(counts)
    total = int(counts.sum())
    vectors = _support_vectors(op, x, total)
    flat = _of_size(op, "coefficients", op.numbers("coefficients"), (classes - 1) * total)
    # onnxruntime adds the kernels of pairs in float64, and the votes compare these sums with 0.
    coefficients = flat.reshape(classes - 1, total).astype(np.float64)
    ends = np.cumsum(counts)
    of_class = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((total, len(pairs)))
    for k, (i, j) in enumerate(pairs):
        # libsvm's layout: the vectors of class i have a coefficient against each other class.
        weights[of_class[i], k] = coefficients[j - 1, of_class[i]]
        weights[of_class[j], k] = coefficients[i, of_class[j]]
    rho = _require_entries(op, "rho", len(pairs)).astype(np.float64)
    return Linear.of(_kernels(op, x, vectors), weights, rho)


def _votes(scores: Node, classes: int) -> Node:
    """Count the pairs that each class wins: the first of a pair wins above 0."""
    pairs = list(combinations(range(classes), 2))
    first_wins = Compare(scores, "gt", Array(np.zeros(len(pairs))), "float32")
    weights = np.zeros((len(pairs), classes), np.float32)
    for k, (i, j) in enumerate(pairs):
        weights[k, i] = 1
        weights[k, j] = -1
    losses = np.bincount([j for _, j in pairs], minlength=classes).astype(np.float32)
    return Linear.of(first_wins, weights, losses)


def _couple_pairs(op: OnnxOperator, scores: Node, classes: int) -> Node:
    pairs = scores.type.width
    a, b = _require_entries(op, "prob_a", pairs), _require_entries(op, "prob_b", pairs)
    value = Affine.of(Cast(scores, "float32"), mul=a, add=b)
    # onnxruntime clips to these bounds, as libsvm does, before it couples the pairs.
    first = Clip.of(Affine.of(Map(value, "sigmoid"), mul=-1.0, add=1.0), 1e-7, 1 - 1e-7)
    return PairwiseCoupling(first, classes)


def _without_probabilities(
    op: OnnxOperator, labels: Numbers, scores: Node, votes: Node
) -> tuple[LabelTensor, RowTensor]:
    """Return the scores of the pairs; of two classes both signs of the one."""
    single = Cast(scores, "float32")
    transform = op.get("post_transform", "NONE")
    if len(labels) > 2:
        written = post_transform(op, single, transform)
        return label_codes(ArgMax(votes), labels), RowTensor((1, written.type.width), 0, written)
    return label_codes(ArgMax(votes), labels), RowTensor(
        (1, 2), 0, _two_class_scores(op, single, transform)
    )


def _two_class_scores(op: OnnxOperator, score: Node, transform: str) -> Node:
    if transform == "NONE":
        return Concat((Map(score, "neg"), score))
    raise op.refuse("post_transform", transform, "Use prob_a and prob_b, or NONE.")


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Values of ``post_transform``."""


def class_labels(op: OnnxOperator, strings: str = "classlabels_strings") -> npt.NDArray[Any]:
    """Return the labels of a classifier, texts before ints."""
    texts = op.texts(strings)
    if texts:
        return np.array(texts)
    labels = op.numbers("classlabels_int64s", "int64")
    labels = labels if len(labels) else op.numbers("classlabels_ints", "int64")
    if not len(labels):
        raise op.damaged("has no class labels")
    return labels


def label_codes(codes: Node, labels: npt.NDArray[Any]) -> LabelTensor:
    """Return the labels of int32 codes, as a vector."""
    return LabelTensor((1,), 0, codes, Array(labels))


def find_largest(x: Node, groups: int = 1) -> Node:
    """Return the position of the largest entry of each group, as onnxruntime finds it.

    It starts with the first and continues to a larger one. So NaN stays where it is first, and is
    passed over elsewhere.
    """
    if not x.type.dtype.startswith("float"):
        return ArgMax(x, groups)
    each = x.type.width // groups
    fill = np.full((groups, each), -np.inf, x.type.dtype)
    # NaN in the first place stays the largest, and elsewhere loses to every number.
    fill[:, :1] = np.inf
    return ArgMax(Impute(x, Array(fill.ravel())), groups)


def compare_with(x: Node, operation: str, constant: float) -> Node:
    """Compare each entry with a number, in x's dtype."""
    values = Array(np.full(x.type.width, constant, x.type.dtype))
    return Compare(x, operation, values)


def post_transform(op: OnnxOperator, x: Node, transform: str) -> Node:
    """Apply a ``post_transform`` to the scores of a row."""
    if transform == "SOFTMAX":
        return Softmax(x)
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(x)
    if transform == "LOGISTIC":
        return Map(x, "sigmoid")
    if transform == "PROBIT":
        return _probit(x)
    if transform != "NONE":
        raise op.refuse("post_transform", transform, f"hbconv handles {', '.join(TRANSFORMS)}.")
    return x


def transform_predictions(op: OnnxOperator, x: Node, transform: str) -> Node:
    """Apply a ``post_transform`` to predictions; onnxruntime leaves a single one as it is.

    It computes the PROBIT of a single one all the same.
    """
    if x.type.width > 1 or transform == "PROBIT" or transform not in TRANSFORMS:
        return post_transform(op, x, transform)
    return x


def _softmax_zero(x: Node) -> Node:
    """Leave scores of zero out of a softmax: they are multiplied, and add nothing to the sum."""
    top = Map(Pool(x, (tuple(range(x.type.width)),), "max"), "neg")
    # onnxruntime counts scores up to 1e-7 as zero.
    small = compare_with(Map(x, "abs"), "le", 1e-7)
    exponentials = Map(Add((x, top)), "exp")
    kept = Choose(small, Multiply((x, Map(top, "exp"))), exponentials)
    total = GroupSums(Choose(small, _zeros(x), exponentials), 1)
    return Quotient((kept, total))


def _zeros(x: Node) -> Node:
    return ConstantRows(x, Array(np.zeros(x.type.width, x.type.dtype)))


def _probit(score: Node) -> Node:
    """Return ``sqrt(2) * erfinv(2 score - 1)`` as onnxruntime approximates it.

    The inverse error function is that of Winitzki (2008), with its constants of six digits.
    """
    x = Affine.of(score, mul=2.0, sub=1.0)
    rest = Multiply((Affine.of(x, mul=-1.0, add=1.0), Affine.of(x, add=1.0)))
    log = Map(rest, "log")
    first = Affine.of(
        log, mul=0.5, add=float(np.float32(2 / (np.float32(3.14159) * np.float32(0.147))))
    )
    second = Affine.of(log, mul=float(np.float32(1) / np.float32(0.147)))
    root = Map(Add((Map(first, "square"), Map(second, "neg"))), "sqrt")
    size = Map(Add((Map(first, "neg"), root)), "sqrt")
    signed = Choose(compare_with(x, "lt", 0.0), Map(size, "neg"), size)
    return Affine.of(signed, mul=1.41421356)
