"""Products of one input become one, and nothing that a last bit decides on is among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from forests import random_forest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, StackingRegressor, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Columns,
    Concat,
    Graph,
    Linear,
    Node,
    Output,
    Schema,
    Select,
    TreeEnsemble,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.rule import simplify
from hbconv.optimize.rules.merge_linears import merge_linears
from hbconv.parse import parse

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)


def graph_of(*nodes: Node) -> Graph:
    return verify_graph(Graph(SCHEMA, {f"f{i}": Output(node) for i, node in enumerate(nodes)}))


def pick(x: Node, *columns: int) -> Select:
    return Select(x, Array.of(columns, "int32"))


def products(graph: Graph) -> list[Linear]:
    return [node for node in graph.nodes() if isinstance(node, Linear)]


def merged(graph: Graph) -> Graph:
    (derivation,) = merge_linears(graph)
    return verify_graph(derivation.apply(graph))


def answers(graph: Graph, rows: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return evaluate(lower(graph).program, {"x": rows})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=2, max_size=4), st.data()
)
def test_products_of_any_columns_merge_exactly_where_numbers_are_small(inputs, data):
    """Sums of small whole numbers are exact in any order, so every bit must be equal."""
    nodes = []
    for columns in inputs:
        outputs = data.draw(st.integers(1, 3))
        weights = RNG.integers(-9, 9, (len(columns), outputs)).astype(np.float64)
        nodes.append(
            Linear.of(pick(X, *columns), weights, RNG.integers(-9, 9, outputs).astype(np.float64))
        )
    graph = graph_of(*nodes)
    rows = RNG.integers(-99, 99, (30, 4)).astype(np.float64)
    after = graph
    for derivation in merge_linears(graph):
        after = derivation.apply(after)
    before = answers(graph, rows)
    for name, values in answers(verify_graph(after), rows).items():
        np.testing.assert_array_equal(values, before[name])


def test_the_widest_product_comes_first():
    """Its sums show whether any column is not finite, which spares a check on the host."""
    narrow = Linear.of(pick(X, 1), [2.0])
    wide = Linear.of(X, [1.0, 2.0, 3.0, 4.0], 5.0)
    (product,) = products(merged(graph_of(narrow, wide)))
    np.testing.assert_array_equal(product.weights.data, [[1, 0], [2, 2], [3, 0], [4, 0]])
    np.testing.assert_array_equal(product.bias.data, [5, 0])


def test_siblings_of_one_scaler_share_it():
    scaled = Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0])
    few = Affine.of(pick(X, 2, 0), sub=[3.0, 1.0])
    (product,) = products(
        merged(graph_of(Linear.of(scaled, np.ones(4)), Linear.of(few, [5.0, 6.0])))
    )
    assert product.x == scaled
    np.testing.assert_array_equal(product.weights.data[:, 1], [6, 0, 5, 0])


def test_a_product_before_a_threshold_stays_apart():
    before = Linear.of(X, np.ones((4, 2)))
    forest = random_forest(RNG, n_features=2)
    others = [Linear.of(X, RNG.standard_normal(4)) for _ in range(2)]
    (derivation,) = merge_linears(graph_of(TreeEnsemble(before, forest), *others))
    assert list(derivation.replacements) == others


@pytest.mark.parametrize(
    "other",
    [
        Linear.of(X, np.ones(4, np.float32)),
        Linear.of(Affine.of(X, add=1.0), np.ones(4)),
        Linear.of(Linear.of(X, np.eye(4)), np.ones(4)),
    ],
    ids=["weights of another dtype", "no column in common", "one reads the other"],
)
def test_what_differs_stays_apart(other):
    assert not list(merge_linears(graph_of(other, Linear.of(X, np.eye(4)))))


def test_products_of_different_depth_stay_apart():
    first = Linear.of(X, np.eye(4))
    assert not list(merge_linears(graph_of(first, Linear.of(Concat((X, first)), np.ones(8)))))


ROWS = RNG.standard_normal((200, 4))
LABELS = (ROWS[:, 0] + ROWS[:, 1] > 0).astype(int) + (ROWS[:, 2] > 1)
LOGISTIC = LogisticRegression()
FITTED = {
    "bagging": BaggingClassifier(LOGISTIC, 3, random_state=0).fit(ROWS, LABELS),
    "multi-output": MultiOutputClassifier(LOGISTIC).fit(ROWS, np.stack([LABELS, ROWS[:, 3] > 0], 1)),
    "one-versus-rest": OneVsRestClassifier(LOGISTIC).fit(ROWS, LABELS),
    "stacking": StackingRegressor([("a", LinearRegression()), ("b", Ridge())], Ridge(), cv=2).fit(ROWS, LABELS),
    "voting": VotingClassifier([("a", LOGISTIC), ("b", make_pipeline(SelectKBest(k=2), LOGISTIC))], voting="soft").fit(ROWS, LABELS),
    "zeros": StackingRegressor([("a", Lasso(0.1)), ("b", Ridge())], cv=2).fit(ROWS, LABELS),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTED)
def test_wrapped_models_merge_within_the_tolerance(name):
    graph = simplify(parse(FITTED[name]), RULES)
    after = merged(graph)
    assert len(products(after)) < len(products(graph))
    before = answers(graph, ROWS)
    for output, values in answers(after, ROWS).items():
        np.testing.assert_allclose(values, before[output], rtol=1e-13, atol=1e-13)
