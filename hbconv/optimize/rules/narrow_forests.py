"""Narrow forests, and what is computed at once, to the columns that something reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Graph, Node, Select, Together, TreeEnsemble, TreeLeaves, at_step
from hbconv.optimize.rule import Declined, Derivation
from hbconv.trees.forest import keep_outputs, keep_trees

__all__ = ["find_readers", "narrow_forests", "narrow_together"]


def narrow_forests(graph: Graph) -> Iterator[Derivation | Declined]:
    """Let a forest compute only the columns that selections take from it.

    Vector leaves become shorter. Scalar trees that add to other outputs vanish, and so do trees
    whose leaves nobody reads. Each sum keeps its start, its terms and their order: bit-exact. All
    selections of one forest share one narrower forest, so none is computed twice. A forest that
    anything else reads stays as it is.

    Examples
    --------
    >>> from hbconv.containers import Columns, Output, Schema, show_rule
    >>> from hbconv.trees.forest import Forest
    >>> none, leaf = Array.of([], "int32"), Array.of([0, 0], "int32")
    >>> forest = Forest(none, Array([]), Array.of([], "bool"), none, none,
    ...                 Array.of([-1, -2], "int32"), Array.of([0, 1, 2], "int32"),
    ...                 Array([[5.0], [7.0]]), Array.of([0, 1], "int32"), Array([0.0, 0.5]), False,
    ...                 2, leaf)
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> second = Select(TreeEnsemble(x, forest), Array([1]))
    >>> (derivation,) = narrow_forests(Graph(x.schema, {"predict": Output(second)}))
    >>> derivation.proof
    '1 of 2 columns are read'
    >>> show_rule(derivation.replacements.get, second)
    select(tree_ensemble(columns(a, b), 2 trees, 0 tests, <= float64, sums float64), [1])
    -> tree_ensemble(columns(a, b), 1 trees, 0 tests, <= float64, sums float64)
    """
    readers = find_readers(graph)
    for node in graph.nodes():
        if isinstance(node, TreeEnsemble | TreeLeaves) and readers[node]:
            yield from _narrow(node, readers[node], node in graph.output_roots)


def find_readers(graph: Graph) -> dict[Node, list[Node]]:
    """Find the nodes that read each node."""
    readers: dict[Node, list[Node]] = {node: [] for node in graph.nodes()}
    for node in graph.nodes():
        for read in dict.fromkeys(node.inputs):
            readers[read].append(node)
    return readers


def _narrow(
    node: TreeEnsemble | TreeLeaves, readers: list[Node], is_output: bool
) -> Iterator[Derivation | Declined]:
    """Propose one narrower forest for all selections, where there is nothing else to serve."""
    picks = [reader for reader in readers if isinstance(reader, Select)]
    if not picks:
        return
    width = node.type.width
    read = np.unique(np.concatenate([pick.indices.data for pick in picks]))
    # A narrower forest beside the whole one would be evaluated in addition to it.
    if is_output or len(picks) < len(readers):
        yield Declined("narrow_forests", node, f"all {width} columns are read elsewhere too")
    elif len(read) < width:
        yield Derivation(
            "narrow_forests",
            {pick: _select(node, read, pick) for pick in picks},
            f"{len(read)} of {width} columns are read",
        )


def _select(node: TreeEnsemble | TreeLeaves, read: npt.NDArray[np.int32], pick: Select) -> Node:
    """Select from the narrower forest; the forest itself where that gives all of it in order."""
    with at_step(node.step):
        keep = keep_outputs if isinstance(node, TreeEnsemble) else keep_trees
        fewer = replace(node, forest=keep(node.forest, read))
    places = np.searchsorted(read, pick.indices.data)
    if np.array_equal(places, np.arange(len(read))):
        return fewer
    return replace(pick, x=fewer, indices=Array.of(places, np.int32))


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
            yield from _propose_narrower(node, picks)


def _propose_narrower(node: Together, picks: list[Select]) -> Iterator[Derivation]:
    read = np.unique(np.concatenate([pick.indices.data for pick in picks]))
    if len(read) == node.type.width:
        return
    narrow = node.x.narrowed(Array.of(read, "int32"))
    if narrow is None:
        return
    # One reader is left, so later selections may pass again.
    fewer = narrow if len(picks) == 1 else Together(narrow, step=node.step)
    yield Derivation(
        "narrow_together",
        {pick: _select_columns(fewer, read, pick) for pick in picks},
        f"{len(read)} of {node.type.width} columns are read",
    )


def _select_columns(fewer: Node, read: npt.NDArray[np.int32], pick: Select) -> Node:
    places = np.searchsorted(read, pick.indices.data)
    if np.array_equal(places, np.arange(len(read))):
        return fewer
    return Select(fewer, Array.of(places, "int32"), step=pick.step)
