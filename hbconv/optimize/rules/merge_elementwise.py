"""Merge equal arithmetic on columns of one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hbconv.array import Array
from hbconv.containers import Graph, Node, Select, Together
from hbconv.optimize.merged_columns import join_nodes, kind_of
from hbconv.optimize.merged_forests import first_places, group_by
from hbconv.optimize.rule import Derivation

__all__ = ["merge_elementwise"]


def merge_elementwise(graph: Graph) -> Iterator[Derivation]:
    """Compute once, over all columns, what several nodes compute of columns of one node.

    The nodes are equal but for constants of a column each, which are put side by side. The merged
    node must give each of them back where it is narrowed to its columns, so it is bit-exact. Chains
    are merged from the first to the last: ten sigmoids of ten merged products become one, and so
    does the arithmetic after them.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Map, Output, Schema, Softmax, show_rule
    >>> x = Softmax(Columns.of(Schema.table(["a", "b"])))
    >>> one, two = (Affine.of(Select(x, Array.of([i], "int32")), add=i + 1.0) for i in range(2))
    >>> outputs = {"mean": Output(Map(one, "exp")), "std": Output(Map(two, "exp"))}
    >>> graph = Graph(Schema.table(["a", "b"]), outputs)
    >>> (derivation,) = merge_elementwise(graph)
    >>> derivation.proof
    '4 nodes of columns become 2'
    >>> show_rule(derivation.replacements.get, two)
    affine(select(softmax(columns(a, b)), [1]), add [2.])
    -> select(together(affine(softmax(columns(a, b)), add [1., 2.])), [1])
    """
    chains = _Chains()
    for node in graph.nodes():
        if isinstance(node, Select):
            chains.taken[node] = node
    # Each pass merges one link more: what a merged node reads must be merged before it.
    while chains.lengthen(graph.nodes()):
        pass
    for replaced in chains.replaced.values():
        after = {pick.x for pick in replaced.values() if isinstance(pick, Select)}
        proof = f"{len(replaced)} nodes of columns become {len(after)}"
        yield Derivation("merge_elementwise", replaced, proof)


@dataclass
class _Chains:
    """Nodes that became columns of merged ones.

    Parameters
    ----------
    taken : mapping of Node to Select
        The columns of a merged node that each one became.
    origin : mapping of Node to Node
        The node of the graph that each merged one goes back to.
    replaced : mapping of Node to mapping
        For each of these, what is replaced by what.
    """

    taken: dict[Node, Select] = field(default_factory=dict)
    origin: dict[Node, Node] = field(default_factory=dict)
    replaced: dict[Node, dict[Node, Node]] = field(default_factory=dict)

    def lengthen(self, nodes: Sequence[Node]) -> bool:
        """Merge what reads columns of one node; say whether there was anything."""
        open_ends = [n for n in nodes if n not in self.taken and self._reads_columns(n)]
        groups = group_by(open_ends, lambda node: (self.taken[node.inputs[0]].x, kind_of(node)))
        merged = [self._merge(group) for group in groups if len(group) > 1]
        return any(merged)

    def _reads_columns(self, node: Node) -> bool:
        return len(node.inputs) == 1 and hasattr(node, "x") and node.inputs[0] in self.taken

    def _merge(self, group: list[Node]) -> bool:
        # In the order of their columns, so that the whole node is read without a selection.
        group = sorted(group, key=lambda n: int(self.taken[n.inputs[0]].indices.data[0]))
        picks = [self.taken[node.inputs[0]] for node in group]
        source = picks[0].x
        columns = np.concatenate([pick.indices.data for pick in picks])
        whole = np.array_equal(columns, np.arange(source.type.width))
        joined = join_nodes(group, source if whole else Select(source, Array.of(columns, "int32")))
        if joined is None:
            return False
        together = Together(joined, step=group[0].step)
        # Links of one chain are one derivation, since single links would only add copies.
        self.origin[together] = self.origin.get(source, source)
        widths = [node.type.width for node in group]
        for node, first, width in zip(group, first_places(widths), widths, strict=True):
            places = Array.of(np.arange(first, first + width), "int32")
            self._replace(node, Select(together, places, step=node.step))
        return True

    def _replace(self, node: Node, pick: Select) -> None:
        self.taken[node] = pick
        self.replaced.setdefault(self.origin[pick.x], {})[node] = pick
