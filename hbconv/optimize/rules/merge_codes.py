"""Find the codes of many columns at once, and fold replaced codes into the tables behind them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hbconv.array import Array
from hbconv.containers import FindCode, Graph, LookupSum, Node, Recode, Select, Together
from hbconv.optimize.merged_columns import find_columns, join_columns, way_of
from hbconv.optimize.merged_forests import find_levels, group_by
from hbconv.optimize.rule import Derivation

__all__ = ["fold_codes", "merge_codes"]


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
    # Of one level, so that no merged node reads its own result.
    levels = find_levels(graph, lambda node: isinstance(node, FindCode))
    searches = [node for node in graph.nodes() if isinstance(node, FindCode)]
    names = {node: find_columns(node) for node in searches}
    ways = {node: _way(node, names[node]) for node in searches}
    for group in group_by(searches, lambda node: (levels[node], ways[node])):
        if len(group) > 1:
            yield _merge(group, names)


def _way(node: FindCode, columns: Sequence[Hashable]) -> Hashable:
    """Say how the columns come from the input; a node whose columns differ is alone."""
    ways = {way_of(c.x) if isinstance(c, FindCode) else c for c in columns}
    return ways.pop() if len(ways) == 1 else node


def _merge(group: Sequence[FindCode], names: Mapping[FindCode, Sequence[Hashable]]) -> Derivation:
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


# No measurement of this factor is recorded.
MAX_GROWTH = 4
"""How many times larger the tables may become: then they leave no cache that they were in."""


def fold_codes(node: Node) -> Node | None:
    """Look up the first codes, in tables of what their replacements would have found.

    Bit-exact: the entries and their order stay. Tables that would grow much stay.

    Examples
    --------
    >>> from hbconv.containers import Codes, Schema, Vocabulary, show_rule
    >>> codes = Codes(Schema.table(["city"]), 0, Vocabulary(("x", "y", "z")))
    >>> grouped = Recode(codes, (Array.of([-1, 1, 0, 1], "int32"),))
    >>> show_rule(fold_codes, Recode(grouped, (Array([0.5, 1.5, 2.5]),)))
    recode(recode(codes(city  3 categories), tables of 4), tables of 3)
    -> recode(codes(city  3 categories), tables of 4)
    """
    if not isinstance(node, LookupSum | Recode):
        return None
    codes = node.codes
    if not isinstance(codes, Recode) or codes.type.dtype != "int32":
        return None
    pairs = list(zip(node.tables, codes.tables, strict=True))
    entry = node.tables[0].data[0].size
    before = sum(len(table) * entry + len(first) for table, first in pairs)
    if sum(len(first) for _, first in pairs) * entry > MAX_GROWTH * before:
        return None
    # Such codes have no entry in the second table.
    if any(first.data.min() < -1 or first.data.max() >= len(table) - 1 for table, first in pairs):
        return None
    tables = tuple(Array(table.data[first.data + 1]) for table, first in pairs)
    return replace(node, codes=codes.codes, tables=tables)
