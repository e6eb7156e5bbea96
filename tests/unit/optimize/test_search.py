"""The search takes what makes the whole graph cheaper, and nothing that may not be made."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    Columns,
    Concat,
    Graph,
    Linear,
    Map,
    Node,
    Output,
    Schema,
)
from hbconv.optimize.rule import Declined, Derivation, Exactness, GraphRule, apply_together
from hbconv.optimize.search import Refused, Search

SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)
PRICES = {"linear": 0.0, "map": 5.0, "affine": 1.0, "concat": 0.0, "columns": 0.0, "bins": 1.0}


def graph_of(node: Node) -> Graph:
    return Graph(SCHEMA, {"transform": Output(node)})


def cost(graph: Graph) -> float:
    """Price nodes by their class, products by their size."""
    return sum(
        PRICES[n.name] + (n.weights.data.size if isinstance(n, Linear) else 0)
        for n in graph.nodes()
    )


def search(node: Node, *rewrites: GraphRule) -> Search:
    return Search(graph_of(node), (), rewrites, cost)


def fold_products(graph: Graph) -> Iterator[Derivation | Declined]:
    """Fold a shared product into all products that read it, as one derivation."""
    heads: dict[Node, list[Linear]] = {}
    for node in graph.nodes():
        if isinstance(node, Linear) and isinstance(node.x, Linear):
            heads.setdefault(node.x, []).append(node)
    for group in heads.values():
        yield Derivation("fold_products", {head: _folded(head) for head in group}, "associative")


def _folded(head: Linear) -> Linear:
    assert isinstance(head.x, Linear)
    return Linear.of(head.x.x, head.x.weights.data @ head.weights.data)


FOLD = GraphRule(fold_products, Exactness.TOLERANCE, "associative")


def exp_to_affine(graph: Graph) -> Iterator[Derivation | Declined]:
    """Offer a cheap and a dear form of each exponential, and decline the other functions."""
    for node in graph.nodes():
        if not isinstance(node, Map):
            continue
        if node.function != "exp":
            yield Declined("exp_to_affine", node, "it is no exponential")
            continue
        dear = Affine.of(Map(node.x, "log"), mul=1.0)
        yield Derivation("exp_to_affine", {node: dear}, "dear")
        yield Derivation("exp_to_affine", {node: Affine.of(node.x, mul=1.0)}, "cheap")


CHEAPEN = GraphRule(exp_to_affine, Exactness.BITS, "made up")


def heads(count: int, outputs: int = 1) -> Node:
    inner = Linear.of(X, np.ones((4, 3)))
    return Concat(tuple(Linear.of(inner, np.full((3, outputs), i + 1.0)) for i in range(count)))


@pytest.mark.parametrize(("count", "folded"), [(1, True), (4, True), (40, False)])
def test_a_shared_product_is_folded_into_few_readers_alone(count: int, folded: bool) -> None:
    """12 + 3 h multiplications are fewer than 4 h where the product has many readers."""
    best = search(heads(count), FOLD).best()
    assert [d.applied for d in best.decisions] == [folded]
    assert best.seconds == min(12 + 3 * count, 4 * count)
    assert best.decisions[0].otherwise == max(12 + 3 * count, 4 * count)


def test_a_derivation_is_taken_whole() -> None:
    """No single head gains by a fold; all of them together do."""
    best = search(heads(3), FOLD).best()
    assert sum(isinstance(n, Linear) for n in best.graph.nodes()) == 3


@pytest.mark.parametrize(("price", "applied"), [(500.5, False), (500.0, True)])
def test_a_derivation_that_gains_nothing_is_left_out(price: float, applied: bool) -> None:
    """Beside one that gains, a slight loss is enough; at a tie, what was derived stays."""
    shared = Linear.of(X, np.ones((4, 3)))
    prices = dict(PRICES, map=500.0, affine=price)
    found = Search(
        graph_of(Concat((Linear.of(shared, np.ones((3, 1))), Map(X, "exp")))),
        (),
        (FOLD, CHEAPEN),
        lambda graph: sum(
            prices[n.name] + (n.weights.data.size if isinstance(n, Linear) else 0)
            for n in graph.nodes()
        ),
    )
    made = {d.derivation.rule: d.applied for d in found.best().decisions}
    assert made == {"fold_products": True, "exp_to_affine": applied}


def test_the_cheapest_of_several_forms_is_taken() -> None:
    best = search(Map(X, "exp"), CHEAPEN).best()
    assert [d.derivation.proof for d in best.decisions] == ["cheap"]
    assert [n.name for n in best.graph.nodes()] == ["columns", "affine"]


def test_what_a_rule_declines_is_kept_with_its_reason() -> None:
    best = search(Map(X, "tanh"), CHEAPEN).best()
    assert [(d.node.name, d.reason) for d in best.declined] == [("map", "it is no exponential")]


def test_nothing_rounds_before_a_decision() -> None:
    """The same fold is made behind a table of bins, and declined before one."""
    product = Linear.of(Linear.of(X, np.ones((4, 4))), np.ones((4, 1)))
    edges = Array(np.array([[0.0]]))
    decided = search(Bins(product, edges), FOLD).best()
    assert not decided.decisions
    assert [d.reason for d in decided.declined] == ["a last bit decides after it"]
    assert search(Map(product, "exp"), FOLD).best().decisions[0].applied


def required_affine(graph: Graph) -> Iterator[Derivation | Declined]:
    for node in graph.nodes():
        if isinstance(node, Map):
            dear = Affine.of(Linear.of(node.x, np.eye(4)), mul=1.0)
            yield Derivation("required_affine", {node: dear}, "made up", required=True)


def test_a_required_derivation_is_made_whatever_it_costs() -> None:
    rule = GraphRule(required_affine, Exactness.BITS, "made up")
    found = search(Map(X, "exp"), rule)
    assert [n.name for n in found.best().graph.nodes()] == ["columns", "linear", "affine"]
    refused = found.derive(Refused(rules=frozenset({"required_affine"})))
    assert refused.decisions[0].applied


def test_two_rules_of_which_one_feeds_the_other() -> None:
    """What one rule makes of an input, another reads."""
    best = search(
        Linear.of(Linear.of(Map(X, "exp"), np.ones((4, 4))), np.ones((4, 1))), FOLD, CHEAPEN
    )
    assert [n.name for n in best.best().graph.nodes()] == ["columns", "affine", "linear"]


def test_derivations_of_nested_nodes_apply_together() -> None:
    inner = Map(X, "exp")
    outer = Map(Affine.of(inner, mul=2.0), "exp")
    first = Derivation("r", {inner: Affine.of(X, mul=3.0)}, "")
    second = Derivation("r", {outer: Affine.of(outer.x, mul=5.0)}, "")
    (root,) = apply_together(graph_of(outer), [first, second]).output_roots
    assert [n.name for n in graph_of(root).nodes()] == ["columns", "affine", "affine", "affine"]
