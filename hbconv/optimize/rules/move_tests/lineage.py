"""Lineage: the columns that a column of a node is a function of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Bins, Codes, Columns, FindCode, HashCodes, Hashes, Node, Schema
from hbconv.containers.dates import DateCodes

__all__ = ["Lineage", "Ref", "codes_of", "dtype_of"]

Ref = tuple[Node, int]
"""A column of a node."""


class Lineage:
    """What the columns of nodes are computed from, looked up once each.

    Columns of the input are computed from nodes of one column each, in its own dtype.

    Parameters
    ----------
    schema : Schema
        The input columns.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._raw: dict[int, Columns] = {}
        self._reads: dict[Node, tuple[npt.NDArray[np.int32], ...] | None] = {}
        self._chains: dict[Ref, tuple[Ref, ...]] = {}

    def inputs(self, node: Node) -> tuple[Node, ...]:
        """Return what the node is computed from; none for a column of the input alone."""
        if not isinstance(node, Columns):
            return node.inputs
        raw = tuple(self._of_schema(c) for c in node.columns)
        return () if raw == (node,) else raw

    def _of_schema(self, column: int) -> Columns:
        if column not in self._raw:
            self._raw[column] = Columns(self.schema, Array(np.array([column], np.int32)))
        return self._raw[column]

    def parents(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the columns that a column is computed from, each once; none if it is a source."""
        node, column = ref
        if isinstance(node, Columns):
            return tuple((raw, 0) for raw in self.inputs(node)[column : column + 1])
        if node not in self._reads:
            self._reads[node] = node.reads()
        pairs = zip(node.inputs, self._reads[node] or (), strict=False)
        return tuple(dict.fromkeys((n, int(r[column])) for n, r in pairs if r[column] >= 0))

    def chain(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the columns, nearest first, that the column is a function of, each one alone.

        It begins with the column itself. Where a column is taken twice, as by a choice, the chain
        goes on where the ways meet.
        """
        if ref not in self._chains:
            ways = [self.chain(parent) for parent in self.parents(ref)]
            ways = [way for way in ways if not self.is_constant(way[-1])]
            common = [r for r in ways[0] if all(r in way for way in ways[1:])] if ways else []
            self._chains[ref] = (ref, *common)
        return self._chains[ref]

    def is_constant(self, source: Ref) -> bool:
        """Whether a column without parents has one value."""
        return not self.parents(source) and bool(self._reads.get(source[0]))

    def between(self, ref: Ref, cut: Ref) -> Iterator[Ref]:
        """Yield the columns on the ways from the cut, which is left out, to a column, in order."""
        done = {cut}
        stack = [ref]
        while stack:
            left = [parent for parent in self.parents(stack[-1]) if parent not in done]
            if left:
                stack += left
                continue
            top = stack.pop()
            if top not in done:
                done.add(top)
                yield top

    def closure(self, refs: Iterable[Ref], cuts: Iterable[Ref]) -> set[Ref]:
        """Return all columns needed to compute some from the cuts, both ends included."""
        ends = set(cuts)
        found: set[Ref] = set()
        stack = list(refs)
        while stack:
            ref = stack.pop()
            if ref not in found:
                found.add(ref)
                stack += () if ref in ends else self.parents(ref)
        return found


def dtype_of(ref: Ref) -> str:
    """Dtype of the values of a column."""
    return ref[0].type.dtype


def codes_of(ref: Ref) -> tuple[int, int] | None:
    """Return the least and the largest value of a column of codes; None for other columns."""
    node, column = ref
    if isinstance(node, Codes):
        known = node.vocabulary
        if isinstance(known, DateCodes | HashCodes):
            return None
        if isinstance(known, Hashes):
            return -1, len(known.values) - 1
        others = (known.none, known.nan, known.na, known.blank)
        return -1, max(len(known.values) - 1, *others)
    if isinstance(node, FindCode):
        return -1, len(node.values[column]) - 1
    if isinstance(node, Bins):
        return 0, int(np.count_nonzero(~np.isnan(node.edges.data[column])))
    return None
