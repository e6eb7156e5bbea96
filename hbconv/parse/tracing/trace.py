"""Trace: what is known while a function of the user runs, and why it is refused."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FrameType, MethodType
from typing import Any, Literal, NoReturn

import numpy as np

from hbconv.containers import Add, Columns, Map, Node, Output
from hbconv.errors import UnsupportedError
from hbconv.parse.registry import base_entry, say_misnamed
from hbconv.parse.step import Conditions, Step

__all__ = [
    "ALONE",
    "MAPS",
    "SERIES",
    "FunctionRefusal",
    "Kind",
    "Learnt",
    "RowCount",
    "Trace",
    "current_trace",
    "is_iso_date",
    "is_moment",
    "refuse",
    "refuse_step",
    "say_way_out",
    "terms_of",
    "tracing",
]

Kind = Literal["number", "date", "span", "text", "narrow"]
"""What a column holds; narrow ints are numbers that pandas keeps in fewer bits."""

ALONE = "A model answers each row alone."


class FunctionRefusal(BaseException):
    """The function does what no row alone decides, or what hbconv does not know.

    It is no Exception, so that ``except Exception`` of the user does not swallow it.
    """

    def __init__(self, why: str, way_out: str, place: str) -> None:
        self.why = why
        self.way_out = way_out
        self.place = place
        super().__init__(why)

    @property
    def sentence(self) -> str:
        """Where, why, and what to do."""
        return " ".join(filter(None, (f"{self.place} {self.why}.", self.way_out)))


class Learnt(BaseException):
    """The run found out what a column holds, and begins again."""


@dataclass
class Trace:
    """One run of a function.

    Parameters
    ----------
    x : Node
        What the function reads; it gives the number of rows to constants.
    step : Step
        Reads x, for texts and inner estimators, with conditions of its own.
    codes : set of code
        Code of the user, to name lines of.
    checks : list of (Node, str)
        Conditions on rows whose answer numpy leaves open, and what to say of them.
    refusal : FunctionRefusal, optional
        The first one, which holds whatever the function made of it.
    writes : list of (Node, Node)
        Values that were written, and the columns whose dtype they take.
    parsed : dict
        Methods of the estimators that it asked, by estimator and rows.
    held : dict of int to str
        Columns of x that hold other than numbers: dates or texts.
    kinds : dict of Node to str
        What a node made of them is: a date, a span or a text.
    learnt : dict of int to str
        What the run finds out of columns.
    given : mapping of int to str
        What columns hold in the rows that the user gave.
    categories : dict
        Columns whose categories are known, by node: see ``known_categories``.
    whole : set of Node
        Floats that pandas keeps as ints where no row misses one.
    """

    x: Node
    step: Step
    codes: set[CodeType] = field(default_factory=set)
    checks: list[tuple[Node, str]] = field(default_factory=list)
    refusal: FunctionRefusal | None = None
    writes: list[tuple[Node, Node]] = field(default_factory=list)
    parsed: dict[Any, dict[str, Output]] = field(default_factory=dict)
    held: dict[int, Kind] = field(default_factory=dict)
    kinds: dict[Node, Kind] = field(default_factory=dict)
    learnt: dict[int, Kind] = field(default_factory=dict)
    given: Mapping[int, str] = field(default_factory=dict)
    categories: dict[Node, Any] = field(default_factory=dict)
    whole: set[Node] = field(default_factory=set)

    @property
    def conditions(self) -> Conditions:
        """Conditions on the rows of the estimators that the function asks."""
        return self.step.conditions

    def kind_of(self, node: Node) -> Kind:
        """Return what a column holds."""
        if isinstance(node, Columns):
            return self.held.get(node.columns[0], "number")
        return "text" if node.type.dtype == "string" else self.kinds.get(node, "number")

    def made(self, node: Node, kind: Kind) -> Node:
        """Return a node whose kind is kept."""
        if self.kinds.setdefault(node, kind) != kind:
            refuse(f"makes a {kind} of what is none elsewhere")
        return node

    def made_whole(self, node: Node) -> Node:
        """Return a node of which it is kept that pandas may have ints."""
        self.whole.add(node)
        return node

    def learn(self, nodes: Sequence[Node], kind: Kind) -> NoReturn:
        """Begin again, now that it is known what some columns of the rows hold.

        They are used by then, as numbers: the function runs once more.
        """
        columns = {node.columns[0]: kind for node in nodes if isinstance(node, Columns)}
        if len(columns) < len(nodes) or columns.keys() & self.held.keys():
            refuse(f"uses as a {kind} what is none")
        self.learnt.update(columns)
        raise Learnt


_CURRENT: ContextVar[Trace] = ContextVar("trace")


def current_trace() -> Trace:
    """Return the trace of the function that runs."""
    return _CURRENT.get()


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    """Record into a trace."""
    token = _CURRENT.set(trace)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def refuse(why: str, way_out: str = "") -> NoReturn:
    """Refuse the function that runs: ``why`` goes on after the name of its line."""
    trace = current_trace()
    refusal = FunctionRefusal(why, way_out, _place(trace))
    trace.refusal = trace.refusal or refusal
    raise refusal


def refuse_step(step: Step, parameter: str, hint: str) -> UnsupportedError:
    """Return the error that refuses the function of a parameter, or a method of the estimator."""
    function = getattr(step.estimator, parameter)
    if isinstance(function, MethodType):
        return step.refuse(None, None, hint)
    return step.refuse(parameter, function, hint)


def say_way_out(step: Step) -> str:
    """Say how a class is converted whose code cannot be followed."""
    cls = type(step.estimator)
    misnamed = say_misnamed(cls)
    base = base_entry(cls)
    # A class that derives from a library's, and not the library's with a function of the user.
    like = ""
    if base is not None and not base.is_of(cls):
        like = f"; it may return step.like({base.name!r}) where the answers are the same"
    return misnamed or f"Or register a parser for your own class with hbconv.parses{like}."


def _place(trace: Trace) -> str:
    """Return the line of the user's code that runs."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code in trace.codes:
            return f"Line {frame.f_lineno} of {frame.f_code.co_name}"
        frame = frame.f_back
    return "It"


