"""Emit distances to constant points, and the nearest of these.

One product bounds the distances to all points from below (``distance_bounds``). The candidates of
the least bounds are measured as the source does, and decide. Rows that they do not settle, such as
those with many points equally near, are compared with every point, in a branch of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hbconv.backends.onnx.shapes import (
    sort_key,
    topk,
    with_a_row,
    without_last_row,
    write_expand,
)
from hbconv.backends.onnx.writer import Tensor
from hbconv.tensor import TensorType
from hbconv.tensor.distance_bounds import LARGEST, MARGIN, DistanceBounds, find_bounds, find_share

if TYPE_CHECKING:
    from hbconv.backends.onnx.writer import GraphWriter

__all__ = ["measure_others", "nearest", "pairwise", "topk_donors"]

_Term = Callable[["GraphWriter", str, str, str], str]


MAX_UNROLLED_FEATURES = 16
"""Features up to which each has nodes of its own, which take 10 to 30% less time for a row.

Of 64 features, a Scan takes two thirds of their time for 100 rows. ONNX Runtime opened the nodes of
256 features in 0.3 to 0.5 s, and a Scan in 4 ms.
"""


def pairwise(w: GraphWriter, x: Tensor, points: Tensor, kind: str, p: float) -> str:
    """Fold the terms of one feature after another, each from a column of x and a constant row."""
    power = w.constant(p, x.dtype)
    fold = "Max" if kind == "largest" else "Add"
    total = write_expand(
        w, x.name, w.constant(np.zeros(points.shape[0]), x.dtype), points.shape[:1]
    )
    each = np.asarray(points.value).T
    if len(each) > MAX_UNROLLED_FEATURES:
        return _scan_features(w, x, total, each, (kind, power, fold))
    for feature, values in enumerate(each):
        column = w.node("Gather", x.name, w.constant([feature], "int64"), axis=1)
        term = _TERMS[kind](w, column, w.constant(values, x.dtype), power)
        total = w.node(fold, total, term)
    return total


def _scan_features(
    w: GraphWriter, x: Tensor, total: str, each: npt.NDArray[Any], term: tuple[str, str, str]
) -> str:
    """Fold by a Scan, whose body has the nodes of one feature."""
    kind, power, fold = term
    inner = w.inner()
    state, column, values = (
        Tensor(inner.fresh(hint), TensorType(x.dtype, shape, rows))
        for hint, shape, rows in (
            ("total", each.shape[1:], True),
            ("column", (1,), True),
            ("values", each.shape[1:], False),
        )
    )
    after = inner.node(fold, state.name, _TERMS[kind](inner, column.name, values.name, power))
    columns = w.node("Unsqueeze", x.name, w.constant([2], "int64"))
    (folded,) = w.scan(
        (inner, (state, column, values), [replace(state, name=after)]),
        (total, columns, w.constant(each)),
        scan_input_axes=[1, 0],
    )
    return folded


def nearest(w: GraphWriter, x: Tensor, points: Tensor, k: int) -> str:
    """Find the nearest points: among candidates, where these are few of many."""
    bounds = find_bounds(np.asarray(points.value), k)
    if bounds is None:
        return _search_all(w, x, points, k)
    # Zeros behind the rows: some versions of ONNX Runtime take no operator over no rows.
    rows = Tensor(with_a_row(w, x), x.type)
    found, settled = _search_candidates(w, rows, points, bounds, k)

    def search(inner: GraphWriter, others: Tensor) -> str:
        return _search_all(inner, others, points, k)

    of_candidates = Tensor(found, TensorType("int32", (k,)))
    return without_last_row(w, measure_others(w, rows, settled, of_candidates, search))


def topk_donors(w: GraphWriter, squares: Tensor, x: Tensor, points: Tensor, k: int) -> str:
    """Find the points of the smallest squares for each column that a row misses, by a Scan.

    1. Behind the rows comes one that misses all: operators over no rows may crash.
    2. The body ranks the points for rows that miss the column; a point that lacks it comes last.
    3. Other rows keep zeros.
    """
    nothing = w.constant(np.full((1, *x.shape), np.nan), x.dtype)  # 1
    columns = w.node("Concat", x.name, nothing, axis=0)
    key = with_a_row(w, sort_key(w, squares))
    zeros = write_expand(w, columns, w.constant(np.zeros(k), "int32"), (k,))
    lacks = np.where(np.isnan(np.asarray(points.value)).T, np.inf, 0.0)
    inner = w.inner()  # 2
    column = Tensor(inner.fresh("column"), TensorType(x.dtype, ()))
    lack = Tensor(inner.fresh("lack"), TensorType("float64", lacks.shape[1:], rows=False))
    missing = inner.node("IsNaN", column.name)
    of_rows = inner.node("Add", inner.node("Compress", key, missing, axis=0), lack.name)
    ranked = inner.cast(inner.topk(of_rows, k, 1)[1], "int32")
    at = inner.node("Transpose", inner.node("NonZero", missing), perm=[1, 0])  # 3
    found = Tensor(inner.node("ScatterND", zeros, at, ranked), TensorType("int32", (k,)))
    body = inner, (column, lack), [found]
    given = columns, w.constant(lacks)
    (of_columns,) = w.scan(body, given, [1, 0], scan_output_axes=[1])
    return without_last_row(w, of_columns)


def _search_all(w: GraphWriter, x: Tensor, points: Tensor, k: int) -> str:
    """Compare each row with every point."""
    distances = pairwise(w, x, points, "square", 2.0)
    return topk(w, Tensor(distances, TensorType(x.dtype, points.shape[:1])), k)


def _search_candidates(
    w: GraphWriter, x: Tensor, points: Tensor, bounds: DistanceBounds, k: int
) -> tuple[str, str]:
    """Return the nearest candidates, and the rows in which all other points are farther.

    1. Rows that have no bounds are read as zeros.
    2. The candidates are those of the least bounds, in the order of the points.
    3. Their squares are added feature by feature; among equal ones TopK takes the first.
    4. The last of the k is below the bound of every point that is no candidate.
    """
    count, dtype = k + MARGIN, bounds.norms.dtype.name
    one, two = w.constant([1], "int64"), w.constant(2, "int64")
    limit = w.constant(LARGEST[dtype], x.dtype)
    inside = w.node("LessOrEqual", w.node("Abs", x.name), limit)  # 1
    known = w.node("Where", inside, x.name, w.constant(0.0, x.dtype))
    apart = w.node("Sub", known, w.constant(bounds.centre))
    # The norms are a row of the product: to add them would pass all bounds once more.
    ones = write_expand(w, x.name, w.constant([1.0], x.dtype), (1,))
    left = w.node("Concat", apart, ones, axis=1)
    right = w.constant(np.vstack([bounds.weights, bounds.norms]))
    product = w.node("MatMul", left if dtype == x.dtype else w.cast(left, dtype), right)
    least, positions = w.topk(product, count, 1)  # 2
    candidates = w.topk(positions, count, 1)[0]
    of_candidates = w.node("Gather", points.name, candidates, axis=0)
    difference = w.node("Sub", of_candidates, w.node("Unsqueeze", known, one))  # 3
    sums = w.node("CumSum", w.node("Mul", difference, difference), two)
    whole = w.constant(points.shape[1] - 1, "int64")
    nearest_squares, at = w.topk(w.node("Gather", sums, whole, axis=2), k, 1)
    found = w.cast(w.node("GatherElements", candidates, at, axis=1), "int32")
    last = w.node("Gather", nearest_squares, w.constant([k - 1], "int64"), axis=1)  # 4
    others = w.node("Gather", least, w.constant([count - 1], "int64"), axis=1)
    others = others if dtype == x.dtype else w.cast(others, x.dtype)
    share = w.constant(find_share(points.shape[1], dtype), x.dtype)
    square = w.node("Mul", w.node("ReduceSumSquare", apart, one, keepdims=1), share)
    all_inside = w.cast(w.node("ReduceMin", w.cast(inside, "int32"), one, keepdims=1), "bool")
    is_below = w.node("Less", last, w.node("Add", others, square))
    return found, w.node("And", is_below, all_inside)


def measure_others(
    w: GraphWriter,
    x: Tensor,
    settled: str,
    found: Tensor,
    measure: Callable[[GraphWriter, Tensor], str],
) -> str:
    """Replace what was found for rows that are not settled, if there are any."""
    others = w.node("Reshape", w.node("Not", settled), w.constant([-1], "int64"))
    some = w.inner()
    rows = Tensor(some.node("Compress", x.name, others, axis=0), x.type)
    at = some.node("Transpose", some.node("NonZero", others), perm=[1, 0])
    replaced = Tensor(some.node("ScatterND", found.name, at, measure(some, rows)), found.type)
    none = w.inner()
    kept = Tensor(none.node("Identity", found.name), found.type)
    # A last zero, since there may be no rows.
    flags = w.node("Concat", w.cast(others, "int32"), w.constant([0], "int32"), axis=0)
    any_other = w.node("ReduceMax", flags, keepdims=0)
    (result,) = w.choice(w.cast(any_other, "bool"), (some, [replaced]), (none, [kept]))
    return result.name


def _difference(w: GraphWriter, x: str, y: str, power: str) -> str:  # noqa: ARG001
    return w.node("Abs", w.node("Sub", x, y))


def _square(w: GraphWriter, x: str, y: str, power: str) -> str:  # noqa: ARG001
    difference = w.node("Sub", x, y)
    return w.node("Mul", difference, difference)


def _power(w: GraphWriter, x: str, y: str, power: str) -> str:
    return w.node("Pow", _difference(w, x, y, power), power)


def _different(w: GraphWriter, x: str, y: str, power: str) -> str:
    return w.node("CastLike", w.node("Not", w.node("Equal", x, y)), power)


def _canberra(w: GraphWriter, x: str, y: str, power: str) -> str:
    size = w.node("Add", w.node("Abs", x), w.node("Abs", y))
    zero, one = (w.node("CastLike", w.constant(number), power) for number in (0.0, 1.0))
    return w.node(
        "Div", _difference(w, x, y, power), w.node("Where", w.node("Equal", size, zero), one, size)
    )


def _chi_square(w: GraphWriter, x: str, y: str, power: str) -> str:
    size, square = w.node("Add", x, y), _square(w, x, y, power)
    zero = w.node("CastLike", w.constant(0.0), power)
    return w.node("Where", w.node("Equal", size, zero), zero, w.node("Div", square, size))


def _present(w: GraphWriter, x: str, y: str, power: str) -> str:
    square = _square(w, x, y, power)
    return w.node(
        "Where", w.node("IsNaN", square), w.node("CastLike", w.constant(0.0), power), square
    )


_TERMS: dict[str, _Term] = {
    "square": _square,
    "absolute": _difference,
    "largest": _difference,
    "power": _power,
    "different": _different,
    "canberra": _canberra,
    "chi_square": _chi_square,
    "present": _present,
}
