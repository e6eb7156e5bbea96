"""Codes: arrays of numbers for a model fitted on columns of categories, whose codes they are."""

from __future__ import annotations

from dataclasses import replace

from hbconv.containers import (
    CategoryNumbers,
    Codes,
    Columns,
    Entries,
    Graph,
    Node,
    rewrite,
    topological,
)

__all__ = ["over_arrays"]


def over_arrays(graph: Graph) -> Graph | None:
    """Return the graph of a model fitted on categories as it reads an array.

    The numbers of the array are those by which the source model numbers its categories.

    The graph does not check whether a category is known, because the source model does not for an
    array. Returns None if a column is also read by its values, as by an encoder beside the model:
    an array does not hold these.
    """
    plain = ["float64" if dtype == "string" else dtype for dtype in graph.schema.dtypes]
    schema = replace(
        graph.schema, conventions=replace(graph.schema.conventions, tables_only=False)
    ).with_dtypes(plain)

    def visit(node: Node) -> Node:
        if isinstance(node, CategoryNumbers):
            return node.of_array(schema)
        return replace(node, schema=schema) if isinstance(node, Columns) else node

    mapping = rewrite(graph.roots, visit)
    known = {mapping[node.codes] for node in mapping if isinstance(node, CategoryNumbers)}
    checks = tuple(
        replace(c, node=mapping[c.node])
        for c in graph.checks
        if not known.intersection(topological((mapping[c.node],)))
    )
    outputs = {name: output.mapped(mapping) for name, output in graph.outputs.items()}
    changed = replace(graph, schema=schema, outputs=outputs, checks=checks)
    return (
        None
        if any(isinstance(node, Codes | Entries) for node in topological(changed.roots))
        else changed
    )