class RowCount:
    """The number of rows: it is the length of arrays, and nothing can be computed with it."""

    def refuse(self, *_: object) -> NoReturn:
        """Refuse whatever is done with it."""
        refuse("computes with the number of rows", ALONE)

    __index__ = __int__ = __float__ = __bool__ = refuse
    __repr__ = __str__ = __format__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = refuse
    __lt__ = __le__ = __gt__ = __ge__ = refuse

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowCount) or self.refuse()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self.refuse()


SERIES: dict[Kind, Any] = {}
"""Class of series of each kind, which the modules of these add."""

MAPS: dict[str, Callable[..., Any]] = {}
"""What applies functions to cells and to rows, which ``cells`` adds."""

_ISO_DATE = re.compile(r"\d{4}-\d{2}")


def is_moment(value: Any) -> bool:
    """Tell whether a constant is a date or a span."""
    return isinstance(value, dt.datetime | dt.timedelta | np.datetime64 | np.timedelta64)


def is_iso_date(text: str) -> bool:
    """Tell whether a text begins as a date does."""
    return _ISO_DATE.match(text) is not None


def terms_of(node: Node) -> list[Node]:
    """Return a column, or both sides of a difference of two.

    Examples
    --------
    >>> from hbconv.containers import Columns, Schema
    >>> x = Columns.of(Schema.table(["a"]))
    >>> terms_of(Add((x, Map(x, "neg")))) == [x, x]
    True
    """
    if isinstance(node, Add) and len(node.xs) == 2 and isinstance(node.xs[1], Map):
        return [node.xs[0], node.xs[1].x]
    return [node]
