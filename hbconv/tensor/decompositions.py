"""Rewrite a program, and the one table of primitives that are written as others.

A backend emits the primitives that it has operators for. Each other one is written by its entry of
``DECOMPOSITIONS``, so a new backend starts with the 40 that no entry is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.program import Constant, Input, Op, TensorProgram
from hbconv.tensor.types import FLOATS

__all__ = [
    "DECOMPOSITIONS",
    "DONORS",
    "EXACT",
    "Rule",
    "compare_small_tables",
    "rank_donors",
    "rewrite_program",
    "shared_squares",
]

Rule = Callable[..., Value]
"""Called as ``rule(builder, *operands, **attributes)``; it returns the result."""


def rewrite_program(program: TensorProgram, rules: Mapping[str, Rule]) -> TensorProgram:
    """Replay a program, replacing each primitive named in rules by what its rule writes.

    A rule is called as ``rule(builder, *operands, **attributes)``. It returns the new result.

    Examples
    --------
    >>> b = Builder()
    >>> x = b.input("x", "float32", 1)
    >>> program = b.program({"y": b.op("neg", x)})
    >>> print(rewrite_program(program, {"neg": lambda b, x: b.constant([0.0], x.dtype) - x}))
    %0 = input x : float32[n, 1]
    %1 = constant [0.] : float32[1]
    %2 = sub %1 %0 : float32[n, 1]
    return y=%2
    """
    b = Builder()
    values: list[Value] = []
    for instruction in program.instructions:
        if isinstance(instruction, Input):
            values.append(
                b.input(instruction.name, instruction.type.dtype, instruction.type.shape[0])
            )
        elif isinstance(instruction, Constant):
            values.append(b.constant(instruction.value))
        else:
            values.append(_replay(b, instruction, values, rules))
    return b.program({name: values[index] for name, index in program.outputs.items()})


def _replay(b: Builder, op: Op, values: list[Value], rules: Mapping[str, Rule]) -> Value:
    b.source = op.source
    operands = [values[i] for i in op.operands]
    if op.primitive in rules:
        return rules[op.primitive](b, *operands, **op.attributes)
    attributes = (
        op.attributes
        if op.body is None
        else {**op.attributes, "body": rewrite_program(op.body, rules)}
    )
    return b.op(op.primitive, *operands, **attributes)


def neg(b: Builder, x: Value) -> Value:
    """Subtract from a negative zero: 0.0 - 0.0 would lose the sign of -0.0."""
    return b.constant(-0.0, x.dtype) - x


def absolute(b: Builder, x: Value) -> Value:
    """Subtract from zero what is not above it, both zeros included; NaN stays."""
    zero = b.constant(0, x.dtype)
    return b.where(x <= zero, zero - x, x)


def sign(b: Builder, x: Value) -> Value:
    """Subtract the test ``x < 0`` from ``x > 0``; NaN stays."""
    zero = b.constant(0, x.dtype)
    return b.where(b.op("eq", x, x), b.cast(x > zero, x.dtype) - b.cast(x < zero, x.dtype), x)


def ceil(b: Builder, x: Value) -> Value:
    """Round the negative down; the sign of a zero stays."""
    return -b.op("floor", -x)


def relu(b: Builder, x: Value) -> Value:
    """Take ``maximum(x, 0)``."""
    return b.op("maximum", x, b.constant(0.0, x.dtype))


def sigmoid(b: Builder, x: Value) -> Value:
    """Write ``1 / (1 + exp(-x))``.

    ONNX Runtime's own Sigmoid is a rational approximation, which is 0 below about -18.
    """
    one = b.constant(1.0, x.dtype)
    return one / (one + b.op("exp", -x))


def isnan(b: Builder, x: Value) -> Value:
    """Only NaN differs from itself."""
    return b.op("ne", x, x)


def isinf(b: Builder, x: Value) -> Value:
    """Compare the size with infinity."""
    return b.op("eq", b.op("abs", x), b.constant(np.inf, x.dtype))


def logical_not(b: Builder, x: Value) -> Value:
    """Compare with False."""
    return b.op("eq", x, b.constant(False))


def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """Negate ``x == y``, which is False where one is NaN."""
    return ~b.op("eq", x, y)


def greater(b: Builder, x: Value, y: Value) -> Value:
    """Exchange the sides of ``<``."""
    return b.op("lt", y, x)


def greater_equal(b: Builder, x: Value, y: Value) -> Value:
    """Exchange the sides of ``<=``; ``not x < y`` would hold for NaN."""
    return b.op("le", y, x)


def xor(b: Builder, x: Value, y: Value) -> Value:
    """Compare bools; of ints, take the bits that both have off those that one has."""
    return b.op("ne", x, y) if x.dtype == "bool" else (x | y) - (x & y)


def reduce_any(b: Builder, x: Value, axis: int) -> Value:
    """Write whether the count of True exceeds 0."""
    return b.op("ne", b.reduce("reduce_sum", b.cast(x, "int32"), axis), b.constant(0, "int32"))


def reduce_min(b: Builder, x: Value, axis: int) -> Value:
    """Find the largest in the opposite order."""
    # -1 - x reverses ints without overflow: there is one more negative int than positive ones.
    mirror = b.constant(-0.0 if x.dtype in FLOATS else -1, x.dtype)
    return mirror - b.reduce("reduce_max", mirror - x, axis)


def ordered_sum(b: Builder, x: Value, axis: int) -> Value:
    """Take the last of the running sums that start from zero."""
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    # A first term of 0.0 makes the sum of -0.0 alone 0.0, and of no terms zero.
    zero = np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    terms = b.concat([b.op("expand", x, b.constant(zero, x.dtype)), x], axis=axis)
    return b.reshape(b.take(b.reduce("cumsum", terms, axis), [x.shape[axis]], axis), *rest)


def logsumexp(b: Builder, x: Value, axis: int) -> Value:
    """Write ``log(sum(exp(x - top))) + top``."""
    top = b.reduce("reduce_max", x, axis)
    # inf - inf would be NaN, so a maximum that is not finite is not subtracted.
    infinite = b.op("isinf", top) | b.op("isnan", top)
    shift = b.where(infinite, b.constant(0.0, x.dtype), top)
    kept = b.reshape(shift, *x.shape[:axis], 1, *x.shape[axis + 1 :])
    return b.op("log", b.reduce("reduce_sum", b.op("exp", x - kept), axis)) + shift


def ordered_logsumexp(b: Builder, x: Value, axis: int) -> Value:
    """Write ``max(a, b) + log1p(exp(-|a - b|))``, term by term."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    total, *terms = (b.reshape(b.take(x, [i], axis), *shape) for i in range(x.shape[axis]))
    for term in terms:
        more = b.op("log1p", b.op("exp", -b.op("abs", total - term)))
        # Equal terms have a case of their own, since two infinite ones have no difference.
        total = b.where(
            b.op("eq", total, term),
            term + b.constant(math.log(2.0), x.dtype),
            b.op("maximum", total, term) + more,
        )
    return total


