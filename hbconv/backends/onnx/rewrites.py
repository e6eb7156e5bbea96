"""Write primitives as others, if ONNX or ONNX Runtime lacks them or computes them too coarsely.

Functions of one value are computed in float64, also for float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hbconv.tensor.code_tables import compare_codes, compare_small_tables
from hbconv.trees.contributions import write_contributions, write_interactions

if TYPE_CHECKING:
    from hbconv.tensor import Builder, Value

__all__ = ["REWRITES"]

_Function = Callable[["Builder", "Value"], "Value"]


def _in_double(function: _Function) -> _Function:
    return lambda b, x: b.cast(function(b, b.cast(x, "float64")), x.dtype)


def _number(b: Builder, value: float, like: Value) -> Value:
    return b.constant(value, like.dtype)


def sigmoid(b: Builder, x: Value) -> Value:
    """Write ``1 / (1 + exp(-x))``.

    ONNX Runtime's own Sigmoid is a rational approximation, which is 0 below about -18.
    """
    one = _number(b, 1.0, x)
    return one / (one + b.op("exp", -x))


def expm1(b: Builder, x: Value) -> Value:
    """``(u - 1) * x / log(u)`` for ``u = exp(x)``: the rounding of u cancels out."""
    one = _number(b, 1.0, x)
    u = b.op("exp", x)
    y = b.where(b.op("isinf", u), u, (u - one) * (x / b.op("log", u)))
    y = b.where(b.op("eq", u, _number(b, 0.0, x)), u - one, y)
    return b.where(b.op("eq", u, one), x, y)


def log1p(b: Builder, x: Value) -> Value:
    """``log(u) * x / (u - 1)`` for ``u = 1 + x``: the rounding of u cancels out."""
    one = _number(b, 1.0, x)
    u = one + x
    y = b.where(b.op("isinf", u), b.op("log", u), b.op("log", u) * (x / (u - one)))
    return b.where(b.op("eq", u, one), x, y)


def log2(b: Builder, x: Value) -> Value:
    """Logarithm to the base 2."""
    return b.op("log", x) / _number(b, math.log(2.0), x)


def log10(b: Builder, x: Value) -> Value:
    """Logarithm to the base 10."""
    return b.op("log", x) / _number(b, math.log(10.0), x)


def tan(b: Builder, x: Value) -> Value:
    """Sine by cosine."""
    return b.op("sin", x) / b.op("cos", x)


_STEPS, _LAST, _ORDER = 8, 48, 13


def _erf_series() -> np.ndarray:
    """Taylor coefficients of erf at 0, 1/8, 2/8, ... 6: (order, centres).

    The k-th derivative of exp(-x^2) is (-1)^k H_k(x) exp(-x^2), with H_k the Hermite polynomials.
    """
    centres = np.arange(_LAST + 1) / _STEPS
    hermite = [np.ones_like(centres), 2 * centres]
    for k in range(1, _ORDER):
        hermite.append(2 * centres * hermite[k] - 2 * k * hermite[k - 1])
    slope = 2 / math.sqrt(math.pi) * np.exp(-(centres**2))
    terms = [slope * (-1) ** k * hermite[k] / math.factorial(k + 1) for k in range(_ORDER - 1)]
    return np.stack([np.array([math.erf(c) for c in centres]), *terms])


def erf(b: Builder, x: Value) -> Value:
    """Sum the Taylor series at the nearest eighth; 1 from 6 on."""
    missing = b.op("isnan", x)
    size = b.op(
        "minimum",
        b.where(missing, _number(b, 0.0, x), b.op("abs", x)),
        _number(b, _LAST / _STEPS, x),
    )
    nearest = b.op("rint", size * _number(b, float(_STEPS), x))
    index, offset = b.cast(nearest, "int32"), size - nearest * _number(b, 1 / _STEPS, x)
    series = [b.lookup(b.constant(row), index) for row in _erf_series()]
    y = series[-1]
    for term in reversed(series[:-1]):
        y = y * offset + term
    return b.where(missing, x, y * b.op("sign", x))


def logsumexp(b: Builder, x: Value, axis: int) -> Value:
    """``log(sum(exp(x - max))) + max``, the maximum counting as 0 where it is not finite."""
    top = b.reduce("reduce_max", x, axis)
    shift = b.where(b.op("isinf", top) | b.op("isnan", top), _number(b, 0.0, x), top)
    kept = b.reshape(shift, *x.shape[:axis], 1, *x.shape[axis + 1 :])
    return b.op("log", b.reduce("reduce_sum", b.op("exp", x - kept), axis)) + shift


def ordered_logsumexp(b: Builder, x: Value, axis: int) -> Value:
    """Write ``max(a, b) + log1p(exp(-|a - b|))``, term by term.

    Equal terms have a case of their own, since two infinite ones have no difference.
    """
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    total, *terms = (b.reshape(b.take(x, [i], axis), *shape) for i in range(x.shape[axis]))
    for term in terms:
        more = b.op("log1p", b.op("exp", -b.op("abs", total - term)))
        total = b.where(
            b.op("eq", total, term),
            term + _number(b, math.log(2.0), x),
            b.op("maximum", total, term) + more,
        )
    return total


def embedding_sum(b: Builder, tokens: Value, weights: Value, table: Value) -> Value:
    """Add up the rows of the table, times their weights."""
    return b.reduce("reduce_sum", b.lookup(table, tokens) * b.reshape(weights, *weights.shape, 1))


def reduce_any(b: Builder, x: Value, axis: int) -> Value:
    """Write whether the count of True exceeds 0."""
    return b.op("ne", b.reduce("reduce_sum", b.cast(x, "int32"), axis), b.constant(0, "int32"))


MAX_UNIT_ROWS = 1 << 22
"""Bytes of unit vectors up to which they are copied: longer ones are compares of codes."""


def one_hot(b: Builder, codes: Value, sizes: Value, width: int, dtype: str) -> Value:
    """Copy the unit vector of each code: ``Gather`` copies a row of a table at once."""
    counts = b.known(sizes).tolist()
    if (
        not counts
        or sum(count * count for count in counts) * np.dtype(dtype).itemsize > MAX_UNIT_ROWS
    ):
        return compare_codes(b, codes, sizes, width, dtype)
    parts = []
    for column, count in enumerate(counts):
        units = np.concatenate([np.eye(count), np.zeros((1, count))]).astype(dtype)
        code = b.take(codes, [column])
        known = (code >= b.constant(0, "int32")) & (code < b.constant(count, "int32"))
        row = b.where(known, code, b.constant(count, "int32"))
        parts.append(b.reshape(b.lookup(b.constant(units), row), count))
    return b.concat(parts)


MAX_COMPARED = 3
"""Numbers in a table up to which comparing codes with each beats ``Gather``.

Per column and row, ``Gather`` takes 6 to 12 ns by the machine, and a compare with its choice 2 to
4.
"""

REWRITES: dict[str, Callable[..., Value]] = {
    **{f.__name__: _in_double(f) for f in (expm1, log1p, log2, log10, tan, erf)},
    "sigmoid": sigmoid,
    "logsumexp": logsumexp,
    "ordered_logsumexp": ordered_logsumexp,
    "embedding_sum": embedding_sum,
    "reduce_any": reduce_any,
    "lookup_codes": compare_small_tables(MAX_COMPARED, of_all_entries=True),
    "one_hot": one_hot,
    "tree_contributions": write_contributions,
    "tree_interactions": write_interactions,
}
