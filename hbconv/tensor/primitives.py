"""The tensor vocabulary: each primitive's name, type rule and meaning in numpy.

A value is ``(rows, *shape)``; the row count is never known. A constant has no rows and broadcasts: its rank is at most
that of the static shape beside it. Axes count static dimensions: axis 0 is the first dimension after the rows.
Operands never mix dtypes: conversions are explicit ``cast``s. NaN behaves as in numpy (``lt`` and ``le`` are False,
``minimum`` and ``reduce_max`` propagate it). ``int32`` is the dtype of indexes and codes: arithmetic on it never
overflows, ``gather`` and ``lookup`` read at positions from 0 to the last.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.errors import VerificationError

__all__ = ["PRIMITIVES", "Primitive", "TensorType"]

NumpyArray = npt.NDArray[Any]
FLOATS = ("float32", "float64")
INTS = ("int32", "int64")


@dataclass(frozen=True)
class TensorType:
    """Dtype and static shape of a value; ``rows`` says whether a leading row dimension precedes the shape."""

    dtype: str
    shape: tuple[int, ...]
    rows: bool = True

    def __str__(self) -> str:
        dims = (["n"] if self.rows else []) + [str(d) for d in self.shape]
        return f"{self.dtype}[{', '.join(dims)}]"


@dataclass(frozen=True)
class Primitive:
    """One operator of the tensor vocabulary.

    ``infer(*types, **attributes)`` gives the result's type or raises; ``evaluate(*arrays, **attributes)`` is its meaning.
    """

    name: str
    infer: Callable[..., TensorType]
    evaluate: Callable[..., NumpyArray]


PRIMITIVES: dict[str, Primitive] = {}


def define(
    name: str, infer: Callable[..., TensorType], evaluate: Callable[..., NumpyArray]
) -> None:
    """Add a primitive to the table."""
    PRIMITIVES[name] = Primitive(name, infer, evaluate)


def require(condition: bool, message: str) -> None:
    """Raise VerificationError unless the condition holds."""
    if not condition:
        raise VerificationError(message)


def broadcast(*types: TensorType) -> TensorType:
    """Type of an elementwise result, but for the dtype, which is that of the first operand."""
    ranks = [len(t.shape) for t in types if t.rows]
    require(bool(ranks), "at least one operand must have rows")
    require(
        all(
            len(t.shape) <= max(ranks) if not t.rows else len(t.shape) == max(ranks) for t in types
        ),
        f"ranks differ: {[str(t) for t in types]}",
    )
    try:
        return TensorType(types[0].dtype, np.broadcast_shapes(*(t.shape for t in types)))
    except ValueError as error:
        raise VerificationError(f"shapes do not broadcast: {[str(t) for t in types]}") from error


def same_dtype(*types: TensorType) -> None:
    """Require one dtype for all operands."""
    require(len({t.dtype for t in types}) == 1, f"dtypes differ: {[str(t) for t in types]}")


def elementwise(dtypes: tuple[str, ...], result: str | None = None) -> Callable[..., TensorType]:
    """Type rule of an elementwise primitive over the given operand dtypes."""

    def infer(*types: TensorType) -> TensorType:
        same_dtype(*types)
        require(types[0].dtype in dtypes, f"dtype {types[0].dtype} is none of {dtypes}")
        shape = broadcast(*types).shape
        return TensorType(result or types[0].dtype, shape)

    return infer


def sigmoid(x: NumpyArray) -> NumpyArray:
    """``1 / (1 + exp(-x))``, without overflow warnings."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)), dtype=x.dtype)


def erf(x: NumpyArray) -> NumpyArray:
    """Error function."""
    values: NumpyArray = np.vectorize(math.erf, otypes=[x.dtype])(x)
    return values


_UNARY: dict[str, Callable[..., NumpyArray]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log": np.log,
    "log1p": np.log1p, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "tanh": np.tanh,
    "sigmoid": sigmoid, "relu": lambda x: np.maximum(x, 0), "erf": erf, "floor": np.floor, "ceil": np.ceil, "rint": np.rint,
}  # fmt: skip
for _name, _function in _UNARY.items():
    define(
        _name,
        elementwise((*FLOATS, *INTS) if _name in ("neg", "abs", "sign") else FLOATS),
        _function,
    )