def sort(b: Builder, x: Value, axis: int) -> Value:
    """Read each line along the axis in the order that ``topk`` gives it, NaN last."""
    size = x.shape[axis]
    if 0 in x.shape:
        return x
    # topk takes rows of one axis, so the lines are cut out of the flat entries.
    places = np.moveaxis(np.arange(math.prod(x.shape)).reshape(x.shape), axis, -1).reshape(-1, size)
    lines = [b.take(b.reshape(x, places.size), line) for line in places]
    ordered = b.concat([b.gather(line, b.op("topk", line, k=size)) for line in lines])
    return b.reshape(b.take(ordered, np.argsort(places.ravel())), *x.shape)


def gather(b: Builder, x: Value, index: Value) -> Value:
    """Take the column that equals the index, one column after another."""
    if 0 in index.shape:
        return b.op("expand", x, b.constant(np.zeros(index.shape), x.dtype))
    ones = (1,) * len(index.shape)
    columns = [b.reshape(b.take(x, [column]), *ones) for column in range(x.shape[0])]
    # Any column would do: positions are in range, so one of the choices replaces it.
    value = columns[0]
    for number, column in enumerate(columns):
        value = b.where(b.op("eq", index, b.constant(number, "int32")), column, value)
    return value


def bucketize(b: Builder, x: Value, edges: Value, right: bool) -> Value:
    """Count the edges that each entry reaches; an entry that is NaN reaches all real ones."""
    reached = b.op("ge" if right else "gt", b.reshape(x, *x.shape, 1), edges)
    count = b.reduce("reduce_sum", b.cast(reached, "int32"), axis=1)
    if x.dtype not in FLOATS:
        return count
    real = (~np.isnan(b.array_of(edges))).sum(axis=1)
    return b.where(b.op("isnan", x), b.constant(real, "int32"), count)


