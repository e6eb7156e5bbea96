"""Functions of numpy over whole arrays that record: the one table from their names to nodes.

Each has the arguments of numpy's that are followed; others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    ArgMax,
    Bins,
    Cast,
    CastLike,
    Choose,
    Compare,
    ConstantRows,
    FindCode,
    GroupSums,
    Impute,
    Interpolate,
    IsMissing,
    IsNonFinite,
    Linear,
    Multiply,
    Node,
    Pool,
    Relation,
    RoundDecimals,
    RowStatistic,
    Select,
)
from hbconv.parse.tracing.arrays import (
    FUNCTIONS,
    Traced,
    TracedMatrix,
    TracedVector,
    Transposed,
    _Rows,
    holds_traced,
    join,
    operand_of,
)
from hbconv.parse.tracing.functions import choose, clip, constant_of, convert, node_of, truth
from hbconv.parse.tracing.labels import choose_labels, is_text, labels_of
from hbconv.parse.tracing.trace import RowCount, current_trace, refuse

__all__ = ["MAKERS"]

_OTHER_ROWS = "Its answer for a row depends on the other rows. Compute it when fitting."


def _rows(x: Any) -> Any:
    """Return the array that a function is called with."""
    return x if isinstance(x, _Rows) else refuse("calls a function of numpy with other values")


def _need_columns_axis(axis: Any, x: Any) -> None:
    """Refuse what runs along the rows."""
    if not (isinstance(x, TracedMatrix) and axis in (1, -1)):
        refuse("reduces or orders along the rows", _OTHER_ROWS)


def where(condition: Any, x: Any, y: Any) -> Any:
    """``np.where`` of three arguments."""
    if is_text(x) or is_text(y):
        return choose_labels(condition, x, y)
    forms = {type(value) for value in (condition, x, y) if isinstance(value, _Rows)}
    if len(forms) != 1:
        refuse(
            "chooses between a column of shape (n,) and a table of shape (n, k)",
            "Keep the axis: x[:, [0]] or x[:, None].",
        )
    (form,) = forms
    return form(choose(*(operand_of(value) for value in (condition, x, y))))


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """``np.select``: the first condition that holds decides."""
    result = default
    if any(map(is_text, (*choicelist, default))):
        for condition, choice in list(zip(condlist, choicelist, strict=True))[::-1]:
            result = choose_labels(condition, choice, result)
        return result
    # numpy finds one dtype of all choices first.
    dtypes = [
        value.dtype if isinstance(value, _Rows) else value for value in (*choicelist, default)
    ]
    dtype = np.result_type(*dtypes)
    for condition, choice in list(zip(condlist, choicelist, strict=True))[::-1]:
        result = where(condition, choice, result)
    return result if result.dtype == dtype else result.astype(dtype)


def clip_(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:  # noqa: A002
    """``np.clip``."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    bounds = [None if bound is None else operand_of(bound) for bound in (low, high)]
    if any(isinstance(bound, Node) for bound in bounds):
        refuse("clips by columns", "Use np.minimum(np.maximum(x, low), high).")
    return _rows(a).like(clip(a.node, *bounds))


def round_(a: Any, decimals: int = 0) -> Any:
    """``np.round`` to decimals."""
    rows = _rows(a)
    if rows.dtype.kind == "b":
        refuse("rounds bools", "Convert them first: mask.astype(float).")
    return rows.like(RoundDecimals(rows.node, int(decimals)))


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """``np.nan_to_num``."""
    if not copy:
        refuse("fills an array in place", "Leave copy= out.")
    node = Cast(_rows(x).node, "float")
    width = node.type.width
    filled: Node = Impute(node, Array(np.full(width, float(nan))))
    largest = float(np.finfo(node.type.dtype).max)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    for infinity, value in ((np.inf, high), (-np.inf, low)):
        constant = CastLike(node_of(constant_of(float(value))), node)
        filled = Choose(Compare.of(node, "eq", infinity), _wide(constant, width), filled)
    return x.like(filled)


def _wide(node: Node, width: int) -> Node:
    return node if node.type.width == width else Select(node, Array(np.zeros(width, np.int32)))


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """``np.concatenate`` of columns."""
    if not all(isinstance(part, TracedMatrix) for part in arrays) or axis not in (1, -1):
        refuse("joins rows", "Join columns: np.column_stack, or np.concatenate(..., axis=1).")
    return join(arrays)


def hstack(tup: Sequence[Any]) -> Any:
    """``np.hstack`` of tables."""
    return concatenate(tup, axis=1)


def column_stack(tup: Sequence[Any]) -> Any:
    """``np.column_stack``."""
    return join(list(tup.T if isinstance(tup, TracedMatrix) else tup))


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """``np.stack`` of columns."""
    if axis not in (1, -1) or not all(isinstance(part, TracedVector) for part in arrays):
        refuse("joins rows", "Join columns: np.column_stack([a, b]).")
    return join(arrays)


