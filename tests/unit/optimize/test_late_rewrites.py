"""A method that is compiled alone computes what it reads, though all methods' nodes are merged."""

from __future__ import annotations

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Columns,
    Graph,
    Linear,
    Map,
    Node,
    Output,
    Schema,
    Select,
    Together,
    TreeEnsemble,
)
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.late_rewrites import narrow_to
from hbconv.optimize.rule import simplify
from hbconv.optimize.rules.merge_elementwise import merge_elementwise
from hbconv.optimize.rules.merge_forests import merge_forests
from hbconv.optimize.rules.merge_linears import merge_linears
from hbconv.target import Target

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)
ROWS = RNG.standard_normal((50, 4))


def members(kind: str) -> list[Node]:
    if kind == "trees":
        return [TreeEnsemble(X, random_forest(RNG), "select") for _ in range(3)]
    used = np.eye(4)[[0, 1, 3]] + np.eye(4)[2]
    return [Linear.of(X, weights) for weights in used]


def merged(kind: str) -> tuple[Graph, Graph]:
    """Return a graph of three models with sigmoids, and what the rules merge of it."""
    outputs = {f"f{i}": Output(Map(node, "sigmoid")) for i, node in enumerate(members(kind))}
    graph = Graph(SCHEMA, outputs)
    after = graph
    for rule in (merge_forests, merge_linears, merge_elementwise):
        for derivation in rule(after):
            after = simplify(derivation.apply(after), RULES)
    assert len(after.nodes()) < len(graph.nodes()) + 3
    return graph, after


def bits(graph: Graph, name: str) -> bytes:
    return evaluate(lower(graph.only(name)).program, {"x": ROWS})[name].tobytes()


@pytest.mark.parametrize("kind", ["trees", "products"])
@pytest.mark.parametrize("name", ["f0", "f1", "f2"])
def test_one_method_computes_its_own_model_alone(kind, name):
    before, after = merged(kind)
    alone = narrow_to(after, (name,), Target())
    assert [n.name for n in alone.nodes()] == [
        n.name for n in simplify(before.only(name), RULES).nodes()
    ]
    assert not any(isinstance(n, Together | Select) for n in alone.nodes())
    if kind == "trees":
        assert bits(alone, name) == bits(before, name)
        assert [n.strategy for n in alone.nodes() if isinstance(n, TreeEnsemble)] == ["select"]


@pytest.mark.parametrize("kind", ["trees", "products"])
def test_two_methods_share_a_narrower_node(kind):
    _, after = merged(kind)
    alone = narrow_to(after, ("f2", "f0"), Target())
    (model,) = (n for n in alone.nodes() if isinstance(n, TreeEnsemble | Linear))
    assert model.type.width == 2


def test_all_methods_leave_the_graph_as_it_is():
    _, after = merged("products")
    assert narrow_to(after, ("f0", "f1", "f2"), Target()) == after