def scatter(b: Builder, tokens: Value, weights: Value, width: int) -> Value:
    """Add up, for each column, the weights whose token it is, in their order."""
    count = tokens.shape[0]
    columns = b.constant(np.arange(width), "int32")
    chosen = b.op("eq", b.reshape(tokens, count, 1), columns)
    # A sum from 0.0 is never -0.0, so the zeros of other columns leave its bits as they are.
    terms = b.where(chosen, b.reshape(weights, count, 1), b.constant(0, weights.dtype))
    return b.reduce("ordered_sum" if weights.dtype in FLOATS else "reduce_sum", terms)


def embedding_sum(b: Builder, tokens: Value, weights: Value, table: Value) -> Value:
    """Add up the rows of the table, times their weights, in their order."""
    terms = b.lookup(table, tokens) * b.reshape(weights, *weights.shape, 1)
    return b.reduce("ordered_sum", terms)


def nearest(b: Builder, x: Value, points: Value, k: int) -> Value:
    """Find the smallest of the squared distances."""
    return b.op("topk", b.op("pairwise", x, points, kind="square", p=2.0), k=k)


def pairwise(b: Builder, x: Value, points: Value, kind: str, p: float) -> Value:
    """Fold the terms of one feature after another, each of a column of x and a constant row."""
    total = b.op("expand", x, b.constant(np.zeros(points.shape[0]), x.dtype))
    for feature, values in enumerate(b.array_of(points).T):
        term = TERMS[kind](b, b.take(x, [feature]), b.constant(values), p)
        total = b.op("maximum", total, term) if kind == "largest" else total + term
    return total


def shared_squares(b: Builder, x: Value, points: Value) -> Value:
    """Sum squares over the features that neither side misses, scaled up to all; NaN for none."""
    present = b.cast(~b.op("isnan", x), x.dtype)
    shared = b.matmul(present, b.constant((~np.isnan(b.array_of(points))).T, x.dtype))
    width = b.constant([float(points.shape[1])], x.dtype)
    return b.op("pairwise", x, points, kind="present", p=2.0) / shared * width


def nearest_donors(b: Builder, x: Value, points: Value, k: int) -> Value:
    """Rank all points by their squares."""
    return topk_donors(b, shared_squares(b, x, points), x, points, k)


def rank_donors(b: Builder, x: Value, points: Value, k: int) -> Value:
    """Rank all points by their squares, on a backend that has an operator for that."""
    return b.op("topk_donors", shared_squares(b, x, points), x, points, k=k)


def topk_donors(b: Builder, squares: Value, x: Value, points: Value, k: int) -> Value:
    """Find the smallest of the squares, column by column; NaN is added to those that do not count.

    A row that has the value takes position 0.
    """
    missing = b.op("isnan", x)
    nothing = b.constant(np.zeros(k), "int32")
    found = []
    for column, lacks in enumerate(np.isnan(b.array_of(points)).T):
        of_donors = squares + b.constant(np.where(lacks, np.nan, 0.0), x.dtype)
        nearest_first = b.op("topk", of_donors if lacks.any() else squares, k=k)
        chosen = b.where(b.take(missing, [column]), nearest_first, nothing)
        found.append(b.reshape(chosen, 1, k))
    return b.concat(found)


def donor_distances(b: Builder, x: Value, positions: Value, points: Value) -> Value:
    """Read the squares at the positions; NaN is added where they do not count."""
    lacks = np.where(np.isnan(b.array_of(points)), np.nan, 0.0)
    width = x.shape[0]
    entries = positions * b.constant(width, "int32") + b.constant(
        np.arange(width)[:, None], "int32"
    )
    squares = b.gather(shared_squares(b, x, points), positions)
    squares = squares + b.lookup(b.constant(lacks.ravel(), x.dtype), entries)
    missing = b.reshape(b.op("isnan", x), width, 1)
    return b.where(missing, squares, b.constant(np.nan, x.dtype))


def _absolute(b: Builder, x: Value, y: Value, p: float) -> Value:  # noqa: ARG001
    return b.op("abs", x - y)


def _square(b: Builder, x: Value, y: Value, p: float) -> Value:  # noqa: ARG001
    return (x - y) * (x - y)


