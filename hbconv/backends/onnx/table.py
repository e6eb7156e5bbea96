"""The table: for each primitive, the function that writes it as ONNX operators.

A function is called as ``function(writer, *operands, **attributes)`` and returns the name of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hbconv.backends.onnx.trees import tree_leaves, tree_scores

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter, Tensor

__all__ = ["EMITS"]

Emit = Callable[..., str]

_QUARTER_TURN = Fraction("3.14159265358979323846264338327950288419716939937510") / 2


def _plain(operator: str) -> Emit:
    return lambda w, *xs: w.node(operator, *(x.name for x in xs))


def _logical(of_bools: str, of_ints: str) -> Emit:
    return lambda w, x, y: w.node(of_bools if x.dtype == "bool" else of_ints, x.name, y.name)


def tanh(w: GraphWriter, x: Tensor) -> str:
    """Write tanh, in float64: ONNX Runtime's in float32 loses digits and passes 1."""
    return w.cast(w.node("Tanh", w.cast(x.name, "float64")), x.dtype)


def _circular(operator: str, quarter: int) -> Emit:
    """Write sine, or cosine (a quarter of a turn on), in float64.

    ONNX Runtime's own keep 16 digits of 1, not of results near 0. So they are given what is left of x after the nearest
    quarter turns. Beyond a million, where these have too many bits, they are given x itself.
    """

    def emit(w: GraphWriter, x: Tensor) -> str:
        wide = w.cast(x.name, "float64")
        quarters, rest = _quarter_turns(w, wide)
        place = w.node("Mod", w.node("Add", w.cast(quarters, "int64"), w.constant(quarter, "int64")), w.constant(4, "int64"))
        odd = w.node("Equal", w.node("Mod", place, w.constant(2, "int64")), w.constant(1, "int64"))
        size = w.node("Where", odd, w.node("Cos", rest), w.node("Sin", rest))
        near = w.node("Where", w.node("Less", place, w.constant(2, "int64")), size, w.node("Neg", size))
        is_near = w.node("Less", w.node("Abs", wide), w.constant(1e6, "float64"))
        return w.cast(w.node("Where", is_near, near, w.node(operator, wide)), x.dtype)

    return emit


def _quarter_turns(w: GraphWriter, x: str) -> tuple[str, str]:
    """Split x into its nearest number of quarter turns and the rest.

    A quarter turn is taken away in parts of 30 bits, whose products with that number are exact.
    """
    quarters = w.node("Round", w.node("Mul", x, w.constant(2 / np.pi, "float64")))
    rest, left = x, _QUARTER_TURN
    for bits in (30, 60, 90, 120):
        part = left // Fraction(1, 2**bits) * Fraction(1, 2**bits)
        rest, left = w.node("Sub", rest, w.node("Mul", quarters, w.constant(float(part), "float64"))), left - part
    return quarters, rest


def not_equal(w: GraphWriter, x: Tensor, y: Tensor) -> str:
    """Write not-equal, True where one is NaN."""
    return w.node("Not", w.node("Equal", x.name, y.name))


def where(w: GraphWriter, condition: Tensor, x: Tensor, y: Tensor) -> str:
    """Write where; of bools, which ONNX Runtime's Where does not take, by logic. Its zeros come out positive."""
    if x.dtype != "bool":
        return w.node("Where", condition.name, x.name, y.name)
    chosen = w.node("And", condition.name, x.name)
    return w.node("Or", chosen, w.node("And", w.node("Not", condition.name), y.name))


def _shift(direction: str) -> Emit:
    """Shift as unsigned numbers, the only ones BitShift takes.

    A negative x keeps its sign: its complement is shifted right and complemented back. Counts outside the width of the
    dtype shift everything out, as in numpy.
    """

    def emit(w: GraphWriter, x: Tensor, count: Tensor) -> str:
        zero, ones = w.constant(0, x.dtype), w.constant(-1, x.dtype)
        sign = w.node("Where", w.node("Less", x.name, zero), ones, zero) if direction == "RIGHT" else zero
        valid = w.node("And", w.node("GreaterOrEqual", count.name, zero), w.node("Less", count.name, w.constant(np.iinfo(x.dtype).bits, x.dtype)))
        bits = w.cast(w.node("BitwiseXor", x.name, sign), "uint64")
        shifted = w.cast(w.node("BitShift", bits, w.cast(w.node("Where", valid, count.name, zero), "uint64"), direction=direction), x.dtype)
        return w.node("BitwiseXor", w.node("Where", valid, shifted, zero), sign)

    return emit


