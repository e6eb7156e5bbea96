"""Node: the base of all containers.

A node is a small frozen value that knows its inputs, its type and its step of the pipeline.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers.interval import Trend
from hbconv.containers.schema import Schema, Type

if TYPE_CHECKING:
    from hbconv.containers.interval import Interval
    from hbconv.tensor.builder import Builder, SparseRows, Value

__all__ = [
    "NODES",
    "Node",
    "at_step",
    "container",
    "container_base",
    "current_step",
    "rewrite",
    "topological",
]

_STEP: ContextVar[str] = ContextVar("step", default="")

NODES: dict[str, type[Node]] = {}
"""Every container class by name, filled as the classes are defined."""


def current_step() -> str:
    """Path of the pipeline step being parsed, for example ``"prep/num/StandardScaler"``."""
    return _STEP.get()


@contextmanager
def at_step(path: str) -> Iterator[None]:
    """Nodes made inside belong to the step at path."""
    token = _STEP.set(path)
    try:
        yield
    finally:
        _STEP.reset(token)


_N = TypeVar("_N", bound="Node")

_UNMADE: list[type] = []
"""Container classes that are no dataclasses yet."""
_MADE: set[type] = set()
"""Classes of nodes that exist."""
# Threads may make the first node of a class at the same time, and a class becomes a dataclass once.
_MAKING = RLock()


@dataclass_transform(frozen_default=True, eq_default=False)
def container(cls: type[_N]) -> type[_N]:
    """Make a container class: a frozen dataclass compared by ``key``.

    The dataclass is made with the first node. Most models hold few classes, and dataclasses of all
    took a tenth of the time in which a fresh process loads a model and answers.
    """
    NODES[cls.__name__] = cls
    return container_base(cls)


@dataclass_transform(frozen_default=True, eq_default=False)
def container_base(cls: type[_N]) -> type[_N]:
    """Make a base of container classes, which holds fields that they share."""
    _UNMADE.append(cls)
    return cls


def _make(cls: type[Node]) -> None:
    """Make dataclasses of a class and of those that it extends, unless they are already."""
    with _MAKING:
        for base in reversed(cls.__mro__):
            if base in _UNMADE:
                dataclass(frozen=True, eq=False)(base)
                _UNMADE.remove(base)
        _MADE.add(cls)


@dataclass(frozen=True, eq=False)
class Node:
    """Base of all containers: rows x width values, computed from the inputs, row by row.

    A field holding a Node, or a tuple of Nodes, is an input; every other field is a constant. Two
    nodes are equal when their class, constants and inputs are; the source step does not count.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *_: object, **__: object) -> Self:
            """Make the dataclass before its first node."""
            # A set look-up, since this runs for every node of every graph.
            if cls not in _MADE:
                _make(cls)
            return object.__new__(cls)

    step: str = field(default_factory=current_step, kw_only=True, repr=False)

    always_finite: ClassVar[bool] = False
    """Whether the output is finite whatever the inputs are, as the scores of trees are."""

    decides: ClassVar[bool] = False
    """Whether a last bit of an input can send a row elsewhere: to another leaf, bin or neighbour.

    Before such a node no rule may round otherwise than the source model.
    """

    inexact: ClassVar[bool] = False
    """Whether backends may differ in a last bit, as their logarithms do."""

    starts_as_x: ClassVar[bool] = False
    """Whether it computes in the dtype of x first, and in a wider one of the output then."""

    trends: ClassVar[Trend] = Trend.UNKNOWN
    """How all output columns go, where one trend holds for all (``trend``)."""

    reads_numbers: ClassVar[bool] = False
    """Whether equal numbers of any dtypes give the same output, as they do for a comparison."""

    @property
    def alone(self) -> bool:
        """Whether a row is answered as the source model answers it alone.

        Among other rows, the source model may answer it otherwise.
        """
        return False

    @property
    def never(self) -> bool:
        """Whether a condition holds in no row, as the dtypes of the columns tell alone."""
        return False

    @property
    def by_dtype(self) -> object:
        """What the dtypes of the inputs decide, in addition to the type and the primitives."""
        return None

    def infer(self) -> Type:
        """Type of the value, from the types of the inputs."""
        raise NotImplementedError

    def check(self) -> str | None:
        """Return why the constants do not fit the inputs; None where they fit.

        It finds what neither ``infer`` nor the types of primitives show, and every count that
        ``infer`` and ``lower`` repeat something for, or make something of. So it is called before
        them, of a node that a file holds when it is read, and of a parsed one.
        """
        return None

    def lower(self, b: Builder, *inputs: Value) -> Value:
        """Write the node as primitives."""
        raise NotImplementedError

    def source_function(self) -> Callable[..., npt.NDArray[Any]] | None:
        """Return the source model's own function of the inputs, as numpy arrays.

        None, the default, where the primitives are its bits, or its library is not installed.
        """
        return None

    def lower_sparse(self, b: Builder, *inputs: Value | SparseRows) -> Value | SparseRows | None:  # noqa: ARG002
        """Write the node for sparse inputs; None where it needs a dense matrix."""
        return None

    def interval(self, *inputs: Interval) -> Interval | None:  # noqa: ARG002
        """Return how large the values are, from how large those of the inputs are.

        None, the default, means that this is not known: then checks of the values are evaluated
        for each call, which is slower. A leaf is given the interval of the float columns.
        """
        return None

    def narrowed(self, columns: Array) -> Node | None:  # noqa: ARG002
        """Return the node that computes only these output columns; None where there is none.

        This pushes a column selection down: through one-to-one containers, into the constants of
        others.
        """
        return None

    def reads(self) -> tuple[npt.NDArray[np.int32], ...] | None:
        """Return the column of each input that each output column is computed from.

        An entry is -1 where the output column takes nothing from that input. None, the default,
        means that output columns mix columns of one input.
        """
        return None

    def trend(self, column: int) -> Trend:  # noqa: ARG002
        """Return how an output column goes where the columns that it reads rise."""
        return self.trends

    def breaks(self, column: int) -> npt.NDArray[np.float64]:  # noqa: ARG002
        """Return the values of the column read at which the trend of an output column may break.

        The trend holds between two of them.
        """
        return np.empty(0)

    def origin(
        self,
        column: int,  # noqa: ARG002
        values: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Guess at which values of the column read an output column passes some values.

        The default is these values. A wrong guess costs time alone: whoever asks tries it.
        """
        return values

    @property
    def detail(self) -> str:
        """What ``show`` prints after the inputs."""
        constants = (getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "step")
        return " ".join(str(c) for c in constants if not _holds_nodes(c))

    @cached_property
    def type(self) -> Type:
        """Width and dtype."""
        return self.infer()

    @cached_property
    def weak_int(self) -> bool:
        """Whether the values are small ints, next to which numpy keeps float32."""
        return False

    @property
    def name(self) -> str:
        """Printed name: the class name in snake_case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", type(self).__name__).lower()

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        """All input nodes, in field order."""
        values = (getattr(self, f.name) for f in dataclasses.fields(self))
        return tuple(
            n for v in values if _holds_nodes(v) for n in (v if isinstance(v, tuple) else (v,))
        )

    @cached_property
    def key(self) -> str:
        """Digest of class, constants and inputs."""
        parts = [
            type(self).__name__,
            *(_key(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "step"),
        ]
        # Inputs count by their digests, so equal expressions are found without walking them.
        return hashlib.sha256("|".join(parts).encode()).hexdigest()

    def with_inputs(self, mapping: Mapping[Node, Node]) -> Self:
        """Replace inputs; the node itself when none changes."""
        if all(mapping.get(n, n) is n for n in self.inputs):
            return self
        changes = {
            f.name: _replace_nodes(getattr(self, f.name), mapping)
            for f in dataclasses.fields(self)
            if _holds_nodes(getattr(self, f.name))
        }
        return dataclasses.replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def topological(roots: tuple[Node, ...]) -> list[Node]:
    """Return each distinct node once, inputs before their users, in a stable order."""
    order: dict[Node, None] = {}
    # A stack of its own: chains of steps may be longer than Python's recursion goes.
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((n, False) for n in reversed(node.inputs) if n not in order)
    return list(order)


def rewrite(roots: tuple[Node, ...], visit: Callable[[Node], Node]) -> dict[Node, Node]:
    """Rebuild a DAG upward, and return a map of old nodes to new ones.

    Each node is visited once, after its inputs are replaced.
    """
    mapping: dict[Node, Node] = {}
    for node in topological(roots):
        mapping[node] = visit(node.with_inputs(mapping))
    return mapping


def _holds_nodes(value: Any) -> bool:
    return isinstance(value, Node) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Node)
    )


def _replace_nodes(value: Any, mapping: Mapping[Node, Node]) -> Any:
    return (
        tuple(mapping.get(n, n) for n in value)
        if isinstance(value, tuple)
        else mapping.get(value, value)
    )


def _key(value: Any) -> str:
    if isinstance(value, Node | Array | Schema):
        return value.key
    if isinstance(value, tuple):
        # Texts are quoted at once: a vocabulary may hold
        # a million, and a comma in one must not split it.
        write = repr if set(map(type, value)) <= {str} else _key
        return "(" + ",".join(map(write, value)) + ")"
    if dataclasses.is_dataclass(value):
        return type(value).__name__ + _key(
            tuple(getattr(value, f.name) for f in dataclasses.fields(value))
        )
    return repr(value)
