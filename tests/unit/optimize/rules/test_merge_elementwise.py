"""Equal arithmetic on columns of one node is done at once, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    BoxCox,
    Cast,
    Clip,
    Columns,
    Compare,
    Concat,
    Graph,
    Linear,
    Map,
    Node,
    Output,
    Power,
    Schema,
    Select,
    Softmax,
    Together,
    YeoJohnson,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize import RULES, optimize
from hbconv.optimize.rule import simplify
from hbconv.optimize.rules.merge_elementwise import merge_elementwise
from hbconv.optimize.rules.push_selection import join_selections
from hbconv.parse import parse

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(6)
X = Columns.of(SCHEMA)
ROOT = Together(Affine.of(X, mul=[1.0, -2.0, 3.0, 1e-3, 1e3, 0.5]))
HARD = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e300, 0.1])


def pick(x: Node, *columns: int) -> Select:
    return Select(x, Array.of(columns, "int32"))


def graph_of(*nodes: Node) -> Graph:
    return verify_graph(Graph(SCHEMA, {f"f{i}": Output(node) for i, node in enumerate(nodes)}))


def answers(graph: Graph) -> dict[str, bytes]:
    rows = np.random.default_rng(1).choice(HARD, (200, 6))
    with np.errstate(all="ignore"):
        values = evaluate(lower(graph).program, {"x": rows})
    return {name: value.tobytes() for name, value in values.items()}


def constants(x: Node) -> np.ndarray:
    return RNG.standard_normal(x.type.width)


STEPS = {
    "affine": lambda x: Affine.of(x, sub=constants(x), div=constants(x)),
    "wide": lambda x: Affine.in_place(x, sub=constants(x)),
    "sigmoid": lambda x: Map(x, "sigmoid"),
    "exp": lambda x: Map(x, "exp"),
    "clip": lambda x: Clip.of(x, constants(x) - 9, constants(x) + 9),
    "power": lambda x: Power(x, 2.0),
    "cast": lambda x: Cast(x, "float32"),
    "compare": lambda x: Cast(Compare.of(x, "gt", 0.5, "float64"), "float64"),
    "yeo_johnson": lambda x: YeoJohnson(x, Array(constants(x)), Array(constants(x))),
    "box_cox": lambda x: BoxCox(x, Array(constants(x))),
}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_random_chains_merge_with_the_same_bits(data):
    """Chains over overlapping columns, of equal and of other steps, each of them an output."""
    ends = []
    steps = data.draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4))
    for _ in range(data.draw(st.integers(2, 4))):
        node: Node = pick(ROOT, *data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
        for step in steps[: data.draw(st.integers(1, 4))]:
            node = STEPS[step](node)
            ends.append(node)
    graph = graph_of(*ends)
    after = graph
    for derivation in merge_elementwise(graph):
        after = derivation.apply(after)
    assert answers(graph) == answers(verify_graph(after))
    assert answers(graph) == answers(simplify(after, [r for r in RULES if r.exactness == 1]))


@pytest.mark.parametrize("step", STEPS)
def test_every_step_merges(step):
    one, two = STEPS[step](pick(ROOT, 0)), STEPS[step](pick(ROOT, 3, 1))
    graph = graph_of(one, two)
    (derivation,) = merge_elementwise(graph)
    after = derivation.apply(graph)
    assert {one, two} <= derivation.replacements.keys()
    assert not {one, two} & set(after.nodes())
    assert answers(graph) == answers(verify_graph(after))


def test_a_chain_is_one_derivation_and_leaves_one_node_a_step():
    ends = [Affine.of(Map(pick(ROOT, i), "sigmoid"), mul=-1.0, add=1.0) for i in range(6)]
    graph = graph_of(Concat(tuple(ends)))
    (derivation,) = merge_elementwise(graph)
    assert derivation.proof == "12 nodes of columns become 2"
    after = simplify(derivation.apply(graph), RULES)
    assert [node.name for node in after.nodes()] == [
        "columns", "affine", "together", "map", "together", "affine", "together",
    ]  # fmt: skip
    assert answers(graph) == answers(after)


@pytest.mark.parametrize(
    "nodes",
    [
        (Map(pick(ROOT, 0), "exp"), Map(pick(ROOT, 1), "log")),
        (Map(pick(ROOT, 0), "exp"), Map(pick(X, 1), "exp")),
        (Softmax(pick(ROOT, 0, 1)), Softmax(pick(ROOT, 2, 3))),
        (Linear.of(pick(ROOT, 0), [1.0]), Linear.of(pick(ROOT, 1), [2.0])),
        (Affine.of(pick(ROOT, 0), add=1.0), Affine.of(pick(ROOT, 1), mul=1.0)),
    ],
    ids=["functions", "inputs", "mixes columns", "products", "operations"],
)
def test_what_differs_stays_apart(nodes):
    assert not list(merge_elementwise(graph_of(*nodes)))


def test_selections_of_one_node_are_joined_and_others_left():
    first, second, third = pick(ROOT, 2), pick(ROOT, 0, 1), pick(Softmax(X), 3)
    assert join_selections(Concat((first, second))) == pick(ROOT, 2, 0, 1)
    assert join_selections(Concat((first, second, third))) == Concat((pick(ROOT, 2, 0, 1), third))
    assert join_selections(Concat((first, third, second))) is None


def test_sigmoids_of_one_versus_rest_become_one():
    rows = RNG.standard_normal((90, 3))
    source = OneVsRestClassifier(LogisticRegression()).fit(rows, np.arange(90) % 3)
    nodes = optimize(parse(source).only("predict_proba")).graph.nodes()
    assert sum(isinstance(node, Map) for node in nodes) == 1
    assert sum(isinstance(node, Linear) for node in nodes) == 1
