"""Draw a graph in graphviz' language."""

from __future__ import annotations

from hbconv.containers.graph import Graph
from hbconv.containers.node import Node, topological

__all__ = ["dot"]

_LONGEST = 60


def dot(graph: Graph) -> str:
    r"""Text of a digraph: a box for each node, an oval for each output.

    Examples
    --------
    >>> from hbconv.containers import Columns, Graph, Output, Schema
    >>> schema = Schema.table(["age"])
    >>> print(dot(Graph(schema, {"transform": Output(Columns.of(schema))})))
    digraph hbconv {
      rankdir=TB; node [shape=box, fontname="monospace"];
      n1 [label="columns\nage"];
      transform [shape=oval];
      n1 -> transform;
    }
    """
    nodes = topological(graph.output_roots)
    number = {node: i for i, node in enumerate(nodes, 1)}
    lines = ["digraph hbconv {", '  rankdir=TB; node [shape=box, fontname="monospace"];']
    for node in nodes:
        lines.append(f'  n{number[node]} [label="{_label(node)}"];')
        lines += [f"  n{number[x]} -> n{number[node]};" for x in node.inputs]
    for name, output in graph.outputs.items():
        lines += [f"  {name} [shape=oval];", f"  n{number[output.node]} -> {name};"]
    return "\n".join([*lines, "}"])


def _label(node: Node) -> str:
    detail = node.detail if len(node.detail) <= _LONGEST else node.detail[: _LONGEST - 3] + "..."
    parts = [node.name, detail, node.step]
    return "\\n".join(p.replace("\\", "\\\\").replace('"', '\\"') for p in parts if p)
