"""Lower a Graph to a TensorProgram, and say how the user's columns feed it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hbconv.containers import Graph, Node, topological
from hbconv.containers.columns import Codes, Columns
from hbconv.errors import UnsupportedError
from hbconv.target import Precision
from hbconv.tensor import Builder, TensorProgram, Value

__all__ = ["CodesFeed", "Feed", "Lowered", "lower", "lower_nodes"]


@dataclass(frozen=True)
class Feed:
    """A numeric program input: these columns of the schema, side by side, in this dtype."""

    name: str
    dtype: str
    columns: tuple[int, ...]


@dataclass(frozen=True)
class CodesFeed:
    """The int32 program input ``codes``: one column for each text column and vocabulary."""

    leaves: tuple[Codes, ...]
    name: str = "codes"
    dtype: str = "int32"


@dataclass(frozen=True)
class Lowered:
    """A program and its feeds, in the order of the program's inputs."""

    program: TensorProgram
    feeds: tuple[Feed | CodesFeed, ...]


def lower(graph: Graph, precision: Precision = "exact") -> Lowered:
    """Write the graph's outputs as one program, sharing what they have in common."""
    return lower_nodes(graph, {name: output.node for name, output in graph.outputs.items()}, precision)


def lower_nodes(graph: Graph, roots: dict[str, Node], precision: Precision = "exact") -> Lowered:
    """Write any nodes of the graph as one program."""
    nodes = topological(tuple(roots.values()))
    feeds = _feeds(graph, nodes)
    b = Builder(precision)
    inputs = {feed.name: b.input(feed.name, feed.dtype, len(feed.columns if isinstance(feed, Feed) else feed.leaves)) for feed in feeds}
    values: dict[Node, Value] = {}
    for node in nodes:
        b.source = node.source
        values[node] = _lower_node(b, node, feeds, inputs, [values[n] for n in node.inputs])
    return Lowered(b.program({name: values[node] for name, node in roots.items()}), feeds)


def _lower_node(b: Builder, node: Node, feeds: tuple[Feed | CodesFeed, ...], inputs: dict[str, Value], operands: list[Value]) -> Value:
    if isinstance(node, Columns):
        return _lower_columns(b, node, [f for f in feeds if isinstance(f, Feed)], inputs)
    if isinstance(node, Codes):
        codes = next(f for f in feeds if isinstance(f, CodesFeed))
        return b.take(inputs[codes.name], [codes.leaves.index(node)])
    return node.lower(b, *operands)


def _lower_columns(b: Builder, node: Columns, feeds: list[Feed], inputs: dict[str, Value]) -> Value:
    """Take the columns from the planes that hold them, each run of one plane at once."""
    if node.type.dtype == "string":
        raise UnsupportedError("text columns", node.source, hint="Encode text columns (OneHotEncoder, OrdinalEncoder) before other steps.")
    place = {column: (feed.name, position) for feed in feeds for position, column in enumerate(feed.columns)}
    if not node.columns:
        return b.cast(b.op("take", inputs[feeds[0].name], b.constant([], "int32"), axis=0), node.type.dtype)
    runs: list[tuple[str, list[int]]] = []
    for name, position in (place[c] for c in node.columns):
        if runs and runs[-1][0] == name:
            runs[-1][1].append(position)
        else:
            runs.append((name, [position]))
    return b.concat([b.cast(b.take(inputs[name], positions), node.type.dtype) for name, positions in runs])


def _feeds(graph: Graph, nodes: list[Node]) -> tuple[Feed | CodesFeed, ...]:
    """One numeric feed for each dtype in use, then the codes.

    A schema of one dtype is fed whole, so that a matrix needs no copy; a table of many dtypes only by the columns in use.
    """
    dtypes = graph.schema.dtypes
    used = _used(n for n in nodes if isinstance(n, Columns))
    codes = tuple(n for n in nodes if isinstance(n, Codes))
    if len(set(dtypes)) == 1 and dtypes[0] != "string" and (used or not codes):
        used = tuple(range(len(dtypes)))
    fed = {c: "int64" if dtypes[c] == "int16" else dtypes[c] for c in used if dtypes[c] != "string"}
    planes = sorted(set(fed.values()))
    feeds: list[Feed | CodesFeed] = []
    for dtype in planes:
        columns = tuple(c for c in used if fed.get(c) == dtype)
        feeds.append(Feed("x" if len(planes) == 1 else f"x_{dtype}", dtype, columns))
    return (*feeds, CodesFeed(codes)) if codes else tuple(feeds)


def _used(leaves: Iterable[Columns]) -> tuple[int, ...]:
    return tuple(sorted({c for leaf in leaves for c in leaf.columns}))