def vstack(tup: Sequence[Any]) -> Any:
    """``np.vstack`` of columns, to be transposed back."""
    if not all(isinstance(part, TracedVector) for part in tup):
        refuse("joins rows", "Join columns: np.column_stack([a, b]).")
    return Transposed(join(tup))


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """``np.append`` of columns."""
    return concatenate([arr, values], axis=0 if axis is None else axis)


def multiply(x: Any, weights: Any) -> Any:
    """Rows times a constant matrix or vector."""
    if not isinstance(x, TracedMatrix) or isinstance(weights, Traced):
        refuse("multiplies matrices of rows", "Multiply rows by a constant: X @ weights.")
    matrix = np.asarray(weights)
    if matrix.ndim not in (1, 2) or matrix.dtype.name not in ("float64", "float32", "int64"):
        refuse(f"multiplies rows by an array of {matrix.dtype}", "Multiply by float64.")
    if len(matrix) != x.width:
        raise ValueError(f"matmul: {x.width} columns and {len(matrix)} rows of weights")
    if x.dtype.kind != "f" and matrix.dtype.kind != "f":
        refuse("multiplies matrices of ints", "Multiply by floats.")
    # Rules of the optimizer leave out weights of zero, which make NaN of infinite numbers.
    what = "A number of a product of matrices is NaN or infinite."
    current_trace().checks.append((IsNonFinite(x.node, allow_nan=False), what))
    node = Linear.of(x.node, matrix.astype(np.result_type(matrix.dtype, np.float32)))
    return TracedVector(node) if matrix.ndim == 1 else TracedMatrix(node)


def _edges(bins: Any) -> np.ndarray[Any, Any]:
    edges = np.asarray(bins, np.float64)
    if (
        edges.ndim != 1
        or not len(edges)
        or not np.all(np.diff(edges) >= 0)
        or np.isnan(edges).any()
    ):
        refuse("sorts numbers into bins whose edges do not ascend", "Sort the edges.")
    return edges


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """``np.digitize`` by constant edges."""
    if isinstance(bins, Traced):
        refuse("sorts numbers into bins of the rows", _OTHER_ROWS)
    edges = _edges(bins)
    node = _rows(x).node
    # An edge that itself belongs below is the next float above it for what reaches it.
    reached = np.nextafter(edges, np.inf) if right else edges
    width = node.type.width
    floats = Cast(node, "float64")
    bins_below = Bins(floats, Array(np.broadcast_to(reached, (width, len(reached)))))
    last = ConstantRows(floats, Array(np.full(width, float(len(edges)))))
    return x.like(Cast(Choose(IsMissing(floats), last, bins_below), "int64"))


def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """``np.searchsorted`` of rows in constant edges."""
    if isinstance(a, Traced) or side not in ("left", "right"):
        refuse("searches in the rows", _OTHER_ROWS)
    return digitize(v, a, right=side == "left")


def interp(x: Any, xp: Any, fp: Any) -> Any:
    """``np.interp`` between constant points."""
    if holds_traced([xp, fp]):
        refuse("interpolates between points of the rows", _OTHER_ROWS)
    node = Cast(_rows(x).node, "float64")
    shape = (node.type.width, len(xp))
    knots, values = (np.broadcast_to(np.asarray(p, np.float64), shape) for p in (xp, fp))
    return x.like(Interpolate(node, Array(knots), Array(values)))


def isin(element: Any, test_elements: Any, invert: bool = False) -> Any:
    """``np.isin`` of constants."""
    if holds_traced(test_elements):
        refuse("looks among values of the rows", _OTHER_ROWS)
    values = np.unique(np.asarray(list(np.ravel(test_elements)), np.float64))
    node = _rows(element).node
    # NaN equals nothing, itself included.
    known = Array(values[~np.isnan(values)])
    codes = FindCode(Cast(node, "float64"), (known,) * node.type.width)
    return element.like(Compare.of(codes, "lt" if invert else "ge", 0))


def dot(a: Any, b: Any) -> Any:
    """``np.dot`` with a constant matrix."""
    return multiply(a, b)


def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    """``np.diff`` along the columns."""
    _need_columns_axis(axis, a)
    return a[:, 1:] - a[:, :-1] if n == 1 else diff(diff(a), n - 1)


def cumsum(a: Any, axis: Any = None) -> Any:
    """``np.cumsum`` along the columns."""
    _need_columns_axis(axis, a)
    sums = [a[:, 0]]
    for place in range(1, a.width):
        sums.append(sums[-1] + a[:, place])
    return join(sums)


