"""Merge the columns whose numbers are found among known ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from hbconv.array import Array
from hbconv.containers import FindCode, Graph, Node, Select, Together
from hbconv.optimize.merging.columns import find_columns
from hbconv.optimize.merging.groups import find_levels, group_by
from hbconv.optimize.merging.single_columns import join_columns, way_of
from hbconv.optimize.rule import Derivation

__all__ = ["merge_codes"]


def merge_codes(graph: Graph) -> Iterator[Derivation]:
    """Find the codes of many columns at once, each column once.

    Encoders, and checks for unseen categories, find the codes of one column each. Columns that come
    the same way from the input are computed together, and each reader selects its own. Each column
    is computed as before, so the rule is bit-exact.

    Examples
    --------
    >>> from hbconv.containers import Columns, Concat, Output, Schema, show_rule
    >>> schema = Schema.table(["a", "b"])
    >>> one, two = (
    ...     FindCode(Columns(schema, Array.of([i], "int32")), (Array([0.0, 1.0 + i]),))
    ...     for i in range(2)
    ... )
    >>> graph = Graph(schema, {"transform": Output(Concat((one, two)))})
    >>> (derivation,) = merge_codes(graph)
    >>> derivation.proof
    'the codes of 2 columns are found at once'
    >>> show_rule(derivation.replacements.get, two)
    find_code(columns(b), 2 values)
    -> select(together(find_code(columns(a, b), 2, 2 values)), [1])
    """
    levels = find_levels(graph, lambda node: isinstance(node, FindCode))
    found = [node for node in graph.nodes() if isinstance(node, FindCode)]
    names = {node: find_columns(node) for node in found}
    ways = {node: _way(node, names[node]) for node in found}
    for group in group_by(found, lambda node: (levels[node], ways[node])):
        if len(group) > 1:
            yield _merged(group, names)


def _way(node: FindCode, columns: Sequence[Hashable]) -> Hashable:
    """Say how the columns come from the input; a node whose columns differ stands alone."""
    ways = {way_of(c.x) if isinstance(c, FindCode) else c for c in columns}
    return ways.pop() if len(ways) == 1 else node


def _merged(group: Sequence[FindCode], names: Mapping[FindCode, Sequence[Hashable]]) -> Derivation:
    columns = dict.fromkeys(name for node in group for name in names[node])
    singles = [name for name in columns if isinstance(name, FindCode)]
    x = join_columns([single.x for single in singles])
    values = tuple(single.values[0] for single in singles)
    together = Together(FindCode(x, values, step=group[0].step), step=group[0].step)
    place: dict[Hashable, int] = {name: i for i, name in enumerate(singles)}
    replacements: dict[Node, Node] = {
        node: Select(
            together, Array.of([place[name] for name in names[node]], np.int32), step=node.step
        )
        for node in group
    }
    proof = f"the codes of {len(singles)} columns are found at once"
    return Derivation("merge_codes", replacements, proof)
