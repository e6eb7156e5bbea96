"""Evaluator: columns of nodes as numpy functions of the columns that they are cut at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Columns, Node
from hbconv.optimize.rules.move_tests.keys import Keys, values_of
from hbconv.optimize.rules.move_tests.lineage import Lineage, Ref
from hbconv.tensor import Builder, TensorProgram
from hbconv.tensor.evaluate import evaluate

__all__ = ["Evaluator"]

Ints = npt.NDArray[np.int64]
_Array = npt.NDArray[Any]


class Evaluator:
    """Functions of one column each, in the arithmetic of the source, else of the reference.

    Nodes are evaluated one after another: by the source's own function where there is one, else as
    a program. A row holds a value for every cut, so all functions are evaluated at once.

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
        self._order = self._ordered()
        self._programs: dict[Node, TensorProgram] = {}

    def _ordered(self) -> list[Node]:
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

    def at(self, which: Ints, keys: Keys) -> npt.NDArray[np.float64]:
        """Return the values of the columns ``which`` at the keys of their cuts, as float64.

        1. Lay the keys of each cut one below the other.
        2. Turn them into values of the cut's dtype.
        3. Evaluate the nodes, and pick each value from its row.
        """
        cut = self._cut_of[which]
        row, n_rows = _ranks(cut)  # 1
        given = self._given_values(cut, row, keys, n_rows)  # 2
        with np.errstate(all="ignore"):  # keys are any floats
            found = self._evaluated(given, n_rows)  # 3
        result = np.empty(len(which))
        for place, root in enumerate(self._roots):
            chosen = self._root[which] == place
            picked = found[root][row[chosen], self._column[which[chosen]]]
            result[chosen] = picked.astype(np.float64)
        return result

    def _given_values(self, cut: Ints, row: Ints, keys: Keys, n_rows: int) -> dict[Node, _Array]:
        """Return the values of the nodes that are cut, 0 where no key is given."""
        given = {node: _zeros(node, n_rows) for node in self._given}
        for place in np.unique(cut):
            node, column = self._cuts[place]
            chosen = cut == place
            given[node][row[chosen], column] = values_of(keys[chosen], node.type.dtype)
        return given

    def _evaluated(self, given: dict[Node, _Array], n_rows: int) -> dict[Node, _Array]:
        """Evaluate all nodes; those that are cut in part compute the rest of their columns."""
        values: dict[Node, _Array] = {}
        for node in self._order:
            if self._is_given(node):
                values[node] = given[node] if node in given else _zeros(node, n_rows)
                continue
            values[node] = self._computed(node, [values[n] for n in self._lineage.inputs(node)])
            if node in given:
                cut = sorted(self._given[node])
                values[node] = values[node].copy()
                values[node][:, cut] = given[node][:, cut]
        return values

    def _computed(self, node: Node, inputs: list[_Array]) -> _Array:
        if isinstance(node, Columns):
            return np.concatenate([x.astype(node.type.dtype) for x in inputs], axis=1)
        function = node.source_function()
        if function is not None:
            return function(*inputs)
        if node not in self._programs:
            self._programs[node] = _program(node)
        named = {str(place): x for place, x in enumerate(inputs)}
        return evaluate(self._programs[node], named)["value"]


def _program(node: Node) -> TensorProgram:
    """Write a node as a program of its inputs."""
    b = Builder()
    types = [n.type for n in node.inputs]
    inputs = [b.input(str(i), kind.dtype, kind.width) for i, kind in enumerate(types)]
    return b.program({"value": node.lower(b, *inputs)})


def _zeros(node: Node, n_rows: int) -> _Array:
    return np.zeros((n_rows, node.type.width), node.type.dtype)


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