def tile(A: Any, reps: Any) -> Any:  # noqa: N803
    """``np.tile`` of columns."""
    if (
        not isinstance(A, TracedMatrix)
        or not isinstance(reps, tuple)
        or len(reps) != 2
        or reps[0] != 1
    ):
        refuse("repeats rows", "Repeat columns: np.tile(X, (1, k)).")
    return join([A] * reps[1])


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """``np.delete`` of columns."""
    return _columns_at(arr, axis, lambda places: np.delete(places, obj))


def flip(m: Any, axis: Any = None) -> Any:
    """``np.flip`` of columns."""
    return _columns_at(m, axis, lambda places: places[::-1])


def roll(a: Any, shift: int, axis: Any = None) -> Any:
    """``np.roll`` of columns."""
    return _columns_at(a, axis, lambda places: np.roll(places, shift))


def _columns_at(x: Any, axis: Any, move: Callable[[Any], Any]) -> Any:
    _need_columns_axis(axis, x)
    places = move(np.arange(x.width)).tolist()
    return x[:, places].copy() if places else refuse("makes rows without columns")


def expand_dims(a: Any, axis: int) -> Any:
    """``np.expand_dims`` of a vector into a column."""
    return a[:, None] if isinstance(a, TracedVector) and axis in (1, -1) else refuse("moves axes")


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """``np.linalg.norm`` of each row."""
    _need_columns_axis(axis, x)
    if ord == 1:
        return reduce_rows("sum", abs(x), axis=1, keepdims=keepdims)
    if ord not in (None, 2):
        refuse(f"takes a norm of order {ord!r}", "Use 1 or 2.")
    return np.sqrt(reduce_rows("sum", x * x, axis=1, keepdims=keepdims))


MOST_ADDED = 8
"""Columns below which numpy adds one after another; beyond that it adds in pairs."""


def _sum(node: Node) -> Node:
    parts = _columns(node)
    return Add(tuple(parts)) if 1 < len(parts) < MOST_ADDED else GroupSums(node, 1)


def _columns(node: Node) -> list[Node]:
    return [Select(node, Array.of([j], np.int32)) for j in range(node.type.width)]


def _product(node: Node) -> Node:
    parts = _columns(node)
    if not 1 < len(parts) < MOST_ADDED:
        refuse(f"multiplies {len(parts)} columns", "Multiply up to 7 columns.")
    return Multiply(tuple(parts))


def _pooled(name: str) -> Callable[[Node], Node]:
    return lambda node: Pool(node, (tuple(range(node.type.width)),), name)


def _median(node: Node) -> Node:
    """Return the median, NaN where a value is missing."""
    floats = Cast(node, "float")
    is_missing = _combined("or")(IsMissing(floats))
    return Choose(is_missing, _pooled("max")(floats), _pooled("median")(floats))


def _combined(relation: str) -> Callable[[Node], Node]:
    return lambda node: reduce(lambda x, y: Relation(x, y, relation), _columns(truth(node)))


_REDUCED: dict[str, Callable[[Node], Node]] = {
    "sum": lambda node: _sum(Cast(node, "int64") if node.type.dtype == "bool" else node),
    "mean": lambda node: Affine.of(_sum(Cast(node, "float")), div=float(node.type.width)),
    "prod": _product,
    "max": _pooled("max"),
    "min": _pooled("min"),
    "median": _median,
    "any": _combined("or"),
    "all": _combined("and"),
    "argmax": lambda node: Cast(ArgMax(node), "int64"),
}
"""Functions of the columns of a row."""