def cast(w: GraphWriter, x: Tensor, dtype: str) -> str:
    """Convert."""
    return w.cast(x.name, dtype)


def matmul(w: GraphWriter, x: Tensor, weights: Tensor) -> str:
    """Multiply by a constant matrix; batched by Einsum, since ONNX Runtime's batched MatMul of no rows divides by zero."""
    if len(x.shape) == 1:
        return w.node("MatMul", x.name, weights.name)
    return w.node("Einsum", x.name, weights.name, equation="rbk,bkm->rbm")


def take(w: GraphWriter, x: Tensor, indices: Tensor, axis: int) -> str:
    """Take fixed positions of a static axis."""
    return w.node("Gather", x.name, indices.name, axis=axis + 1)


def gather(w: GraphWriter, x: Tensor, index: Tensor) -> str:
    """Read each row at its own positions."""
    flat = _reshape(w, index.name, "int32", (int(np.prod(index.shape)),))
    return _reshape(w, w.node("GatherElements", x.name, flat, axis=1), x.dtype, index.shape)


def lookup(w: GraphWriter, table: Tensor, index: Tensor) -> str:
    """Read a table at computed positions."""
    return w.node("Gather", table.name, index.name, axis=0)


def concat(w: GraphWriter, *xs: Tensor, axis: int) -> str:
    """Join along a static axis."""
    return w.node("Concat", *(x.name for x in xs), axis=axis + 1)


def reshape(w: GraphWriter, x: Tensor, shape: tuple[int, ...]) -> str:
    """Change the static shape."""
    return _reshape(w, x.name, x.dtype, shape)


def _reshape(w: GraphWriter, name: str, dtype: str, shape: tuple[int, ...]) -> str:
    if 0 in shape:  # a zero in the target shape of Reshape means "as before"
        return _expand(w, name, w.constant(np.zeros(shape), dtype), shape)
    return w.node("Reshape", name, w.constant([0, *shape], "int64"))


def expand(w: GraphWriter, x: Tensor, value: Tensor) -> str:
    """Repeat a constant for each row."""
    return _expand(w, x.name, value.name, value.shape)


def _expand(w: GraphWriter, x: str, value: str, shape: tuple[int, ...]) -> str:
    return w.node("Expand", value, w.node("Concat", w.rows(x), w.constant(list(shape), "int64"), axis=0))


def _reduction(operator: str) -> Emit:
    return lambda w, x, axis: _reduce(w, operator, x.name, axis)


def _reduce(w: GraphWriter, operator: str, name: str, axis: int) -> str:
    return w.node(operator, name, w.constant([axis + 1], "int64"), keepdims=0)


def _extreme(operator: str) -> Emit:
    """Write a maximum or minimum; ONNX Runtime's passes over NaN, so a row that holds one is marked."""

    def emit(w: GraphWriter, x: Tensor, axis: int) -> str:
        extreme = _reduce(w, operator, x.name, axis)
        return extreme if not x.dtype.startswith("float") else w.node("Where", _any_nan(w, x, axis), w.constant(np.nan, x.dtype), extreme)

    return emit


def _nan_counts(w: GraphWriter, x: Tensor) -> str:
    return w.cast(w.node("IsNaN", x.name), "int32")


def _any_nan(w: GraphWriter, x: Tensor, axis: int) -> str:
    return w.cast(_reduce(w, "ReduceMax", _nan_counts(w, x), axis), "bool")