def _power(b: Builder, x: Value, y: Value, p: float) -> Value:
    # numpy takes the root for the power 1/2, which ``pow`` may miss by a bit.
    distance = b.op("abs", x - y)
    return b.op("sqrt", distance) if p == 0.5 else b.op("pow", distance, b.constant(p, x.dtype))


def _different(b: Builder, x: Value, y: Value, p: float) -> Value:  # noqa: ARG001
    return b.cast(b.op("ne", x, y), x.dtype)


def _canberra(b: Builder, x: Value, y: Value, p: float) -> Value:  # noqa: ARG001
    size = b.op("abs", x) + b.constant(np.abs(b.array_of(y)))
    both_zero = b.op("eq", size, b.constant(0.0, x.dtype))
    return b.op("abs", x - y) / b.where(both_zero, b.constant(1.0, x.dtype), size)


def _chi_square(b: Builder, x: Value, y: Value, p: float) -> Value:
    size = x + y
    zero = b.constant(0.0, x.dtype)
    return b.where(b.op("eq", size, zero), zero, _square(b, x, y, p) / size)


def _present(b: Builder, x: Value, y: Value, p: float) -> Value:
    missing = b.op("isnan", x - y)
    return b.where(missing, b.constant(0.0, x.dtype), _square(b, x, y, p))


TERMS: Mapping[str, Rule] = {
    "square": _square,
    "absolute": _absolute,
    "largest": _absolute,
    "power": _power,
    "different": _different,
    "canberra": _canberra,
    "chi_square": _chi_square,
    "present": _present,
}
"""Term of one feature, by the kind of ``pairwise``."""