def reduce_rows(how: str, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Reduce the columns of each row to one."""
    _need_columns_axis(axis, x)
    if x.width == 0:
        refuse("reduces rows without columns")
    if x.dtype.kind == "b" and how in ("mean", "max", "min", "median", "prod", "argmax"):
        refuse("computes with bools", "Convert them first: mask.astype(float).")
    node = _REDUCED[how](x.node)
    return TracedMatrix(node) if keepdims else TracedVector(node)


def _statistic(name: str) -> Callable[..., Any]:
    """Return a statistic that skips NaN, or a deviation."""

    def function(a: Any, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Any:
        _need_columns_axis(axis, a)
        rows = _rows(a)
        if rows.dtype.kind == "b":
            refuse("computes with bools", "Convert them first: mask.astype(float).")
        if not 0 < rows.width < MOST_ADDED:
            # Beyond that the order of the sums is that of the array in memory.
            refuse(f"computes {name} of {rows.width} columns", "Take up to 7 columns.")
        node = RowStatistic(rows.node, name, int(ddof))
        return TracedMatrix(node) if keepdims else TracedVector(node)

    return function


_STATISTICS = ("nansum", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "var", "std")


def _reducer(how: str) -> Callable[..., Any]:
    def function(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return reduce_rows(how, a, axis, keepdims)

    return function


def _row_method(name: str) -> Callable[..., Any]:
    return lambda a, *args, **keywords: getattr(a, name)(*args, **keywords)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reducer(name) for name in _REDUCED},
    **{name: _statistic(name) for name in _STATISTICS},
    "amax": _reducer("max"),
    "amin": _reducer("min"),
    "append": append,
    "around": round_,
    "clip": clip_,
    "column_stack": column_stack,
    "concatenate": concatenate,
    "copy": _row_method("copy"),
    "cumsum": cumsum,
    "diff": diff,
    "delete": delete,
    "digitize": digitize,
    "dot": dot,
    "expand_dims": expand_dims,
    "flip": flip,
    "fliplr": lambda m: flip(m, axis=1),
    "hstack": hstack,
    "interp": interp,
    "isin": isin,
    "linalg.norm": norm,
    "matmul": multiply,
    "nan_to_num": nan_to_num,
    "ndim": lambda a: a.ndim,
    "ravel": _row_method("ravel"),
    "reshape": _row_method("reshape"),
    "roll": roll,
    "round": round_,
    "searchsorted": searchsorted,
    "select": select,
    "shape": lambda a: a.shape,
    "squeeze": _row_method("squeeze"),
    "stack": stack,
    "tile": tile,
    "transpose": lambda a: a.T,
    "vstack": vstack,
    "where": where,
}
"""Functions of numpy by name, with the arguments that are followed."""

FUNCTIONS.update(_FUNCTIONS)
for _how in (*_REDUCED, "var", "std"):
    if _how != "median":
        setattr(TracedMatrix, _how, FUNCTIONS[_how])
        setattr(TracedVector, _how, FUNCTIONS[_how])


# ------------------------------------------------- functions that make arrays


def asarray(a: Any, dtype: Any = None, copy: Any = None, **keywords: Any) -> Any:
    """``np.asarray`` and ``np.array``: an array that records stays itself, or is copied."""
    if isinstance(a, list | tuple) and a and all(isinstance(x, TracedVector) for x in a):
        return Transposed(join(a))
    if isinstance(a, list | tuple):
        refuse("makes an array of a list of columns", "Join them: np.column_stack([a, b]).")
    keywords.pop("order", None)
    if keywords:
        refuse(f"makes an array with {', '.join(sorted(keywords))}")
    rows = _rows(a)
    if dtype is not None and np.dtype(dtype) != rows.dtype:
        return rows.astype(dtype)
    return rows.copy() if copy else rows


def array(a: Any, dtype: Any = None, copy: Any = True, **keywords: Any) -> Any:
    """``np.array`` copies."""
    return asarray(a, dtype, copy, **keywords)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """``np.full`` of rows."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if not isinstance(sizes[0], RowCount) or len(sizes) > 2 or isinstance(fill_value, Traced):
        refuse("makes an array of a shape that rows do not have", "Use (len(X), k).")
    if is_text(fill_value) and len(sizes) == 1:
        return labels_of(fill_value)
    node = node_of(constant_of(fill_value))
    node = node if dtype is None else convert(node, dtype)
    if len(sizes) == 1:
        return TracedVector(node)
    return TracedMatrix(_wide(node, sizes[1]))


def zeros(shape: Any, dtype: Any = float) -> Any:
    """``np.zeros`` and ``np.empty`` of rows."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = float) -> Any:
    """``np.ones`` of rows."""
    return full(shape, 1, dtype)


def full_like(a: Any, fill_value: Any, dtype: Any = None) -> Any:
    """``np.full_like``."""
    node = _wide(node_of(constant_of(fill_value)), _rows(a).node.type.width)
    if dtype is not None:
        return a.like(convert(node, dtype))
    current_trace().writes.append((node, a.node))
    return a.like(CastLike(node, a.node))


class _Joiner:
    """``np.c_``."""

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        return join(parts) if holds_traced(parts) else np.c_[key]


MAKERS: dict[str, Any] = {
    "array": array,
    "asanyarray": asarray,
    "asarray": asarray,
    "ascontiguousarray": asarray,
    "atleast_2d": lambda a: (
        a if isinstance(a, TracedMatrix) else refuse("makes one row of a column")
    ),
    "c_": _Joiner(),
    "empty": zeros,
    "empty_like": lambda a, dtype=None: full_like(a, 0, dtype),
    "full": full,
    "full_like": full_like,
    "ones": ones,
    "ones_like": lambda a, dtype=None: full_like(a, 1, dtype),
    "zeros": zeros,
    "zeros_like": lambda a, dtype=None: full_like(a, 0, dtype),
}
"""Functions of numpy that make arrays, which no protocol of numpy reaches."""
