"""What is computed at once becomes narrower exactly where selections alone read it."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Columns,
    Graph,
    Map,
    Node,
    Output,
    Schema,
    Select,
    Softmax,
    Together,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize.rules.narrow_forests import narrow_together

SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)
SCALED = Together(Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0]))


def pick(x: Node, *columns: int) -> Select:
    return Select(x, Array.of(columns, "int32"))


def graph_of(*nodes: Node) -> Graph:
    return verify_graph(Graph(SCHEMA, {f"f{i}": Output(node) for i, node in enumerate(nodes)}))


def test_several_selections_share_one_narrower_node():
    graph = graph_of(Map(pick(SCALED, 3, 1), "exp"), pick(SCALED, 3))
    (derivation,) = narrow_together(graph)
    after = verify_graph(derivation.apply(graph))
    (narrow,) = (node for node in after.nodes() if isinstance(node, Together))
    assert narrow.type.width == 2
    rows = np.random.default_rng(0).standard_normal((9, 4))
    before = evaluate(lower(graph).program, {"x": rows})
    for name, values in evaluate(lower(after).program, {"x": rows}).items():
        np.testing.assert_array_equal(values, before[name])


@pytest.mark.parametrize(
    "nodes",
    [
        (SCALED, pick(SCALED, 1)),
        (Map(SCALED, "exp"), pick(SCALED, 1)),
        (pick(SCALED, 0, 1), pick(SCALED, 3, 2)),
        (pick(Together(Softmax(X)), 1),),
    ],
    ids=["an output", "read whole", "all columns", "mixes columns"],
)
def test_it_stays_where_all_of_it_is_needed(nodes):
    assert not list(narrow_together(graph_of(*nodes)))
