"""Trace a function of rows, judge the trace, and put it in the place of the function."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hbconv.array import Array
from hbconv.containers import (
    NARROW_DTYPES,
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
from hbconv.parse.step import Conditions, Step
from hbconv.parse.tracing.answers import as_output, hand_on
from hbconv.parse.tracing.arrays import ColumnMemory, TracedMatrix
from hbconv.parse.tracing.judge import Function, Rows, find_difference, retyped
from hbconv.parse.tracing.rebuild import run_function
from hbconv.parse.tracing.sparse import TracedSparse
from hbconv.parse.tracing.tables import trace_table
from hbconv.parse.tracing.trace import (
    FunctionRefusal,
    Trace,
    refuse_step,
    say_way_out,
    tracing,
)

__all__ = ["refuse_narrow_rows", "trace_function", "trace_method"]


@dataclass(frozen=True)
class _Traced:
    """What a function does to columns of a schema of its own."""

    answer: Output
    checks: tuple[tuple[Node, str], ...]
    writes: tuple[tuple[Node, Node], ...]
    conditions: Conditions

    @property
    def refusing(self) -> list[Node]:
        """Conditions that refuse rows."""
        inner = (check.node for check in self.conditions.checks)
        return [*(check for check, _ in self.checks), *inner]


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
    output = _trace(step, parameter, x, dict(keywords or {}))
    if output.is_vector:
        hint = "It returns an array of shape (n,): return a column, x.reshape(-1, 1)."
        raise refuse_step(step, parameter, hint)
    return output


def trace_method(step: Step, method: str) -> Output:
    """Return what a method of the user's class makes of the rows.

    Raises
    ------
    UnsupportedError
        It does what no row alone decides, or what hbconv does not follow.
    """
    return _trace(step, method, step.x, {})


def _trace(step: Step, parameter: str, x: Node, keywords: dict[str, Any]) -> Output:
    """Trace a function, or a method, and put its record over x."""
    func = getattr(step.estimator, parameter)
    if is_frame(x):
        return trace_table(step, parameter, x, keywords)
    if x.type.dtype == "string":
        raise refuse_step(step, parameter, "hbconv follows functions of numbers, and not of texts.")
    dtype = x.type.dtype if x.type.dtype in ("float32", "int64") else "float64"
    leaf = Columns.of(Schema.matrix(x.type.width, dtype))
    try:
        traced = _run(step, func, keywords, leaf)
    except FunctionRefusal as refusal:
        raise refuse_step(step, parameter, f"{refusal.sentence} {say_way_out(step)}") from None
    _judge(step, parameter, func, keywords, traced, dtype, x)
    for check, why in traced.checks:
        message = f"{why} The function of {step.name} ({step.place}) meets it, and hbconv refuses."
        step.check(_over(check, x), message)
    hand_on(step, traced.conditions, lambda node: _over(node, x))
    return traced.answer.of(_over(traced.answer.node, x))


def _run(step: Step, func: Any, keywords: Mapping[str, Any], leaf: Columns) -> _Traced:
    """Run the function once over columns that record."""
    trace = Trace(leaf, step=replace(step.over(step.estimator, leaf), conditions=Conditions()))
    with tracing(trace):
        result = run_function(func, _rows_of(step, leaf), keywords)
        answer = as_output(result)
    return _Traced(answer, tuple(trace.checks), tuple(trace.writes), trace.conditions)


def _rows_of(step: Step, leaf: Columns) -> TracedMatrix | TracedSparse:
    if step.x_sparse:
        return TracedSparse(leaf)
    return TracedMatrix(ColumnMemory(leaf, is_argument=True))


def _asked(step: Step, func: Any, keywords: Mapping[str, Any], answer: Output) -> Function:
    """Return the function as one of arrays: of rows, and of what it returns, where it is sparse."""

    def ask(rows: Rows) -> Any:
        given = sys.modules["scipy.sparse"].csr_matrix(rows) if step.x_sparse else rows
        returned = func(given, **keywords)
        return returned.toarray() if answer.returns_sparse else returned

    return ask


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
    asked = _asked(step, func, keywords, traced.answer)

    def difference(kind: str) -> str | None:
        if kind != dtype and _narrows(traced, kind):
            return "it converts floats to ints"
        return find_difference(asked, traced.answer, traced.refusing, kind)

    what = difference(dtype)
    if what:
        raise refuse_step(
            step, parameter, f"What hbconv made of it differs from it: {what}. {say_way_out(step)}"
        )
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


def refuse_narrow_rows(step: Step, function: np.ufunc, x: Node) -> None:
    """Refuse rows of bools and ints of which a function of numpy is not that of their floats.

    numpy computes ``exp`` of int8 in float16, and ``negative`` of uint8 wraps around.

    Examples
    --------
    >>> [name for name in NARROW_DTYPES if _differs(np.exp, name)]
    ['bool', 'int8', 'int16', 'uint8', 'uint16']
    >>> [name for name in NARROW_DTYPES if _differs(np.absolute, name)]
    []
    """
    dtypes = tuple(name for name in NARROW_DTYPES if _differs(function, name))
    if dtypes:
        _refuse_rows(step, "narrow", x, dtypes)


def _differs(function: np.ufunc, dtype: str) -> bool:
    """Tell whether numpy computes otherwise with numbers of a dtype than with their floats."""
    least = 0 if dtype.startswith(("bool", "uint")) else -50
    numbers = np.arange(least, 2 if dtype == "bool" else 50)
    with np.errstate(all="ignore"):
        try:
            found = function(numbers.astype(dtype))
        except TypeError:
            return True
        return not np.array_equal(found, function(numbers.astype(float)), equal_nan=True)


def _refuse_rows(step: Step, kind: str, x: Node, dtypes: tuple[str, ...] = NARROW_DTYPES) -> None:
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
        "narrow": AreNarrow(x, dtypes),
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