def lookup_codes(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
    """Read all tables as one, in which those of each column have a place."""
    # From 1 on, so that the code -1 reads the first entry of its table.
    firsts = np.cumsum([1, *sizes])[:-1]
    return b.lookup(table, codes + b.constant(firsts, "int32"))


def one_hot(b: Builder, codes: Value, sizes: Value, width: int, dtype: str) -> Value:
    """Compare each code with all numbers that it may be."""
    counts = b.array_of(sizes)
    repeated = b.take(codes, np.repeat(np.arange(len(counts)), counts))
    numbers = np.arange(width) - np.repeat(np.cumsum(counts) - counts, counts)
    return b.cast(b.op("eq", repeated, b.constant(numbers, "int32")), dtype)


def compare_small_tables(most_values: int, *, of_all_entries: bool) -> Rule:
    """Return a rule for ``lookup_codes`` that compares codes with each one of a small table.

    It reads other tables. A compare and a choice take all columns and many rows at once, which a
    read does not.

    Parameters
    ----------
    most_values : int
        Longest table that is small.
    of_all_entries : bool
        The numbers in the entries count, because a read takes as long for all numbers of an entry.

    Examples
    --------
    >>> b = Builder()
    >>> codes = b.input("codes", "int32", 2)
    >>> rule = compare_small_tables(4, of_all_entries=True)
    >>> table = b.constant([0.0, 1.0, 2.0, 9.0])
    >>> sorted(b.program({"y": rule(b, table, codes, (3, 1))}).primitives)
    ['eq', 'expand', 'where']
    """

    def rule(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
        values = max(sizes, default=0)
        if of_all_entries:
            values *= math.prod(table.shape[1:])
        if not 0 < values <= most_values:
            return lookup_codes(b, table, codes, sizes)
        return _compare(b, table, codes, sizes)

    return rule


def _compare(b: Builder, table: Value, codes: Value, sizes: tuple[int, ...]) -> Value:
    """Start with the entries for -1, and take another where the code says so."""
    entries = b.array_of(table)
    firsts = np.cumsum([0, *sizes])[:-1]
    value = b.op("expand", codes, b.constant(entries[firsts]))
    each = b.reshape(codes, *codes.shape, *(1 for _ in table.shape[1:]))
    for code in range(max(sizes) - 1):
        # Columns with fewer entries repeat their last one, which no code of theirs exceeds.
        places = firsts + np.minimum(code + 1, np.array(sizes) - 1)
        is_code = b.op("eq", each, b.constant(code, "int32"))
        value = b.where(is_code, b.constant(entries[places]), value)
    return value


DONORS: Mapping[str, Rule] = {
    "nearest_donors": nearest_donors,
    "topk_donors": topk_donors,
    "donor_distances": donor_distances,
}
"""Rules of what finds donors, by all distances."""
EXACT: Mapping[str, Rule] = {
    "neg": neg,
    "abs": absolute,
    "sign": sign,
    "ceil": ceil,
    "relu": relu,
    "sigmoid": sigmoid,
    "isnan": isnan,
    "isinf": isinf,
    "not": logical_not,
    "ne": not_equal,
    "gt": greater,
    "ge": greater_equal,
    "xor": xor,
    "reduce_any": reduce_any,
    "reduce_min": reduce_min,
    "ordered_sum": ordered_sum,
    "logsumexp": logsumexp,
    "sort": sort,
    "gather": gather,
    "bucketize": bucketize,
    "scatter": scatter,
    "embedding_sum": embedding_sum,
    "nearest": nearest,
    "pairwise": pairwise,
    **DONORS,
    "lookup_codes": lookup_codes,
    "one_hot": one_hot,
}
"""Rules whose result has the bits of the primitive, wherever those that they write are exact."""


def expm1(b: Builder, x: Value) -> Value:
    """``(u - 1) * x / log(u)`` for ``u = exp(x)``: the rounding of u cancels out."""
    one = b.constant(1.0, x.dtype)
    u = b.op("exp", x)
    y = b.where(b.op("isinf", u), u, (u - one) * (x / b.op("log", u)))
    # Of a denormal u the logarithm says little about x.
    y = b.where(u < b.constant(2.0**-60, x.dtype), u - one, y)
    return b.where(b.op("eq", u, one), x, y)


def log1p(b: Builder, x: Value) -> Value:
    """``log(u) * x / (u - 1)`` for ``u = 1 + x``: the rounding of u cancels out."""
    one = b.constant(1.0, x.dtype)
    u = one + x
    y = b.where(b.op("isinf", u), b.op("log", u), b.op("log", u) * (x / (u - one)))
    return b.where(b.op("eq", u, one), x, y)


def log2(b: Builder, x: Value) -> Value:
    """Logarithm to the base 2."""
    return b.op("log", x) / b.constant(math.log(2.0), x.dtype)


def log10(b: Builder, x: Value) -> Value:
    """Logarithm to the base 10."""
    return b.op("log", x) / b.constant(math.log(10.0), x.dtype)


def tan(b: Builder, x: Value) -> Value:
    """Sine by cosine."""
    return b.op("sin", x) / b.op("cos", x)


def atan(b: Builder, x: Value) -> Value:
    """Take the arc sine of ``x / sqrt(1 + x**2)``; beyond 1, a quarter turn less that of 1 / x."""
    one, zero = b.constant(1.0, x.dtype), b.constant(0.0, x.dtype)
    size = b.op("abs", x)
    is_large = size > one
    share = b.where(is_large, one / size, size)
    angle = b.op("asin", share / b.op("sqrt", one + share * share))
    angle = b.where(is_large, b.constant(math.pi / 2, x.dtype) - angle, angle)
    # Written so that -0.0 and NaN, which are not below zero, are returned as they are.
    return b.where(x < zero, -angle, b.where(x > zero, angle, x))


# Offsets are at most 1/16, so the terms left out are below 1e-19; from 6 on, erf is 1 in double.
_STEPS, _LAST, _ORDER = 8, 48, 13


def _erf_series() -> npt.NDArray[np.float64]:
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
        b.where(missing, b.constant(0.0, x.dtype), b.op("abs", x)),
        b.constant(_LAST / _STEPS, x.dtype),
    )
    nearest_eighth = b.op("rint", size * b.constant(float(_STEPS), x.dtype))
    index = b.cast(nearest_eighth, "int32")
    offset = size - nearest_eighth * b.constant(1 / _STEPS, x.dtype)
    series = [b.lookup(b.constant(row), index) for row in _erf_series()]
    y = series[-1]
    for term in reversed(series[:-1]):
        y = y * offset + term
    return b.where(missing, x, y * b.op("sign", x))


def _in_double(function: Rule) -> Rule:
    # The last bits lost in double vanish where the result is rounded to float32.
    return lambda b, x: b.cast(function(b, b.cast(x, "float64")), x.dtype)


DECOMPOSITIONS: Mapping[str, Rule] = {
    **EXACT,
    "ordered_logsumexp": ordered_logsumexp,
    **{f.__name__: _in_double(f) for f in (expm1, log1p, log2, log10, tan, atan, erf)},
}
"""The rule of each primitive that others can write.

Those of functions that are not in ``EXACT`` differ by as few units in the last place as any two
backends may. Rules may write each other's primitives, but never in a circle.
"""
