"""Evaluator: columns of nodes as numpy functions of the columns that they are cut at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Columns, Node
from hbconv.optimize.rules.move_tests.keys import Keys, values_of
from hbconv.optimize.rules.move_tests.lineage import Lineage, Ref
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.tensor.evaluate import evaluate

__all__ = ["Evaluator"]

Ints = npt.NDArray[np.int64]


class Evaluator:
    """Functions of one column each, as one program in the arithmetic of the reference.

    A row of the program holds a value for every cut, so all functions are evaluated at once.

    Parameters
    ----------
    lineage : Lineage
    columns : sequence of Ref
        The columns to compute.
    cuts : sequence of Ref
        For each of them, the column that it is a function of. No cut is computed from another.
    """

    def __init__(self, lineage: Lineage, columns: Sequence[Ref], cuts: Sequence[Ref]) -> None:
        self._lineage = lineage
        self._needed = _by_node(lineage.closure(columns, cuts))
        self._given = _by_node(cuts)
        self._roots = list(dict.fromkeys(node for node, _ in columns))
        places = {cut: i for i, cut in enumerate(dict.fromkeys(cuts))}
        self._cuts = tuple(places)
        self._cut_of = np.array([places[cut] for cut in cuts], np.int64)
        self._column = np.array([column for _, column in columns], np.int64)
        self._root = np.array([self._roots.index(node) for node, _ in columns], np.int64)
        self._inputs: dict[Node, str] = {}
        self._program = self._written()

    def _written(self) -> TensorProgram:
        """Write the program; nodes that are cut in part compute the rest of their columns."""
        b = Builder()
        values: dict[Node, Value] = {}
        for node in self._order():
            values[node] = self._lowered(b, node, values)
        return b.program({str(place): values[root] for place, root in enumerate(self._roots)})

    def _order(self) -> list[Node]:
        """Return the nodes to compute or to give, inputs first."""
        order: dict[Node, None] = {}
        stack = [(root, False) for root in self._roots]
        while stack:
            node, ready = stack.pop()
            if ready:
                order[node] = None
            elif node not in order:
                inputs = () if self._is_given(node) else self._lineage.inputs(node)
                stack.append((node, True))
                stack += [(n, False) for n in inputs]
        return list(order)

    def _is_given(self, node: Node) -> bool:
        """Whether all that is needed of the node is cut there; nothing may be needed."""
        return self._needed.get(node, set()) <= self._given.get(node, set())

    def _lowered(self, b: Builder, node: Node, values: dict[Node, Value]) -> Value:
        if self._is_given(node):
            return self._declared(b, node)
        inputs = [values[n] for n in self._lineage.inputs(node)]
        computed = (
            b.concat([b.cast(x, node.type.dtype) for x in inputs])
            if isinstance(node, Columns)
            else node.lower(b, *inputs)
        )
        cut = sorted(self._given.get(node, ()))
        if not cut:
            return computed
        order = np.arange(node.type.width)
        order[cut] += node.type.width
        return b.take(b.concat([computed, self._declared(b, node)]), order)

    def _declared(self, b: Builder, node: Node) -> Value:
        self._inputs[node] = f"x{len(self._inputs)}"
        return b.input(self._inputs[node], node.type.dtype, node.type.width)

    def at(self, which: Ints, keys: Keys) -> npt.NDArray[np.float64]:
        """Return the values of the columns ``which`` at the keys of their cuts, as float64.

        1. Lay the keys of each cut one below the other.
        2. Turn them into values of the cut's dtype.
        3. Evaluate, and pick each value from its row.
        """
        cut = self._cut_of[which]
        row, n_rows = _ranks(cut)  # 1
        inputs = self._zeros(n_rows)
        for place in np.unique(cut):  # 2
            node, column = self._cuts[place]
            chosen = cut == place
            inputs[self._inputs[node]][row[chosen], column] = values_of(
                keys[chosen], node.type.dtype
            )
        found = evaluate(self._program, inputs)  # 3
        result = np.empty(len(which))
        for place in range(len(self._roots)):
            chosen = self._root[which] == place
            picked = found[str(place)][row[chosen], self._column[which[chosen]]]
            result[chosen] = picked.astype(np.float64)
        return result

    def _zeros(self, n_rows: int) -> dict[str, npt.NDArray[Any]]:
        return {
            name: np.zeros((n_rows, node.type.width), node.type.dtype)
            for node, name in self._inputs.items()
        }


def _by_node(refs: set[Ref] | Sequence[Ref]) -> dict[Node, set[int]]:
    found: dict[Node, set[int]] = {}
    for node, column in refs:
        found.setdefault(node, set()).add(column)
    return found


def _ranks(groups: Ints) -> tuple[Ints, int]:
    """Count the entries of each group from 0, and return the size of the largest group too."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    first = np.searchsorted(ordered, ordered)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - first
    return ranks, int(ranks.max(initial=-1)) + 1
