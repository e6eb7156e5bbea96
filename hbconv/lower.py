"""Lower a Graph to a TensorProgram, and say how the user's columns feed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hbconv.containers import (
    ChoosesNearest,
    Codes,
    Columns,
    Entries,
    Graph,
    Node,
    Output,
    RowItems,
    topological,
)
from hbconv.errors import UnsupportedError, VerificationError
from hbconv.target import Precision
from hbconv.tensor import Builder, Op, OpKind, SparseRows, TensorProgram, Value

__all__ = [
    "DENSE",
    "FLAGGED",
    "TIED",
    "WRITTEN",
    "CodesFeed",
    "EntriesFeed",
    "Feed",
    "Lowered",
    "Padding",
    "columns_read",
    "find_choosing",
    "is_costly",
    "lower",
    "lower_given",
    "lower_nodes",
]

Written = Value | SparseRows
ORDINARY = 64
"""Nonzeros that a sparse row is padded to where no rows are known."""


@dataclass(frozen=True)
class Padding:
    """How sparse rows come.

    Parameters
    ----------
    size : int
        Number of nonzeros that each row is padded to.
    matrix : bool
        The matrix of all columns is given by its nonzeros.
    written : bool
        The rows of a sparse matrix were made dense.
    """

    size: int = 0
    matrix: bool = False
    written: bool = False


DENSE = Padding()
"""No sparse rows."""
WRITTEN = Padding(written=True)
"""Rows of a sparse matrix made dense: the source model may compute otherwise than for an array."""
FLAGGED = "doubtful"
"""Output of a guarded program: the rows that a check may refuse. Stored kernels have this name."""
TIED = "tied"
"""Output of a program whose nodes choose the nearest: the rows in which others are as near."""

_COSTLY = frozenset({OpKind.PRODUCT, OpKind.TREES, OpKind.CONTRIBUTIONS, OpKind.LOOP})
"""Kinds of primitives that do more for a row than read it a few times."""


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
class EntriesFeed:
    """Two program inputs, ``<name>_tokens`` and ``<name>_weights``: the nonzeros of sparse rows.

    Each row is padded to ``size`` nonzeros. ``leaf`` is None for the matrix of all columns.
    """

    name: str
    dtype: str
    size: int
    width: int
    leaf: Entries | None = None

    @property
    def names(self) -> tuple[str, str]:
        """Names of the two inputs."""
        return f"{self.name}_tokens", f"{self.name}_weights"


AnyFeed = Feed | CodesFeed | EntriesFeed


def columns_read(feed: AnyFeed) -> tuple[int, ...]:
    """Return the columns of a table that an input is filled from as numbers or codes."""
    if isinstance(feed, CodesFeed):
        return tuple(leaf.column for leaf in feed.leaves)
    return tuple(feed.columns) if isinstance(feed, Feed) else ()


@dataclass(frozen=True)
class Lowered:
    """A program, and the feeds of its inputs in their order.

    ``sparse`` holds the width of each output that is sparse: ``<name>_tokens``, ``<name>_weights``.
    """

    program: TensorProgram
    feeds: tuple[AnyFeed, ...]
    sparse_widths: Mapping[str, int] = field(default_factory=dict)


def lower(
    graph: Graph,
    precision: Precision = "exact",
    padding: Padding = DENSE,
    flags: tuple[Node, ...] = (),
    choosing: tuple[ChoosesNearest, ...] = (),
) -> Lowered:
    """Write the outputs of a graph as one program, in which they share what they have in common.

    Outputs that the source model returns sparse may stay so.

    Parameters
    ----------
    graph : Graph
    precision : {"exact", "fast"}
    padding : Padding
    flags : tuple of Node
        Conditions of the row guard. One more output says in which rows any of them holds.
    choosing : tuple of ChoosesNearest
        One more output says in which rows the source may choose otherwise than any of them.
    """
    b, feeds, values = _lower(graph, (*graph.output_roots, *flags), precision, padding)
    written, sparse = _outputs(b, graph, padding, flags, values)
    ties = [node.tied(b, *(_dense(b, values[n]) for n in node.inputs)) for node in choosing]
    if marks := [tie for tie in ties if tie is not None]:
        written[TIED] = _any(b, marks)
    return Lowered(b.program(written), feeds, sparse)


def find_choosing(graph: Graph) -> tuple[ChoosesNearest, ...]:
    """Find the nodes that choose among equally near rows as a search of the source does."""
    nodes = topological(graph.output_roots)
    return tuple(n for n in nodes if isinstance(n, ChoosesNearest) and n.search is not None)


def lower_given(
    graph: Graph,
    like: Lowered,
    given: Mapping[str, Node],
    precision: Precision = "exact",
    padding: Padding = DENSE,
    flags: tuple[Node, ...] = (),
) -> TensorProgram:
    """Write the outputs of a graph as a program that is given the values of some nodes.

    Parameters
    ----------
    graph : Graph
    like, given
        As those of ``lower_nodes``.
    precision, padding, flags
        As those of ``lower``.
    """
    roots = (*graph.output_roots, *flags)
    b, _, values = _lower(graph, roots, precision, padding, like, given)
    return b.program(_outputs(b, graph, padding, flags, values)[0])


def _outputs(
    b: Builder,
    graph: Graph,
    padding: Padding,
    flags: tuple[Node, ...],
    values: Mapping[Node, Written],
) -> tuple[dict[str, Value], dict[str, int]]:
    """Return the outputs by name, with the flags, and the width of each that is sparse."""
    written: dict[str, Value] = {}
    sparse: dict[str, int] = {}
    for name, output in graph.outputs.items():
        value = values[output.node]
        if isinstance(value, SparseRows) and _stays_sparse(output, padding):
            written |= {f"{name}_tokens": value.tokens, f"{name}_weights": value.weights}
            sparse[name] = value.width
        else:
            written[name] = _dense(b, value)
    if flags:
        written[FLAGGED] = _any(b, [_dense(b, values[node]) for node in flags])
    return written, sparse


def _any(b: Builder, conditions: list[Value]) -> Value:
    marks = b.concat(conditions)
    # One condition needs no reduction, but has to lose its axis.
    return b.reduce("reduce_any", marks) if marks.shape != (1,) else b.reshape(marks)


def lower_nodes(
    graph: Graph,
    roots: dict[str, Node],
    precision: Precision = "exact",
    padding: Padding = DENSE,
    like: Lowered | None = None,
    given: Mapping[str, Node] = {},
) -> Lowered:
    """Write any nodes of the graph as one program.

    Parameters
    ----------
    graph, precision, padding
        As those of ``lower``.
    roots : dict of str to Node
    like : Lowered, optional
        Has the same feeds; else those that the nodes need.
    given : mapping of str to Node
        Nodes whose values are inputs, by the names of these.
    """
    b, feeds, values = _lower(graph, tuple(roots.values()), precision, padding, like, given)
    return Lowered(
        b.program({name: _dense(b, values[node]) for name, node in roots.items()}), feeds
    )


def is_costly(graph: Graph, node: Node, padding: Padding = DENSE) -> bool:
    """Whether a node costs far more than a few passes over the columns that it reads.

    Examples
    --------
    >>> from hbconv.containers import Affine, Linear, Schema
    >>> x = Columns.of(Schema.matrix(2))
    >>> graph = Graph(x.schema, {})
    >>> is_costly(graph, Affine.of(x, mul=2.0)), is_costly(graph, Linear.of(x, [1.0, 2.0]))
    (False, True)
    """
    program = lower_nodes(graph, {"node": node}, padding=padding).program
    return any(isinstance(op, Op) and op.kind in _COSTLY for op in program.instructions)


def _lower(
    graph: Graph,
    roots: tuple[Node, ...],
    precision: Precision,
    padding: Padding,
    like: Lowered | None = None,
    given: Mapping[str, Node] = {},
) -> tuple[Builder, tuple[AnyFeed, ...], dict[Node, Written]]:
    nodes = topological(roots)
    feeds = like.feeds if like else _feeds(graph, nodes, padding)
    b = Builder(precision)
    inputs = {feed.name: _declare(b, feed) for feed in feeds}
    values: dict[Node, Written] = {
        node: b.input(name, b.dtype(node.type.dtype), node.type.width)
        for name, node in given.items()
    }
    for node in nodes:
        # Nodes that are given are inputs, so nothing behind them is written.
        if node in values:
            continue
        b.source = node.step
        values[node] = _lower_node(b, node, feeds, inputs, [values[n] for n in node.inputs])
        _require_as_inferred(b, node, values[node])
    return b, feeds, values


def _require_as_inferred(b: Builder, node: Node, value: Written) -> None:
    """Raise VerificationError where a node has another type than it inferred."""
    lowered = (
        (value.width, value.weights.dtype)
        if isinstance(value, SparseRows)
        else (*value.shape, value.dtype)
    )
    if lowered != (node.type.width, b.dtype(node.type.dtype)):
        raise VerificationError(
            f"{node.name} of step {node.step!r}: {lowered} where {node.type} is inferred"
        )


def _stays_sparse(output: Output, padding: Padding) -> bool:
    """Whether values stay sparse: the answer is a sparse matrix, or read off rows of one."""
    rows = output.for_rows(sparse=padding.matrix)
    return rows.returns_sparse is True or (padding.matrix and isinstance(rows.form, RowItems))


def _dense(b: Builder, value: Written) -> Value:
    return value.written_out(b) if isinstance(value, SparseRows) else value


def _declare(b: Builder, feed: AnyFeed) -> Written:
    if isinstance(feed, EntriesFeed):
        tokens, weights = feed.names
        return SparseRows(
            b.input(tokens, "int32", feed.size), b.input(weights, feed.dtype, feed.size), feed.width
        )
    return b.input(
        feed.name, feed.dtype, len(feed.columns if isinstance(feed, Feed) else feed.leaves)
    )


def _lower_node(
    b: Builder,
    node: Node,
    feeds: tuple[AnyFeed, ...],
    inputs: dict[str, Written],
    operands: list[Written],
) -> Written:
    if isinstance(node, Columns):
        return _lower_columns(b, node, feeds, inputs)
    if isinstance(node, Entries):
        name = next(f.name for f in feeds if isinstance(f, EntriesFeed) and f.leaf == node)
        return _in_dtype(b, inputs[name], node.type.dtype)
    if isinstance(node, Codes):
        codes = next(f for f in feeds if isinstance(f, CodesFeed))
        return b.take(_dense(b, inputs[codes.name]), [codes.leaves.index(node)])
    if any(isinstance(operand, SparseRows) for operand in operands):
        written = node.lower_sparse(b, *operands)
        if written is not None:
            return written
    return node.lower(b, *(_dense(b, operand) for operand in operands))


def _lower_columns(
    b: Builder, node: Columns, feeds: tuple[AnyFeed, ...], inputs: dict[str, Written]
) -> Written:
    """Take the columns from the matrices that hold them, neighbours in one matrix at once."""
    if node.type.dtype == "string":
        raise UnsupportedError(
            "text columns",
            node.step,
            hint="Encode text columns (OneHotEncoder, OrdinalEncoder) before other steps.",
        )
    if not node.columns:
        return _no_columns(b, node, next(iter(inputs.values())))
    matrix = next(
        (inputs[f.name] for f in feeds if isinstance(f, EntriesFeed) and f.leaf is None), None
    )
    if isinstance(matrix, SparseRows):
        return _lower_sparse_columns(b, node, matrix)
    planes = [f for f in feeds if isinstance(f, Feed)]
    place = {
        column: (feed.name, position)
        for feed in planes
        for position, column in enumerate(feed.columns)
    }
    runs: list[tuple[str, list[int]]] = []
    for name, position in (place[c] for c in node.columns):
        # Neighbours of one matrix are one ``take``.
        if runs and runs[-1][0] == name:
            runs[-1][1].append(position)
        else:
            runs.append((name, [position]))
    return b.concat(
        [
            b.cast(b.take(_dense(b, inputs[name]), positions), node.type.dtype)
            for name, positions in runs
        ]
    )


def _no_columns(b: Builder, node: Columns, given: Written) -> Value:
    """Return rows without columns, as many as any input has."""
    rows = given.tokens if isinstance(given, SparseRows) else given
    return b.cast(b.op("take", rows, b.constant([], "int32"), axis=0), node.type.dtype)


def _lower_sparse_columns(b: Builder, node: Columns, matrix: SparseRows) -> Written:
    rows = matrix.with_weights(b.cast(matrix.weights, node.type.dtype))
    if node.columns == tuple(range(matrix.width)):
        return rows
    # Where columns cannot be selected among nonzeros, the rows become dense.
    return rows.selected(b, node.indices.data) or b.take(rows.written_out(b), node.columns)


def _in_dtype(b: Builder, given: Written, dtype: str) -> Written:
    """Cast an input to a dtype, which is the program's own where its precision is less."""
    if isinstance(given, SparseRows):
        return given.with_weights(b.cast(given.weights, dtype))
    return b.cast(given, dtype)


