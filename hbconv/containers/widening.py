"""Widening: whether a model answers rows of one dtype as it answers the same numbers in a wider.

The source model computes in the dtypes of its rows. Ints become floats sooner or later, and most
models convert them before anything else: then a program for floats answers ints too. float32 is
another matter, because a model that keeps it rounds each step to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from hbconv.containers import (
    Cast,
    CastLike,
    Codes,
    Columns,
    Concat,
    Entries,
    Graph,
    Node,
    NoTexts,
    Select,
    Together,
    topological,
)
from hbconv.containers.schema import WIDER
from hbconv.errors import HbconvError
from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.program import Op

__all__ = ["Widening", "find_widening"]

MOVES = (Columns, Select, Concat, Together, NoTexts)
"""Containers that move values, converting them to a common dtype at most."""


class Widening(Enum):
    """How a program for wider columns answers the rows.

    ``ANY`` as the source model does, whatever the rows hold. ``SMALL``: where ints are within
    ``MOST_EXACT_INT``.
    """

    ANY = "any"
    SMALL = "small ints"


class _Sameness(Enum):
    """How the values of a node compare over narrow and over wide columns."""

    SAME = 1
    """The same in dtype and in bits."""
    NUMBERS = 2
    """The same numbers in another dtype, where ints are small."""
    UNKNOWN = 3


def find_widening(graph: Graph, dtypes: Sequence[str], wider: Sequence[str]) -> Widening | None:
    """Return how a model answers rows whose columns are converted to wider dtypes.

    Parameters
    ----------
    graph : Graph
        With the outputs that are asked for.
    dtypes, wider : sequence of str
        Dtype of each column, as rows have it and as it is converted.

    Returns
    -------
    Widening or None
        None where the source model may answer otherwise, in a last bit or in the dtype.

    Examples
    --------
    >>> from hbconv.containers import Affine, Output, Schema
    >>> x = Columns.of(Schema.matrix(1))
    >>> scaled = Graph(x.schema, {"transform": Output(Affine.of(Cast(x, "float"), mul=2.0))})
    >>> find_widening(scaled, ["int64"], ["float64"])
    <Widening.ANY: 'any'>
    >>> find_widening(scaled, ["float32"], ["float64"]) is None
    True
    """
    pairs = zip(dtypes, wider, strict=True)
    if not all(
        narrow_node == wide_node or wide_node in WIDER.get(narrow_node, ())
        for narrow_node, wide_node in pairs
    ):
        return None
    narrow = graph.with_schema(graph.schema.with_dtypes(dtypes))
    wide = graph.with_schema(graph.schema.with_dtypes(wider))
    # Both graphs are one graph over other dtypes, so their nodes come in the same order.
    nodes = zip(topological(narrow.roots), topological(wide.roots), strict=True)
    sameness: dict[Node, _Sameness] = {}
    small = False
    for narrow_node, wide_node in nodes:
        inputs = [sameness[node] for node in narrow_node.inputs]
        sameness[narrow_node] = _compare(narrow_node, wide_node, inputs)
        small |= sameness[narrow_node] is _Sameness.SAME and _rounds_ints(
            narrow_node, wide_node, inputs
        )
    if any(sameness[node] is not _Sameness.SAME for node in narrow.roots):
        return None
    return Widening.SMALL if small else Widening.ANY


def _compare(node: Node, wide: Node, inputs: list[_Sameness]) -> _Sameness:
    if isinstance(node, Codes | Entries):
        return _Sameness.SAME
    if _Sameness.UNKNOWN in inputs:
        return _Sameness.UNKNOWN
    alike = (node.type, node.weak_int, node.by_dtype) == (wide.type, wide.weak_int, wide.by_dtype)
    if isinstance(node, MOVES):
        return _Sameness.SAME if alike else _Sameness.NUMBERS
    if _Sameness.NUMBERS not in inputs:
        return _Sameness.SAME if alike else _Sameness.UNKNOWN
    if alike and (node.reads_numbers or isinstance(node, Cast | CastLike)):
        return _Sameness.SAME
    if isinstance(node, Cast) and node.type.dtype in (node.x.type.dtype, "float64"):
        return _Sameness.NUMBERS
    return _Sameness.SAME if alike and _lower_alike(node, wide) else _Sameness.UNKNOWN


def _rounds_ints(node: Node, wide: Node, inputs: list[_Sameness]) -> bool:
    """Whether large ints may be rounded otherwise: all but one conversion to float64 may."""
    if isinstance(node, Columns):
        changed = node.schema.dtypes != wide.schema.dtypes  # type: ignore[attr-defined]
        return changed and node.type.dtype != "float64"
    # Where no input has another dtype, no int is rounded otherwise.
    if _Sameness.NUMBERS not in inputs or node.reads_numbers:
        return False
    return not isinstance(node, (Cast, CastLike, *MOVES)) or node.type.dtype != "float64"


def _lower_alike(node: Node, wide: Node) -> bool:
    """Whether a node becomes the same primitives, once its inputs are the same numbers."""
    try:
        programs = [_lower_node(each, wide.inputs) for each in (node, wide)]
    # A node that refuses one of the two dtypes does not answer them alike.
    except HbconvError:
        return False
    return programs[0] == programs[1]


def _lower_node(node: Node, wide: Sequence[Node]) -> tuple[object, ...]:
    b = _WideBuilder()
    inputs = [
        b.convert_input(b.input(f"x{i}", wide_x.type.dtype, wide_x.type.width), narrow_x.type.dtype)
        for i, (narrow_x, wide_x) in enumerate(zip(node.inputs, wide, strict=True))
    ]
    program = b.program({"y": node.lower(b, *inputs)})
    # The step that an operator comes from does not change what it computes.
    return (*(replace(i, source="") if isinstance(i, Op) else i for i in program.instructions),)


class _WideBuilder(Builder):
    """A builder that knows which values are the same numbers as wider ones."""

    def __init__(self) -> None:
        super().__init__()
        self._wide: dict[Value, Value] = {}

    def convert_input(self, x: Value, dtype: str) -> Value:
        """Return the numbers in the dtype of a row, which holds them."""
        narrow = self.cast(x, dtype)
        self._wide[narrow] = x
        return narrow

    def cast(self, x: Value, dtype: str) -> Value:
        """Convert the wider numbers, which are the same."""
        return super().cast(x if x.dtype == dtype else self._wide.get(x, x), dtype)
