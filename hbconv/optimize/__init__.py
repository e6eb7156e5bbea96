"""Optimize: rules rewrite the container DAG.

Some are always worth while, and run to a fixed point (``rule.simplify``). Others are chosen by the
predicted cost of the whole graph (``search.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from hbconv.containers import Graph, Node, Output
from hbconv.optimize.program_cost import graph_seconds
from hbconv.optimize.rule import Exactness, GraphRule, NodeRule, simplify
from hbconv.optimize.rules.derive_linear import derive_linear
from hbconv.optimize.rules.drop_constants import drop_constants, drop_directions
from hbconv.optimize.rules.merge_codes import fold_codes, merge_codes
from hbconv.optimize.rules.merge_elementwise import merge_elementwise
from hbconv.optimize.rules.merge_forests import merge_forests
from hbconv.optimize.rules.merge_linears import fold_affine_into_affine, merge_linears
from hbconv.optimize.rules.move_tests import move_tests
from hbconv.optimize.rules.narrow_forests import narrow_forests, narrow_together
from hbconv.optimize.rules.push_selection import inject_selection, join_selections, push_selection
from hbconv.optimize.rules.remove_identity import flatten_concat, remove_identity
from hbconv.optimize.search import Optimized, Search
from hbconv.target import Target

__all__ = ["REWRITES", "RULES", "find_search", "optimize", "rule_names", "simplify_exactly"]

RULES: tuple[NodeRule, ...] = (
    NodeRule(remove_identity, Exactness.BITS, "no row changes"),
    NodeRule(push_selection, Exactness.BITS, "each column is computed alone"),
    NodeRule(flatten_concat, Exactness.BITS, "the columns and their order stay"),
    NodeRule(join_selections, Exactness.BITS, "the columns and their order stay"),
    NodeRule(inject_selection, Exactness.BITS, "nothing depends on the columns left out"),
    NodeRule(drop_constants, Exactness.TOLERANCE, "the same is added to every row"),
    NodeRule(drop_directions, Exactness.BITS, "no NaN comes"),
    NodeRule(fold_affine_into_affine, Exactness.BITS, "the steps and their order stay"),
    NodeRule(fold_codes, Exactness.BITS, "the entries and their order stay"),
)
"""The rules that are always worth while, in the order they are tried at each node.

Columns are dropped before arithmetic is folded.
"""

REWRITES: tuple[GraphRule, ...] = (
    GraphRule(move_tests, Exactness.BITS, "each test is decided by the source, or the reference"),
    GraphRule(narrow_forests, Exactness.BITS, "each sum keeps its terms and their order"),
    GraphRule(narrow_together, Exactness.BITS, "each column is computed alone"),
    GraphRule(derive_linear, Exactness.TOLERANCE, "one polynomial, judged when made"),
    GraphRule(merge_forests, Exactness.BITS, "each output keeps its terms and their order"),
    GraphRule(merge_linears, Exactness.TOLERANCE, "each sum keeps its terms"),
    GraphRule(merge_codes, Exactness.BITS, "each column is computed alone"),
    GraphRule(merge_elementwise, Exactness.BITS, "each column is computed alone"),
)
"""The rules chosen by cost, in the order they are tried."""


def optimize(graph: Graph, target: Target | None = None) -> Optimized:
    """Rewrite a graph by all rules: those always worth while, and those that the cost chooses.

    The checks of the input stay as they are. Rules depend on the dtypes of the columns, so a graph
    over columns of other dtypes is optimized again. Outputs on demand are kept apart, since what
    they read would keep rules from the others.

    Parameters
    ----------
    graph : Graph
    target : Target, optional
        What the cost is predicted for, and the rules to leave out.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Columns, Schema, Select
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> selected = Select(x, Array([1]), step="SelectKBest")
    >>> optimized = optimize(Graph(x.schema, {"transform": Output(selected)}))
    >>> [f"{node.name} {node.detail}" for node in optimized.graph.nodes()]
    ['columns b']
    """
    # Contributions read a forest's input as it is: as a second reader they kept rules from predict.
    often = {name: output for name, output in graph.outputs.items() if not output.on_demand}
    if len(often) in (0, len(graph.outputs)):
        return find_search(graph, target or Target()).best()
    optimized = find_search(replace(graph, outputs=often), target or Target()).best()
    outputs = {**_simplify_exactly(graph).outputs, **optimized.graph.outputs}
    ordered = {name: outputs[name] for name in graph.outputs}
    return replace(optimized, graph=replace(optimized.graph, outputs=ordered))


def _simplify_exactly(graph: Graph) -> Graph:
    return simplify(graph, [rule for rule in RULES if rule.exactness is Exactness.BITS])


def find_search(graph: Graph, target: Target) -> Search:
    """Return the search over the rewrites of a graph that the target does not leave out."""
    # The same names leave rules out on the command line, which shows what each of them gains.
    rules = [rule for rule in RULES if rule.name not in target.without]
    rewrites = [rule for rule in REWRITES if rule.name not in target.without]
    return Search(graph, rules, rewrites, partial(graph_seconds, target=target))


def simplify_exactly(graph: Graph, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Simplify nodes over a graph's input by the bit-exact rules alone.

    They then share equal sub-expressions with the graph's outputs.
    """
    outputs = {str(position): Output(node) for position, node in enumerate(nodes)}
    return _simplify_exactly(replace(graph, outputs=outputs)).output_roots


def rule_names() -> tuple[str, ...]:
    """Names of all rules, which ``Target.without`` may hold."""
    return (*(rule.name for rule in RULES), *(rule.name for rule in REWRITES))
