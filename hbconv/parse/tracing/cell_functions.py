"""Functions of values: those of ``math``, and functions of users that ``np.vectorize`` applies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbconv.containers import Cast, Compare, Map, Node, Relation
from hbconv.parse.tracing.arrays import TracedMatrix, TracedVector, holds_traced, join
from hbconv.parse.tracing.cells import TracedCell, joined_paths
from hbconv.parse.tracing.frames import series_of
from hbconv.parse.tracing.functions import convert
from hbconv.parse.tracing.trace import refuse

__all__ = ["FUNCTIONS_OF_MATH", "vectorized"]


def _is_infinite(node: Node) -> Node:
    return Compare.of(Map(node, "abs"), "eq", np.inf)


def _of_math(ufunc: np.ufunc, raises: Callable[[Node, Node], Node]) -> Callable[..., TracedCell]:
    """Return a function of one value, where rows at which Python raises are refused."""

    def function(cell: TracedCell) -> TracedCell:
        floats = cell._series.astype(float)
        result = ufunc(floats)
        why = f"math.{ufunc.__name__} raises for a number."
        cell._path.refuse_where(raises(floats.node, result.node), why)
        return cell._like(result)

    return function


def _at_most(limit: float) -> Callable[[Node, Node], Node]:
    return lambda x, _: Compare.of(x, "le", limit)


def _overflows(x: Node, result: Node) -> Node:
    return Relation(_is_infinite(result), Compare.of(x, "lt", np.inf), "and")


FUNCTIONS_OF_MATH: dict[str, Callable[..., TracedCell]] = {
    "exp": _of_math(np.exp, _overflows),
    "log": _of_math(np.log, _at_most(0.0)),
    "log10": _of_math(np.log10, _at_most(0.0)),
    "log1p": _of_math(np.log1p, _at_most(-1.0)),
    "log2": _of_math(np.log2, _at_most(0.0)),
    "sqrt": _of_math(np.sqrt, lambda x, _: Compare.of(x, "lt", 0.0)),
    **{
        ufunc.__name__: _of_math(ufunc, lambda x, _: _is_infinite(x))
        for ufunc in (np.sin, np.cos, np.tan)
    },
    "fabs": lambda cell: abs(cell._like(cell._series.astype(float))),
    "isnan": lambda cell: cell.isna(),
}
"""Functions of ``math`` of one value, by name."""

_WAY = "Give otypes=[float]."


def vectorized(
    pyfunc: Any,
    otypes: Any = None,
    doc: Any = None,  # noqa: ARG001
    excluded: Any = None,
    cache: bool = False,  # noqa: ARG001
    signature: Any = None,
) -> Callable[..., Any]:
    """``np.vectorize`` of a function of values, each way through which is run."""
    if excluded or signature is not None:
        refuse("vectorizes by a signature, or without some arguments", "Give it columns alone.")
    dtype = _dtype_of(otypes)

    def call(*args: Any) -> Any:
        matrices = [x for x in args if isinstance(x, TracedMatrix)]
        if not matrices:
            return _applied(pyfunc, args, dtype)
        if len(args) > 1:
            refuse("vectorizes a function of several arrays", "Give it columns.")
        (rows,) = matrices
        columns = (_applied(pyfunc, (rows.column(j),), dtype) for j in range(rows.width))
        return join(list(columns))

    return call


def _dtype_of(otypes: Any) -> str | None:
    if otypes is None or otypes == "":
        return None
    listed = list(otypes)
    name = np.dtype(listed[0]).name if len(listed) == 1 else ""
    if name not in ("float64", "bool"):
        refuse("vectorizes into such types", _WAY)
    return name


_DTYPES: dict[type, str] = {bool: "bool", int: "int64", float: "float64"}


def _applied(pyfunc: Any, args: tuple[Any, ...], dtype: str | None) -> TracedVector:
    if any(holds_traced(x) and not isinstance(x, TracedVector) for x in args):
        refuse("vectorizes a function of other than columns", "Give it columns and numbers.")
    kinds: set[type] = set()

    def run(path: Any) -> Any:
        values = [
            TracedCell(series_of(x.node, None), path) if isinstance(x, TracedVector) else x
            for x in args
        ]
        result = pyfunc(*values)
        kinds.add(type(result))
        return result

    node = joined_paths(run)
    if dtype is not None:
        return TracedVector(convert(node, dtype))
    # numpy takes the dtype of what the first row gives.
    if len(kinds) != 1 or not kinds <= _DTYPES.keys():
        refuse("returns values whose dtype the first row decides", _WAY)
    return TracedVector(Cast(node, _DTYPES[kinds.pop()]))