def argmax(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Find the first NaN, or else the first of the largest."""
    position = w.node("ArgMax", x.name, axis=axis + 1, keepdims=0)
    if x.dtype.startswith("float"):
        nan_position = w.node("ArgMax", _nan_counts(w, x), axis=axis + 1, keepdims=0)
        position = w.node("Where", _any_nan(w, x, axis), nan_position, position)
    return w.cast(position, "int32")


def ordered_sum(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Take the last of the running sums: CumSum adds one entry after another."""
    if x.shape[axis] == 0:
        return _reduce(w, "ReduceSum", x.name, axis)
    return w.node("Gather", cumsum(w, x, axis), w.constant(x.shape[axis] - 1, "int64"), axis=axis + 1)


def cumsum(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Write running sums."""
    return w.node("CumSum", x.name, w.constant(axis + 1, "int64"))


def sort(w: GraphWriter, x: Tensor, axis: int) -> str:
    """Sort ascending, NaN last: sorted as infinities, then written over the last places."""
    size = x.shape[axis]
    if not x.dtype.startswith("float"):
        return w.topk(x.name, size, axis + 1)[0]
    infinite = w.node("Where", w.node("IsNaN", x.name), w.constant(np.inf, x.dtype), x.name)
    count = w.node("ReduceSum", _nan_counts(w, x), w.constant([axis + 1], "int64"), keepdims=1)
    place = np.arange(1 - size, 1, dtype=np.int32).reshape(-1, *(1 for _ in x.shape[axis + 1 :]))
    missing = w.node("Greater", w.node("Add", count, w.constant(place)), w.constant(0, "int32"))
    return w.node("Where", missing, w.constant(np.nan, x.dtype), w.topk(infinite, size, axis + 1)[0])


def topk(w: GraphWriter, x: Tensor, k: int) -> str:
    """Find the smallest, the first of equals first.

    NaN comes last: in float64 it takes the place of infinity, and infinity that of the largest finite number, which is
    told from it in float32, and which no distance in float64 will be.
    """
    key = x.name
    if x.dtype.startswith("float"):
        below_infinity = w.node("Min", w.cast(key, "float64"), w.constant(np.finfo("float64").max, "float64"))
        key = w.node("Where", w.node("IsNaN", key), w.constant(np.inf, "float64"), below_infinity)
    return w.cast(w.topk(key, k, axis=1)[1], "int32")


def bucketize(w: GraphWriter, x: Tensor, edges: Tensor, right: bool) -> str:
    """Count the edges at or below x: all the real ones where x is NaN."""
    reached = w.node("GreaterOrEqual" if right else "Greater", _reshape(w, x.name, x.dtype, (*x.shape, 1)), edges.name)
    count = _reduce(w, "ReduceSum", w.cast(reached, "int32"), axis=1)
    real = w.constant((~np.isnan(np.asarray(edges.value))).sum(axis=1), "int32")
    return w.node("Where", w.node("IsNaN", x.name), real, count)


EMITS: Mapping[str, Emit] = {
    **{primitive: _plain(operator) for primitive, operator in {
        "neg": "Neg", "abs": "Abs", "sign": "Sign", "sqrt": "Sqrt", "exp": "Exp", "log": "Log",
        "relu": "Relu", "floor": "Floor", "ceil": "Ceil", "rint": "Round", "isnan": "IsNaN", "isinf": "IsInf", "not": "Not",
        "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "minimum": "Min", "maximum": "Max",
        "lt": "Less", "le": "LessOrEqual", "eq": "Equal", "gt": "Greater", "ge": "GreaterOrEqual",
    }.items()},
    "tanh": tanh,
    "sin": _circular("Sin", 0),
    "cos": _circular("Cos", 1),
    "ne": not_equal,
    "and": _logical("And", "BitwiseAnd"),
    "or": _logical("Or", "BitwiseOr"),
    "xor": _logical("Xor", "BitwiseXor"),
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "where": where,
    "cast": cast,
    "matmul": matmul,
    "take": take,
    "gather": gather,
    "lookup": lookup,
    "concat": concat,
    "reshape": reshape,
    "expand": expand,
    "reduce_sum": _reduction("ReduceSum"),
    "reduce_prod": _reduction("ReduceProd"),
    "reduce_max": _extreme("ReduceMax"),
    "reduce_min": _extreme("ReduceMin"),
    "argmax": argmax,
    "ordered_sum": ordered_sum,
    "cumsum": cumsum,
    "sort": sort,
    "topk": topk,
    "bucketize": bucketize,
    "tree_scores": tree_scores,
    "tree_leaves": tree_leaves,
}  # fmt: skip
