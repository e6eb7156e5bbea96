"""Estimators inside a class of the user: what a method asks them becomes their graph."""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from hbconv.containers import (
    Beside,
    Blocks,
    Cast,
    Columns,
    Compare,
    Labels,
    Map,
    Matrix,
    Node,
    Output,
    Sparse,
    Vector,
)
from hbconv.containers.moved_columns import select
from hbconv.errors import HbconvError
from hbconv.names import METHODS
from hbconv.parse.common.members import as_numbers
from hbconv.parse.registry import base_entry, find_parser
from hbconv.parse.tracing.arrays import TracedMatrix, TracedVector
from hbconv.parse.tracing.frames import TracedFrame
from hbconv.parse.tracing.labels import TracedLabels, look_up
from hbconv.parse.tracing.sparse import TracedSparse
from hbconv.parse.tracing.trace import current_trace, refuse

__all__ = ["Inner", "ask_base", "find_called", "is_known"]

_LARGEST = 1e100
"""Numbers beyond it overflow in sums of squares, in the order of which hbconv is free."""
_WAY = "Ask it for rows, as hbconv's model of it answers them."


def is_known(value: object) -> bool:
    """Tell whether hbconv has a parser for the class of a value."""
    if not any(hasattr(value, method) for method in METHODS):
        return False
    try:
        return find_parser(value) is not None
    except HbconvError:
        return False


class Inner:
    """The double of a fitted estimator that a library's class has made.

    Parameters
    ----------
    estimator : object
    name : str
        What the user calls it.
    stand_in : callable
        Stands in for its fitted attributes.
    """

    __slots__ = ("_hbconv_estimator", "_hbconv_name", "_hbconv_stand_in")

    def __init__(self, estimator: object, name: str, stand_in: Any) -> None:
        object.__setattr__(self, "_hbconv_estimator", estimator)
        object.__setattr__(self, "_hbconv_name", name)
        object.__setattr__(self, "_hbconv_stand_in", stand_in)

    def __getattr__(self, name: str) -> Any:
        estimator, label = self._hbconv_estimator, self._hbconv_name
        if name in getattr(estimator, "__dict__", {}):
            return self._hbconv_stand_in(f"{label}.{name}", vars(estimator)[name])
        if not hasattr(estimator, name):
            raise AttributeError(f"{type(estimator).__name__} has no attribute {name!r}")
        if name in METHODS:
            return partial(_ask, estimator, label, name)
        if name == "inverse_transform" and type(estimator).__name__ == "LabelEncoder":
            return partial(look_up, estimator.classes_)
        if name == "named_steps":
            return self._hbconv_stand_in(f"{label}.{name}", dict(estimator.steps))
        return refuse(f"uses {label}.{name}, which hbconv does not follow", _WAY)

    def __getitem__(self, key: Any) -> Any:
        steps = getattr(self._hbconv_estimator, "steps", None)
        if steps is None or not isinstance(key, int | str):
            refuse(f"takes a part of {self._hbconv_name}", _WAY)
        step = dict(steps)[key] if isinstance(key, str) else steps[key][1]
        return self._hbconv_stand_in(f"{self._hbconv_name}[{key!r}]", step)

    def _refuse_writing(self, name: str, *_: object) -> NoReturn:
        refuse(f"writes {self._hbconv_name}.{name}", "A model holds no state: compute it in fit.")

    __setattr__ = __delattr__ = _refuse_writing


def _rows_of(value: Any, name: str) -> Node:
    """Return the rows that an estimator is asked for as a node."""
    if isinstance(value, TracedMatrix):
        size = Map(Cast(value.node, "float"), "abs")
        what = f"{name} is asked for a number beyond {_LARGEST:g}, of which products overflow."
        current_trace().checks.append((Compare.of(size, "gt", _LARGEST), what))
        return value.node
    if isinstance(value, TracedVector):
        # The source raises too.
        raise ValueError(f"{name} expects a 2D array, and got a 1D array instead")
    if not isinstance(value, TracedFrame) or not value.nodes:
        refuse(f"asks {name} for other than rows", _WAY)
    nodes = list(value.nodes.values())
    schema = nodes[0].schema if isinstance(nodes[0], Columns) else None
    places = [n.columns[0] for n in nodes if isinstance(n, Columns) and n.schema is schema]
    if schema is not None and len(places) == len(nodes):
        return select(Columns.of(schema), places)
    return Beside(tuple(nodes))