def _feeds(graph: Graph, nodes: list[Node], padding: Padding) -> tuple[AnyFeed, ...]:
    """Return one numeric feed for each dtype in use, then the codes, then the sparse rows.

    A schema of one dtype is fed whole, so that a matrix needs no copy. Of a table of many dtypes
    only the columns in use are fed.
    """
    dtypes = graph.schema.dtypes
    codes = tuple(n for n in nodes if isinstance(n, Codes))
    leaves = tuple(n for n in nodes if isinstance(n, Entries))
    size = padding.size or ORDINARY
    entries = [
        EntriesFeed(f"entries{i}" if i else "entries", leaf.type.dtype, size, leaf.type.width, leaf)
        for i, leaf in enumerate(leaves)
    ]
    if padding.matrix:
        return (EntriesFeed("x", dtypes[0], size, len(dtypes)),)
    used = _used(n for n in nodes if isinstance(n, Columns))
    if len(set(dtypes)) == 1 and dtypes[0] != "string" and (used or not (codes or leaves)):
        used = tuple(range(len(dtypes)))
    fed = {c: dtypes[c] for c in used if dtypes[c] != "string"}
    # Sorted, so that equal models have equal programs and one key in the cache.
    planes = sorted(set(fed.values()))
    feeds: list[AnyFeed] = []
    for dtype in planes:
        columns = tuple(c for c in used if fed.get(c) == dtype)
        feeds.append(Feed("x" if len(planes) == 1 else f"x_{dtype}", dtype, columns))
    return (*feeds, *([CodesFeed(codes)] if codes else []), *entries) or (Feed("x", "float64", ()),)


def _used(leaves: Iterable[Columns]) -> tuple[int, ...]:
    return tuple(sorted({c for leaf in leaves for c in leaf.columns}))
