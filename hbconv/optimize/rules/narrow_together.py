"""Narrow what is computed at once to the columns that something reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Graph, Node, Select, Together
from hbconv.optimize.rule import Derivation
from hbconv.optimize.rules.narrow_forests import find_readers

__all__ = ["narrow_together"]


def narrow_together(graph: Graph) -> Iterator[Derivation]:
    """Compute only the columns that selections take from a node that is computed at once.

    A method that is compiled alone may read a part of what was merged for all. The selections share
    one narrower node. Where only one is left, nothing needs to be computed at once.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Concat, Output, Schema, show_rule
    >>> x = Columns.of(Schema.table(["a", "b", "c"]))
    >>> scaled = Together(Affine.of(x, sub=[1.0, 2.0, 3.0]))
    >>> second = Select(scaled, Array([1]))
    >>> (derivation,) = narrow_together(Graph(x.schema, {"transform": Output(second)}))
    >>> derivation.proof
    '1 of 3 columns are read'
    >>> show_rule(derivation.replacements.get, second)
    select(together(affine(columns(a, b, c), sub [1., 2., 3.])), [1])
    -> affine(select(columns(a, b, c), [1]), sub [2.])
    """
    readers = find_readers(graph)
    for node in graph.nodes():
        picks = [reader for reader in readers[node] if isinstance(reader, Select)]
        if not isinstance(node, Together) or node in graph.output_roots:
            continue
        if picks and len(picks) == len(readers[node]):
            yield from _narrowed(node, picks)


def _narrowed(node: Together, picks: list[Select]) -> Iterator[Derivation]:
    read = np.unique(np.concatenate([pick.indices.data for pick in picks]))
    if len(read) == node.type.width:
        return
    narrow = node.x.narrowed(Array.of(read, "int32"))
    if narrow is None:
        return
    fewer = narrow if len(picks) == 1 else Together(narrow, step=node.step)
    yield Derivation(
        "narrow_together",
        {pick: _select(fewer, read, pick) for pick in picks},
        f"{len(read)} of {node.type.width} columns are read",
    )


def _select(fewer: Node, read: npt.NDArray[np.int32], pick: Select) -> Node:
    places = np.searchsorted(read, pick.indices.data)
    if np.array_equal(places, np.arange(len(read))):
        return fewer
    return Select(fewer, Array.of(places, "int32"), step=pick.step)
