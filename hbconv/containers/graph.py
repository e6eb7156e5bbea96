"""Graph: a whole model as an immutable expression DAG, with an input schema and an output for each method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hbconv.array import Array
from hbconv.containers.columns import Codes, Columns, Entries
from hbconv.containers.columns_out import Container, NamesOut
from hbconv.containers.node import Node, rewrite, topological
from hbconv.containers.output import Output
from hbconv.containers.types import Schema
from hbconv.errors import VerificationError

__all__ = ["Check", "Graph", "Traits", "verify_graph"]


@dataclass(frozen=True)
class Check:
    """A condition under which the source refuses the input.

    The node is of dtype bool; a True anywhere makes the model raise InputError with the message.
    """

    node: Node
    message: str
    source: str = ""


@dataclass(frozen=True)
class Traits:
    """What the model repeats of the estimator: its kind, class labels, the names of its output columns and their container.

    ``kind`` is "classifier", "regressor", "transformer", another that scikit-learn knows, or "" (such as a ranker).
    """

    estimator: str = ""
    kind: str = ""
    classes: Array | tuple[Array, ...] | None = None
    names_out: NamesOut | None = None
    container: Container | None = None


@dataclass(frozen=True)
class Graph:
    """Input schema, outputs by method name, checks of the input, traits of the estimator; whether rows may come as a sparse matrix.

    ``warnings`` are conditions of which the source only warns: ``{columns}`` in their messages is where the node is True in some row.
    """

    schema: Schema
    outputs: Mapping[str, Output]
    checks: tuple[Check, ...] = ()
    traits: Traits = field(default_factory=Traits)
    sparse: bool = True
    warnings: tuple[Check, ...] = ()

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
        """Names of the outputs that are tensors, which exports hold."""
        return tuple(name for name, output in self.outputs.items() if output.is_tensor)

    def nodes(self) -> list[Node]:
        """All nodes that an output needs, inputs first."""
        return topological(self.output_roots)

    def rewritten(self, visit: Callable[[Node], Node]) -> Graph:
        """Rebuild the outputs, each node through visit; the checks stay."""
        mapping = rewrite(self.output_roots, visit)
        return replace(self, outputs={name: replace(o, node=mapping[o.node], blocks=()) for name, o in self.outputs.items()})

    def with_schema(self, schema: Schema) -> Graph:
        """Return the same graph over columns of other dtypes."""

        def visit(node: Node) -> Node:
            return replace(node, schema=schema) if isinstance(node, Columns | Codes | Entries) and node.schema != schema else node

        mapping = rewrite(self.roots, visit)
        outputs = {name: o.mapped(mapping) for name, o in self.outputs.items()}
        checks, warnings = (tuple(replace(c, node=mapping[c.node]) for c in found) for found in (self.checks, self.warnings))
        return replace(self, schema=schema, outputs=outputs, checks=checks, warnings=warnings)

    def only(self, *methods: str) -> Graph:
        """Keep the named outputs."""
        return replace(self, outputs={name: self.outputs[name] for name in methods})


def verify_graph(graph: Graph) -> Graph:
    """Return the graph, or raise VerificationError: types infer, leaves read the schema, codes and vectors fit."""
    for node in topological(graph.roots):
        _require(node.type.width >= 0, node, "negative width")
        if isinstance(node, Columns | Codes | Entries):
            _require(node.schema == graph.schema, node, "reads another schema")
            _require(all(0 <= i < len(graph.schema.columns) for i in node.columns), node, "column out of range")
    for name, output in graph.outputs.items():
        width = output.node.type.width
        _require(not output.vector or set(output.parts or (width,)) == {1}, output.node, f"output {name} is a vector of width {width}")
        _require(not output.parts or sum(output.parts) == width, output.node, f"output {name} has parts {output.parts} of width {width}")
        _require(not output.dtypes or len(output.dtypes) == len(output.parts), output.node, f"output {name} has dtypes of other parts")
        _require(not isinstance(output.classes, tuple) or len(output.classes) == width, output.node, f"output {name} has labels for other columns")
        _require(output.classes is None or output.node.type.dtype == "int32", output.node, f"output {name} has codes of dtype {output.node.type.dtype}")
    for check in (*graph.checks, *graph.warnings):
        _require(check.node.type.dtype == "bool", check.node, "a check is bool")
    return graph


def _require(condition: bool, node: Node, what: str) -> None:
    if not condition:
        raise VerificationError(f"{node.name} of step {node.source!r}: {what}")