def _ask(estimator: Any, name: str, method: str, *args: Any, **options: Any) -> Any:
    """Return what a method of a library's estimator makes of rows."""
    node = _argument(name, method, args, options)
    trace = current_trace()
    key = (id(estimator), node)
    if key not in trace.parsed:
        try:
            trace.parsed[key] = trace.step.child(estimator, node, name.removeprefix("self."))
        except HbconvError as error:
            refuse(f"asks {name}, which is refused: {error}")
    return _traced(trace.parsed[key], name, method)


def ask_base(estimator: Any, method: str, *args: Any, **options: Any) -> Any:
    """Return what the library's class that a user's class derives from makes of rows."""
    name = f"super().{method}"
    changed = find_called(type(estimator), method)
    if changed:
        refuse(f"calls {method}, which calls {', '.join(changed)} of the class", _WAY)
    node = _argument(name, method, args, options)
    trace = current_trace()
    key = (id(estimator), node)
    if key not in trace.parsed:
        entry = base_entry(type(estimator))
        if entry is None:
            refuse(f"uses {name}, which hbconv does not follow", "Write out what it computes.")
        step = trace.step.over(estimator, node)
        try:
            trace.parsed[key] = step.like(entry.name)
        except HbconvError as error:
            refuse(f"asks {name}, which is refused: {error}")
    return _traced(trace.parsed[key], name, method)


def _argument(name: str, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> Node:
    """Return the rows that a method is called with; options of None are the default."""
    rows = [*args, *(options.pop(key) for key in ("X", "x") if key in options)]
    given = [value for value in (*rows[1:], *options.values()) if value is not None]
    if not rows or given:
        refuse(f"calls {method} of {name} with more than rows", "Give it rows alone.")
    return _rows_of(rows[0], name)


def _traced(outputs: dict[str, Output], name: str, method: str) -> Any:
    """Return an output as a value that records."""
    trace = current_trace()
    if method not in outputs:
        refuse(f"asks {name} for {method}, which hbconv's model of it lacks", _WAY)
    output = outputs[method].for_rows(sparse=False)
    classes = output.form.classes.data if isinstance(output.form, Labels) else None
    if classes is not None and classes.dtype.kind in "UO":
        return TracedLabels(output.node, classes)
    if isinstance(output.form, Sparse):
        return TracedSparse(output.node, output.form.layout)
    if not isinstance(output.form, Matrix | Vector | Labels | Blocks):
        refuse(f"asks {name} for {method}, which is no array of numbers")
    node = as_numbers(trace.step, output)
    if node.type.dtype == "string":
        refuse(f"asks {name} for {method}, which gives texts")
    return TracedVector(node) if output.is_vector else TracedMatrix(node)


def find_called(cls: type, method: str) -> list[str]:
    """Return what a method of the library's class calls, in turn, that a user's class changes.

    Whatever its code names counts, called or not.
    """
    entry = base_entry(cls)
    base = next((b for b in cls.__mro__ if entry is not None and entry.is_of(b)), object)
    own = {name for c in cls.__mro__ if c not in base.__mro__ for name in vars(c)}
    own -= {"fit", "__init__", "fit_transform", "fit_predict", "score", method}
    changed = {name for name in own if not name.startswith("__") and hasattr(base, name)}
    return sorted(changed & _named_by(base, method))


def _named_by(base: type, method: str) -> set[str]:
    """Return all names that the code of a method names, and of the methods that those are."""
    seen: set[str] = set()
    left = [method]
    while left:
        name = left.pop()
        for owner in base.__mro__:
            for code in _codes(vars(owner).get(name)):
                new = {*code.co_names, *(c for c in code.co_consts if isinstance(c, str))} - seen
                seen |= new
                left += [each for each in new if hasattr(base, each)]
    return seen


def _codes(member: Any) -> Iterator[types.CodeType]:
    """Yield the codes of a member of a class, through what wraps it."""
    for inner in ("fget", "fn", "__func__", "__wrapped__"):
        found = getattr(member, inner, None)
        if found is not None and found is not member:
            yield from _codes(found)
    code = getattr(member, "__code__", None)
    left = [code] if isinstance(code, types.CodeType) else []
    while left:
        code = left.pop()
        yield code
        left += [c for c in code.co_consts if isinstance(c, types.CodeType)]
