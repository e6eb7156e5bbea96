"""Print a graph, a node a line, or draw it in graphviz' language."""

from __future__ import annotations

from collections.abc import Callable

from hbconv.containers.graph import Graph
from hbconv.containers.node import Node, topological

__all__ = ["dot", "show", "show_rule"]


def show(graph: Graph) -> str:
    """Text of a graph: input columns, numbered nodes with their source steps, outputs, checks.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Graph, Output, Schema
    >>> schema = Schema.table(["age", "fare"])
    >>> scaled = Affine.of(Columns.of(schema), sub=[1.0, 2.0])
    >>> print(show(Graph(schema, {"transform": Output(scaled)})))
    input  age: float64, fare: float64
    %1 columns  age, fare
    %2 affine %1  sub [1., 2.]
    transform = %2
    """
    nodes = topological(graph.roots)
    number = {node: i for i, node in enumerate(nodes, 1)}
    lines = [_show_schema(graph), *(_show_node(node, number) for node in nodes)]
    for name, output in graph.outputs.items():
        target = f"%{number[output.node]}"
        lines.append(f"{name} = {f'classes[{target}]' if output.classes is not None else target}")
    lines += [f"check %{number[c.node]}: {c.message.splitlines()[0]}" for c in graph.checks]
    return "\n".join(lines)


def show_rule(rule: Callable[[Node], Node | None], node: Node) -> None:
    """Print a node and the node that a rule returns for it, without the leaves.

    The rules' docstrings use it for their examples.
    """
    after = rule(node)
    print(_show_expression(node))
    print("->", "unchanged" if after is None else _show_expression(after))


def _show_expression(node: Node) -> str:
    inputs = ", ".join(_show_expression(n) for n in node.inputs)
    return f"{node.name}({', '.join(p for p in (inputs, node.detail) if p)})"


def _show_schema(graph: Graph) -> str:
    columns = graph.schema.columns
    if len(columns) > 8:
        dtypes = ", ".join(sorted(set(graph.schema.dtypes)))
        ends = f"{columns[0].name} ... {columns[-1].name}"
        return f"input  {ends}: {len(columns)} columns, {dtypes}"
    return "input  " + ", ".join(f"{c.name}: {c.dtype}" for c in columns)


def _show_node(node: Node, number: dict[Node, int]) -> str:
    inputs = "".join(f" %{number[n]}" for n in node.inputs)
    line = f"%{number[node]} {node.name}{inputs}  {node.detail}".rstrip()
    return f"{line:<70} {node.step}" if node.step else line


# Boxes of graphviz grow with their text, and one long list of columns would stretch the page.
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
