"""Trace a function of rows, judge the trace, and put it in the place of the function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    AreNarrow,
    Cast,
    Columns,
    IsOtherDtype,
    Node,
    Output,
    Schema,
    Select,
    rewrite,
)
from hbconv.parse.common.members import is_frame
from hbconv.parse.step import Step
from hbconv.parse.tracing.arrays import ColumnMemory, TracedMatrix, TracedVector
from hbconv.parse.tracing.judge import find_difference, retyped
from hbconv.parse.tracing.rebuild import run_function
from hbconv.parse.tracing.tables import trace_table
from hbconv.parse.tracing.trace import (
    FunctionRefusal,
    Trace,
    refuse,
    refuse_step,
    say_way_out,
    tracing,
)

__all__ = ["trace_function"]


@dataclass(frozen=True)
class _Traced:
    """What a function does to columns of a schema of its own."""

    answer: Node
    checks: tuple[tuple[Node, str], ...]
    writes: tuple[tuple[Node, Node], ...]
    vector: bool


def trace_function(
    step: Step, parameter: str, x: Node, keywords: Mapping[str, Any] | None = None
) -> Output:
    """Return what the function that a parameter holds makes of the rows of x.

    Rows of dtypes that it answers otherwise than the trace are refused.

    Raises
    ------
    UnsupportedError
        It does what no row alone decides, or what hbconv does not follow.
    """
    func = getattr(step.estimator, parameter)
    keywords = dict(keywords or {})
    if is_frame(x):
        return trace_table(step, parameter, x, keywords)
    if x.type.dtype == "string":
        raise refuse_step(step, parameter, "hbconv follows functions of numbers, and not of texts.")
    dtype = x.type.dtype if x.type.dtype in ("float32", "int64") else "float64"
    leaf = Columns.of(Schema.matrix(x.type.width, dtype))
    try:
        traced = _run(func, keywords, leaf)
    except FunctionRefusal as refusal:
        raise refuse_step(step, parameter, f"{refusal.sentence} {say_way_out(step)}") from None
    _judge(step, parameter, func, keywords, traced, dtype, x)
    for check, why in traced.checks:
        message = f"{why} The function of {step.name} ({step.place}) meets it, and hbconv refuses."
        step.check(_over(check, x), message)
    return Output(_over(traced.answer, x))


def _run(func: Any, keywords: Mapping[str, Any], leaf: Columns) -> _Traced:
    """Run the function once over columns that record."""
    trace = Trace(leaf)
    with tracing(trace):
        result = run_function(func, TracedMatrix(ColumnMemory(leaf, is_argument=True)), keywords)
        if not isinstance(result, TracedMatrix | TracedVector):
            refuse(f"returns {type(result).__name__}", "Return an array with a row for each row.")
    return _Traced(
        result.node, tuple(trace.checks), tuple(trace.writes), isinstance(result, TracedVector)
    )


_KINDS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("float32", ("float32",)),
    ("int64", ("int64",)),
    ("narrow", ("int16", "int8", "uint8", "bool", "int32")),
)
"""Dtypes of rows that are not those of the trace, and what each stands for."""


def _judge(
    step: Step,
    parameter: str,
    func: Any,
    keywords: Mapping[str, Any],
    traced: _Traced,
    dtype: str,
    x: Node,
) -> None:
    """Refuse a function that differs from its trace, and rows of dtypes in which it does."""

    def difference(kind: str) -> str | None:
        if kind != dtype and _narrows(traced, kind):
            return "it converts floats to ints"
        return find_difference(
            lambda rows: func(rows, **keywords),
            traced.answer,
            [check for check, _ in traced.checks],
            kind,
            vector=traced.vector,
        )

    what = difference(dtype)
    if what:
        raise refuse_step(
            step, parameter, f"What hbconv made of it differs from it: {what}. {say_way_out(step)}"
        )
    if traced.vector:
        hint = "It returns an array of shape (n,): return a column, x.reshape(-1, 1)."
        raise refuse_step(step, parameter, hint)
    failed = {name for name, kinds in _KINDS if name != dtype and any(map(difference, kinds))}
    for name in sorted(failed):
        _refuse_rows(step, name, x)


def _narrows(traced: _Traced, dtype: str) -> bool:
    """Tell whether floats are written into ints for rows of a dtype, where NaN has no value."""
    if dtype.startswith("float") or not traced.writes:
        return False
    flat = retyped([node for pair in traced.writes for node in pair], "int64")
    floats = [node.type.dtype.startswith("float") for node in flat]
    return any(value and not place for value, place in zip(floats[::2], floats[1::2], strict=True))


def _refuse_rows(step: Step, kind: str, x: Node) -> None:
    """Refuse rows of a dtype that the function answers otherwise."""
    message = (
        f"The function of {step.name} ({step.place}) computes otherwise with rows of "
        f"{'bools or narrow ints' if kind == 'narrow' else kind}. Give float64: X.astype(float)."
    )
    if kind == "narrow" and retyped([x], "int64")[0].type.dtype.startswith("float"):
        return
    floats = Cast(x, "float")
    conditions = {
        "float32": IsOtherDtype(floats, "float64"),
        "int64": IsOtherDtype(x, "float"),
        "narrow": AreNarrow(x),
    }
    step.check(conditions[kind], message)


def _over(node: Node, x: Node) -> Node:
    """Return a node of the trace over x in the place of its own columns."""

    def visit(visited: Node) -> Node:
        if not isinstance(visited, Columns):
            return visited
        whole = np.array_equal(visited.indices.data, np.arange(x.type.width))
        return x if whole else Select(x, Array(visited.indices.data))

    return rewrite((node,), visit)[node]
