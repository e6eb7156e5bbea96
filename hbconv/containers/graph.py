"""Graph: a whole model as an immutable DAG of nodes, with a schema and an output for each method.

A source that is a file has a session: its inputs and outputs, under the names and in the shapes
that the file gives them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hbconv.array import Array
from hbconv.containers.forms import MatrixTuple
from hbconv.containers.moved_columns import of_objects
from hbconv.containers.node import Node, rewrite, topological
from hbconv.containers.nodes.inputs import Codes, Columns, Entries
from hbconv.containers.nodes.wiring import ByForm
from hbconv.containers.output import Output
from hbconv.containers.schema import FrameFormat, NamesOut, Schema
from hbconv.errors import VerificationError
from hbconv.names import EXPLANATIONS, INVERSE

__all__ = [
    "MOST_ROW_VALUES",
    "Check",
    "Graph",
    "InputPort",
    "OutputPort",
    "PassedPort",
    "Session",
    "Traits",
    "count_row_values",
    "verify_graph",
]


@dataclass(frozen=True)
class InputPort:
    """One input of the file.

    Parameters
    ----------
    name : str
    columns : tuple of int
        Columns of the schema that it is cut into.
    shape : tuple of int
        Shape of what it holds of each row; () for a vector over the rows.
    """

    name: str
    columns: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OutputPort:
    """One output of the file.

    Parameters
    ----------
    name : str
    method : str
        Output of the graph that holds its values.
    shape : tuple of int
        Its shape, with -1 for the rows.
    keys : Array or None
        Keys of the dicts of an output that has a dict for each row.
    """

    name: str
    method: str
    shape: tuple[int, ...]
    keys: Array | None = None


@dataclass(frozen=True)
class PassedPort:
    """One output of the file that repeats an input.

    Parameters
    ----------
    name : str
    source : str
        Name of the input.
    """

    name: str
    source: str


@dataclass(frozen=True)
class Session:
    """Inputs and outputs of the file, in its order."""

    inputs: tuple[InputPort, ...]
    outputs: tuple[OutputPort | PassedPort, ...]

    @property
    def computed(self) -> tuple[OutputPort, ...]:
        """Outputs that are computed of the rows."""
        return tuple(port for port in self.outputs if isinstance(port, OutputPort))


_COLUMNS = frozenset({"float32", "float64", "int64", "string"})
_VALUES = frozenset({"float32", "float64", "int32", "int64", "bool", "string"})
_ANSWERS = frozenset(
    {
        "object",
        "bool",
        "float16",
        *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
        "float32",
        "float64",
    }
)
# A model that multiplies all columns in pairs may claim any
# width: it is refused before a row asks for the memory.
MOST_ROW_VALUES = 1 << 26
"""Values of one row, of all nodes together: half a gigabyte."""


@dataclass(frozen=True)
class Check:
    """A condition under which the source refuses the input.

    The node is of dtype bool; a True anywhere makes the model raise InputError with the message.
    """

    node: Node
    message: str
    step: str = ""
    sparse_only: bool = False
    """It applies only to rows that come as a sparse matrix."""
    every: bool = False
    """It refuses rows only where all rows of a call are True."""


@dataclass(frozen=True)
class Traits:
    """What the model repeats of the estimator.

    Parameters
    ----------
    estimator : str
        Class name.
    kind : str
        "classifier", "regressor", "transformer", another kind of scikit-learn, or "" for a ranker.
    classes : Array, tuple of Array, or None
        Class labels, a tuple: of each target.
    names_out : NamesOut or None
        Names of the columns that ``transform`` returns.
    frame_format : FrameFormat or None
        Format in which ``transform`` returns them.
    metric : str
        What ``score`` of the estimator computes of ``predict``: "accuracy", "r2", or "" for
        anything else.
    session : Session or None
        Inputs and outputs of a source that is a file with names of its own for them.
    source : str
        Public dotted name of the class whose arguments the methods take: of a pipeline, that of its
        last step.
    explained : tuple of str
        Names of the features that contributions are of; empty where the source has none for them.
    """

    estimator: str = ""
    kind: str = ""
    classes: Array | tuple[Array, ...] | None = None
    names_out: NamesOut | None = None
    frame_format: FrameFormat | None = None
    metric: str = ""
    session: Session | None = None
    source: str = ""
    explained: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A whole model: input schema, outputs and checks.

    Parameters
    ----------
    schema : Schema
        The input columns.
    outputs : mapping of str to Output
        Outputs by method name.
    checks : tuple of Check
        Conditions under which the source refuses the input.
    traits : Traits
        What the model repeats of the estimator.
    accepts_sparse : bool
        Whether rows may come as a sparse matrix.
    warnings : tuple of Check
        Conditions under which the source only warns. ``{columns}`` in a message stands for the
        columns where the node is True in some row.
    why_dense : str
        Why rows must not come as a sparse matrix; empty where they may.
    inverse : Graph or None
        The graph of ``inverse_transform``, whose input columns are those that ``transform``
        returns; None where there is none.
    refused : mapping of str to str
        Methods of the source that the graph does not answer, and why.
    without_na : mapping of int to str
        Columns in which the source raises at ``pandas.NA`` among objects, and why. It does so
        whatever becomes of them, so they need not be read.
    """

    schema: Schema
    outputs: Mapping[str, Output]
    checks: tuple[Check, ...] = ()
    traits: Traits = field(default_factory=Traits)
    accepts_sparse: bool = True
    warnings: tuple[Check, ...] = ()
    why_dense: str = ""
    inverse: Graph | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    without_na: Mapping[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        methods = ", ".join(self.outputs)
        nodes, width = len(list(self.nodes())), len(self.schema.columns)
        return f"<hbconv.Graph of {methods}: {nodes} nodes, {width} columns>"

    @property
    def roots(self) -> tuple[Node, ...]:
        """Nodes of the outputs, of the checks and of the warnings."""
        return (*self.output_roots, *(c.node for c in (*self.checks, *self.warnings)))

    @property
    def output_roots(self) -> tuple[Node, ...]:
        """Nodes of the outputs."""
        return tuple(o.node for o in self.outputs.values())

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the outputs that are tensors, which exports can hold."""
        return tuple(name for name, output in self.outputs.items() if output.is_tensor)

    @property
    def exported(self) -> tuple[str, ...]:
        """Names of the outputs that exports hold unless others are named."""
        return tuple(name for name in self.tensors if not self.outputs[name].on_demand)

    @property
    def prompt(self) -> Graph:
        """The same graph without the outputs on demand, which cost nothing until requested."""
        # Writing the interactions of an XGBoost file of 28 MB took 861 MB; without outputs on
        # demand it takes 227.
        names = [name for name, output in self.outputs.items() if not output.on_demand]
        return self.only(*names)

    @property
    def answers_together(self) -> bool:
        """Whether what a row is answered depends on the other rows of its call."""
        return any(check.every for check in self.checks)

    def nodes(self) -> list[Node]:
        """All nodes that an output needs, inputs first."""
        return topological(self.output_roots)

    def rewritten(self, visit: Callable[[Node], Node]) -> Graph:
        """Rebuild the outputs, each node through visit; the checks stay."""
        mapping = rewrite(self.output_roots, visit)
        return replace(
            self,
            outputs={name: o.of(mapping[o.node]) for name, o in self.outputs.items()},
        )

    def with_schema(self, schema: Schema) -> Graph:
        """Return the same graph over columns of other dtypes.

        Where these tell that an array is one of objects, its columns are taken as they are.
        """

        def visit(node: Node) -> Node:
            if isinstance(node, Columns | Codes | Entries):
                return node if node.schema == schema else replace(node, schema=schema)
            return of_objects(node)

        mapping = rewrite(self.roots, visit)
        outputs = {name: o.mapped(mapping) for name, o in self.outputs.items()}
        checks, warnings = (
            tuple(replace(c, node=mapping[c.node]) for c in group)
            for group in (self.checks, self.warnings)
        )
        return replace(self, schema=schema, outputs=outputs, checks=checks, warnings=warnings)

    @cached_property
    def depends_on_form(self) -> bool:
        """Whether anything differs where rows come as a sparse matrix."""
        return any(check.sparse_only for check in self.checks) or any(
            isinstance(n, ByForm) for n in topological(self.roots)
        )

    def for_rows(self, *, sparse: bool) -> Graph:
        """Return the graph for rows that come as a sparse matrix, or that do not."""
        if not self.depends_on_form:
            return self

        def visit(node: Node) -> Node:
            return (node.sparse if sparse else node.dense) if isinstance(node, ByForm) else node

        mapping = rewrite(self.roots, visit)
        outputs = {name: o.mapped(mapping) for name, o in self.outputs.items()}
        checks, warnings = (
            tuple(
                # The copy serves one form of rows, so none of its checks depends on the form.
                replace(c, node=mapping[c.node], sparse_only=False)
                for c in group
                if sparse or not c.sparse_only
            )
            for group in (self.checks, self.warnings)
        )
        return replace(self, outputs=outputs, checks=checks, warnings=warnings)

    def only(self, *methods: str) -> Graph:
        """Keep the named outputs, which are then no longer on demand."""
        outputs = {name: replace(self.outputs[name], on_demand=False) for name in methods}
        return replace(self, outputs=outputs)


def count_row_values(nodes: Iterable[Node]) -> int:
    """Count the values of one row, of all nodes together."""
    # Sparse rows hold few of their columns, so the width of Entries says nothing about memory.
    return sum(node.type.width for node in nodes if not isinstance(node, Entries))


def verify_graph(graph: Graph) -> Graph:
    """Return the graph, or raise VerificationError.

    Types infer, leaves read the schema, and each output's values fit its form.
    """
    for column in graph.schema.columns:
        if column.dtype not in _COLUMNS:
            raise VerificationError(f"column {column.name!r:.50} has dtype {column.dtype!r:.50}")
    nodes = topological(graph.roots)
    for node in nodes:
        _require(
            type(node.type.width) is int and node.type.width >= 0, node, "its width is no count"
        )
        _require(node.type.dtype in _VALUES, node, f"dtype {node.type.dtype!r:.50}")
        if isinstance(node, Columns | Codes | Entries):
            _require(node.schema == graph.schema, node, "reads another schema")
            _require(
                all(0 <= i < len(graph.schema.columns) for i in node.columns),
                node,
                "column out of range",
            )
        what = node.check()
        _require(what is None, node, what or "")
    _require(
        count_row_values(nodes) <= MOST_ROW_VALUES,
        nodes[-1],
        "a row takes more values than memory holds",
    )
    if not graph.without_na.keys() <= set(range(len(graph.schema.columns))):
        raise VerificationError("columns without NA do not exist")
    for name, output in graph.outputs.items():
        _verify_output(name, output, set(nodes))
    for check in (*graph.checks, *graph.warnings):
        _require(check.node.type.dtype == "bool", check.node, "a check is bool")
    _verify_traits(graph)
    if graph.inverse is not None:
        _verify_inverse(graph.inverse)
    return graph


def _verify_inverse(inverse: Graph) -> None:
    if inverse.inverse is not None or [*inverse.outputs] != [INVERSE]:
        raise VerificationError(f"its inverse answers other methods than {INVERSE}")
    verify_graph(inverse)


def _verify_output(name: str, output: Output, nodes: set[Node]) -> None:
    parts = output.form.parts if isinstance(output.form, MatrixTuple) else ()
    dtypes = [output.dtype, *(dtype or None for _, dtype in parts), *(d for _, d in output.blocks)]
    _require(
        all(_is_answer(dtype) for dtype in dtypes if dtype is not None),
        output.node,
        f"output {name} has a dtype that no answer has",
    )
    _require(
        {node for node, _ in output.blocks} <= nodes,
        output.node,
        f"output {name} has blocks of something else",
    )
    misfit = output.misfit
    _require(misfit is None, output.node, f"output {name} {misfit}")


def _verify_traits(graph: Graph) -> None:
    frame_format = graph.traits.frame_format
    names = graph.traits.names_out
    libraries = ("", "default", "given", "pandas", "polars", "rows")
    if frame_format is not None and frame_format.library not in libraries:
        raise VerificationError(f"frames of {frame_format.library!r:.50}")
    if names is not None and not names.reads <= set(range(len(graph.schema.columns))):
        raise VerificationError("names are made of those of columns that do not exist")
    explained = graph.traits.explained
    for name in EXPLANATIONS:
        output = graph.outputs.get(name)
        if explained and output is not None and output.n_explained != len(explained):
            raise VerificationError(f"{name} are of other features than have names")
    session = graph.traits.session
    if session is not None:
        _verify_session(session, graph)


def _verify_session(session: Session, graph: Graph) -> None:
    columns = [column for port in session.inputs for column in port.columns]
    if sorted(columns) != list(range(len(graph.schema.columns))):
        raise VerificationError("inputs are made of other columns than there are")
    named = {port.name for port in session.inputs}
    if any(isinstance(port, PassedPort) and port.source not in named for port in session.outputs):
        raise VerificationError("an output repeats an input that does not exist")
    for port in session.computed:
        if port.method not in graph.outputs or port.shape.count(-1) != 1:
            raise VerificationError(f"output {port.name!r:.50} is no tensor over the rows")
        width = graph.outputs[port.method].node.type.width
        # The axis of the rows is -1, so the product is minus the width.
        if -math.prod(port.shape) != width:
            raise VerificationError(f"output {port.name!r:.50} has shape {port.shape}")
        if port.keys is not None and len(port.keys) != width:
            raise VerificationError(f"output {port.name!r:.50} names other columns than it has")


def _is_answer(dtype: str) -> bool:
    """Whether answers may have a dtype; "<U9" is text of up to nine letters."""
    # At most four digits: text of any length would let a damaged file ask for any amount of memory.
    return dtype in _ANSWERS or re.fullmatch(r"<U[1-9]\d{0,3}", dtype) is not None


def _require(condition: bool, node: Node, what: str) -> None:
    if not condition:
        raise VerificationError(f"{node.name} of step {node.step!r:.100}: {what:.200}")