define("isnan", elementwise(FLOATS, "bool"), np.isnan)
define("isinf", elementwise(FLOATS, "bool"), np.isinf)
define("not", elementwise(("bool",)), np.logical_not)

for _name, _function in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
}.items():
    define(_name, elementwise((*FLOATS, *INTS)), _function)
for _name, _function in {"div": np.divide, "pow": np.power}.items():
    define(_name, elementwise(FLOATS), _function)
for _name, _function in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
    define(_name, elementwise(("bool", *INTS)), _function)
for _name, _function in {"shift_left": np.left_shift, "shift_right": np.right_shift}.items():
    define(_name, elementwise(INTS), _function)
for _name, _function in {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    define(
        _name,
        elementwise(
            (*FLOATS, *INTS, "bool") if _name in ("eq", "ne") else (*FLOATS, *INTS), "bool"
        ),
        _function,
    )


def infer_where(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    """``where(condition, x, y)``: x where the condition holds."""
    require(condition.dtype == "bool", f"condition is {condition}")
    same_dtype(x, y)
    return TensorType(x.dtype, broadcast(condition, x, y).shape)


define("where", infer_where, np.where)


def infer_cast(x: TensorType, dtype: str) -> TensorType:
    """``cast(x, dtype)``: float to int truncates; what the int dtype cannot hold (NaN too) gives any value."""
    require(dtype in (*FLOATS, *INTS, "bool"), f"no dtype {dtype}")
    return TensorType(dtype, x.shape, x.rows)


define("cast", infer_cast, lambda x, dtype: x.astype(dtype))


def infer_matmul(x: TensorType, w: TensorType) -> TensorType:
    """``matmul(x, w)``: (rows, k) by constant (k, m); or batched, (rows, b, k) by (b, k, m)."""
    same_dtype(x, w)
    require(x.rows and not w.rows, "matmul takes a value and a constant")
    require(len(w.shape) == len(x.shape) + 1 and len(x.shape) in (1, 2), f"matmul of {x} and {w}")
    require(x.shape[-1] == w.shape[-2] and x.shape[:-1] == w.shape[:-2], f"matmul of {x} and {w}")
    return TensorType(x.dtype, (*x.shape[:-1], w.shape[-1]))


define(
    "matmul", infer_matmul, lambda x, w: x @ w if x.ndim == 2 else np.einsum("rbk,bkm->rbm", x, w)
)


def infer_pairwise(x: TensorType, points: TensorType, kind: str, p: float) -> TensorType:
    """``pairwise(x, points, kind, p)``: for each row of (rows, d) and each constant point of (m, d), the terms of their d features, folded in order.

    Kinds: ``square`` sums ``(x - y)^2``, ``absolute`` sums ``|x - y|``, ``largest`` takes the largest ``|x - y|``, ``power`` sums ``|x - y|^p``,
    ``different`` counts ``x != y``, ``canberra`` sums ``|x - y| / (|x| + |y|)`` (0 where both are 0), ``chi_square`` sums
    ``(x - y)^2 / (x + y)`` (0 where x + y is 0), ``present`` sums the squares of differences that are not NaN.
    """
    same_dtype(x, points)
    require(x.dtype in FLOATS and kind in PAIRWISE, f"pairwise {kind} of {x}")
    require(
        x.rows and not points.rows and len(x.shape) == 1 and points.shape[1:] == x.shape,
        f"pairwise of {x} and {points}",
    )
    require(p > 0, f"power {p}")
    return TensorType(x.dtype, points.shape[:1])


def canberra_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """``|x - y| / (|x| + |y|)``, 0 where both are 0."""
    size = np.abs(x) + np.abs(y)
    return np.asarray(np.abs(x - y) / np.where(size == 0, np.ones_like(size), size))


def chi_square_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """``(x - y)^2 / (x + y)``, 0 where x + y is 0."""
    size = x + y
    return np.where(
        size == 0,
        np.zeros_like(size),
        np.square(x - y) / np.where(size == 0, np.ones_like(size), size),
    )


def present_term(x: NumpyArray, y: NumpyArray, p: float) -> NumpyArray:  # noqa: ARG001
    """``(x - y)^2``, 0 where it is NaN."""
    return np.where(np.isnan(x - y), np.zeros_like(x), np.square(x - y))


PAIRWISE: dict[str, Callable[[NumpyArray, NumpyArray, float], NumpyArray]] = {
    "square": lambda x, y, p: np.square(x - y),
    "absolute": lambda x, y, p: np.abs(x - y),
    "largest": lambda x, y, p: np.abs(x - y),
    "power": lambda x, y, p: np.abs(x - y) ** x.dtype.type(p),
    "different": lambda x, y, p: (x != y).astype(x.dtype),
    "canberra": canberra_term,
    "chi_square": chi_square_term,
    "present": present_term,
}
"""Term of a feature, by the kind of ``pairwise``."""


def pairwise(x: NumpyArray, points: NumpyArray, kind: str, p: float) -> NumpyArray:
    """Fold the terms, one feature after another."""
    total = np.zeros((len(x), len(points)), x.dtype)
    for feature, values in enumerate(points.T):
        term = PAIRWISE[kind](x[:, feature, None], values, p)
        total = np.maximum(total, term) if kind == "largest" else total + term
    return total


define("pairwise", infer_pairwise, pairwise)


def infer_take(x: TensorType, indices: TensorType, axis: int) -> TensorType:
    """``take(x, indices, axis)``: the given positions of a static axis; indices are a constant vector."""
    require(
        not indices.rows and len(indices.shape) == 1 and indices.dtype in INTS, f"take at {indices}"
    )
    require(x.rows and 0 <= axis < len(x.shape), f"axis {axis} of {x}")
    return TensorType(x.dtype, (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]))


define("take", infer_take, lambda x, indices, axis: np.take(x, indices, axis=axis + 1))


def infer_gather(x: TensorType, index: TensorType) -> TensorType:
    """``gather(x, index)``: ``x[row, index[row, ...]]`` for x of shape (rows, width)."""
    require(
        len(x.shape) == 1 and x.rows and index.rows and index.dtype == "int32",
        f"gather of {x} at {index}",
    )
    require(x.shape[0] > 0 or 0 in index.shape, f"gather of {x}, which is empty, at {index}")
    return TensorType(x.dtype, index.shape)


define(
    "gather",
    infer_gather,
    lambda x, index: x[np.arange(len(x)).reshape(-1, *[1] * (index.ndim - 1)), index],
)


def infer_lookup(table: TensorType, index: TensorType) -> TensorType:
    """``lookup(table, index)``: ``table[index]`` for a constant table of shape (size, *entry)."""
    require(
        not table.rows and index.rows and index.dtype == "int32" and len(table.shape) >= 1,
        f"lookup of {index} in {table}",
    )
    require(table.shape[0] > 0 or 0 in index.shape, f"lookup of {index} in {table}, which is empty")
    return TensorType(table.dtype, (*index.shape, *table.shape[1:]))


define("lookup", infer_lookup, lambda table, index: table[index])


def infer_concat(*xs: TensorType, axis: int) -> TensorType:
    """``concat(xs, axis)`` along a static axis."""
    same_dtype(*xs)
    rests = {(*x.shape[:axis], *x.shape[axis + 1 :]) for x in xs}
    require(len(rests) == 1 and all(x.rows for x in xs), f"concat of {[str(x) for x in xs]}")
    return TensorType(
        xs[0].dtype, (*xs[0].shape[:axis], sum(x.shape[axis] for x in xs), *xs[0].shape[axis + 1 :])
    )


define("concat", infer_concat, lambda *xs, axis: np.concatenate(xs, axis=axis + 1))


def infer_reshape(x: TensorType, shape: tuple[int, ...]) -> TensorType:
    """``reshape(x, shape)`` of the static dimensions."""
    require(int(np.prod(x.shape)) == int(np.prod(shape)), f"reshape of {x} to {shape}")
    return TensorType(x.dtype, tuple(shape), x.rows)


define("reshape", infer_reshape, lambda x, shape: x.reshape(len(x), *shape))


def infer_expand(x: TensorType, value: TensorType) -> TensorType:
    """``expand(x, value)``: a constant repeated for each row of x."""
    require(x.rows and not value.rows, f"expand of {value} over {x}")
    return TensorType(value.dtype, value.shape)


define("expand", infer_expand, lambda x, value: np.broadcast_to(value, (len(x), *value.shape)))


def reduction(
    dtypes: tuple[str, ...], result: str | None = None, least: int = 0
) -> Callable[..., TensorType]:
    """Type rule of a primitive that removes one static axis, which has some entries at least."""

    def infer(x: TensorType, axis: int) -> TensorType:
        require(
            x.rows and 0 <= axis < len(x.shape) and x.dtype in dtypes,
            f"reduction of {x} over axis {axis}",
        )
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        require(
            x.shape[axis] >= least or 0 in rest,
            f"reduction of {x} over axis {axis}, which is empty",
        )
        return TensorType(result or x.dtype, rest)

    return infer


def ordered_sum(x: NumpyArray, axis: int) -> NumpyArray:
    """Sum from the first entry to the last, one addition after another, in x's dtype."""
    moved = np.moveaxis(x, axis + 1, 0)
    total = np.zeros(moved.shape[1:], x.dtype)
    for part in moved:
        total = total + part
    return total


def logsumexp(x: NumpyArray, axis: int) -> NumpyArray:
    """``log(sum(exp(x)))``, shifted by the maximum."""
    top = x.max(axis=axis + 1, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0)
    return np.asarray(
        np.log(np.exp(x - shift).sum(axis=axis + 1)) + shift.squeeze(axis + 1), dtype=x.dtype
    )


define(
    "reduce_sum", reduction((*FLOATS, *INTS)), lambda x, axis: x.sum(axis=axis + 1, dtype=x.dtype)
)
define("ordered_sum", reduction(FLOATS), ordered_sum)
define(
    "reduce_prod", reduction((*FLOATS, *INTS)), lambda x, axis: x.prod(axis=axis + 1, dtype=x.dtype)
)
define("reduce_max", reduction((*FLOATS, *INTS), least=1), lambda x, axis: x.max(axis=axis + 1))
define("reduce_min", reduction((*FLOATS, *INTS), least=1), lambda x, axis: x.min(axis=axis + 1))
define("reduce_any", reduction(("bool",)), lambda x, axis: x.any(axis=axis + 1))
define(
    "argmax",
    reduction((*FLOATS, *INTS), "int32", least=1),
    lambda x, axis: x.argmax(axis=axis + 1).astype(np.int32),
)
define("logsumexp", reduction(FLOATS, least=1), logsumexp)
define(
    "ordered_logsumexp",
    reduction(FLOATS, least=1),
    lambda x, axis: np.logaddexp.reduce(x, axis=axis + 1),
)


def infer_along(x: TensorType, axis: int) -> TensorType:
    """Type rule of a primitive that keeps the shape and works along one static axis."""
    require(
        x.rows and 0 <= axis < len(x.shape) and x.dtype in (*FLOATS, *INTS), f"axis {axis} of {x}"
    )
    return x


define("cumsum", infer_along, lambda x, axis: np.cumsum(x, axis=axis + 1, dtype=x.dtype))
define("sort", infer_along, lambda x, axis: np.sort(x, axis=axis + 1))


def infer_topk(x: TensorType, k: int) -> TensorType:
    """``topk(x, k)``: indexes of the k smallest entries of (rows, width), nearest first, ties by position."""
    require(len(x.shape) == 1 and 0 < k <= x.shape[0], f"topk({k}) of {x}")
    return TensorType("int32", (k,))


def topk(x: NumpyArray, k: int) -> NumpyArray:
    """Sort, and take the first."""
    return np.argsort(x, axis=1, kind="stable")[:, :k].astype(np.int32)


def infer_nearest(x: TensorType, points: TensorType, k: int) -> TensorType:
    """``nearest(x, points, k)``: indexes of the k constant points nearest to a row by the sum of the squared differences, in order; ties by position."""
    return infer_topk(infer_pairwise(x, points, "square", 2.0), k)


define("topk", infer_topk, topk)
define("nearest", infer_nearest, lambda x, points, k: topk(pairwise(x, points, "square", 2.0), k))


def infer_bucketize(x: TensorType, edges: TensorType, right: bool) -> TensorType:
    """``bucketize(x, edges, right)``: per column, how many of its edges are ``<= x`` (right) or ``< x``.

    Edges are (width, m), ascending, padded with NaN, which counts for no x; x that is NaN counts all real edges.
    """
    same_dtype(x, edges)
    require(
        len(x.shape) == 1 and len(edges.shape) == 2 and edges.shape[0] == x.shape[0],
        f"bucketize of {x} by {edges}",
    )
    require(isinstance(right, bool), "right is a bool")
    return TensorType("int32", x.shape)


def bucketize(x: NumpyArray, edges: NumpyArray, right: bool) -> NumpyArray:
    """Count, for each column, the edges at or below x."""
    side: Literal["left", "right"] = "right" if right else "left"
    counts = [np.searchsorted(e[~np.isnan(e)], x[:, j], side=side) for j, e in enumerate(edges)]
    return np.stack(counts, axis=1).astype(np.int32) if counts else np.zeros(x.shape, np.int32)


define("bucketize", infer_bucketize, bucketize)


def infer_embedding_sum(tokens: TensorType, weights: TensorType, table: TensorType) -> TensorType:
    """``embedding_sum(tokens, weights, table)``: the sum of the table's rows that the tokens name, each times its weight."""
    same_dtype(weights, table)
    require(
        tokens.rows and weights.rows and not table.rows,
        "embedding_sum takes two values and a constant",
    )
    require(
        tokens.dtype == "int32" and len(tokens.shape) == 1 and tokens.shape == weights.shape,
        f"tokens {tokens} beside weights {weights}",
    )
    require(
        len(table.shape) == 2 and table.shape[0] > 0 and table.dtype in FLOATS, f"table {table}"
    )
    return TensorType(table.dtype, (table.shape[1],))


def embedding_sum(tokens: NumpyArray, weights: NumpyArray, table: NumpyArray) -> NumpyArray:
    """Add up term after term."""
    total = np.zeros((len(tokens), table.shape[1]), table.dtype)
    for token, weight in zip(tokens.T, weights.T, strict=True):
        total = total + weight[:, None] * table[token]
    return total


def infer_scatter(tokens: TensorType, weights: TensorType, width: int) -> TensorType:
    """``scatter(tokens, weights, width)``: zeros, to which each weight is added at the place its token names; the token ``width`` names none."""
    require(
        tokens.rows and weights.rows and tokens.dtype == "int32",
        f"tokens {tokens} beside weights {weights}",
    )
    require(
        len(tokens.shape) == 1
        and tokens.shape == weights.shape
        and weights.dtype in (*FLOATS, *INTS),
        f"tokens {tokens} beside weights {weights}",
    )
    return TensorType(weights.dtype, (width,))


def scatter(tokens: NumpyArray, weights: NumpyArray, width: int) -> NumpyArray:
    """Add term after term; the place past the last is for the token that names none."""
    out = np.zeros((len(tokens), width + 1), weights.dtype)
    np.add.at(out, (np.arange(len(tokens))[:, None], tokens), weights)
    return out[:, :width]


define("embedding_sum", infer_embedding_sum, embedding_sum)
define("scatter", infer_scatter, scatter)


def infer_tree_scores(x: TensorType, forest: Any, strategy: str) -> TensorType:
    """``tree_scores(x, forest, strategy)``: the ensemble's sums, natively where the backend can."""
    require(
        x.rows and x.shape == (forest.n_features,) and x.dtype in FLOATS,
        f"forest of {forest.n_features} features over {x}",
    )
    require(bool(strategy), "a strategy is named")
    return TensorType(forest.accumulate, (forest.n_outputs,))


def infer_tree_leaves(x: TensorType, forest: Any, strategy: str) -> TensorType:
    """``tree_leaves(x, forest, strategy)``: the leaf (numbered over the forest) that each tree reaches."""
    infer_tree_scores(x, forest, strategy)
    return TensorType("int32", (forest.n_trees,))


define("tree_scores", infer_tree_scores, lambda x, forest, strategy: forest.scores(x))
define("tree_leaves", infer_tree_leaves, lambda x, forest, strategy: forest.leaves(x))
