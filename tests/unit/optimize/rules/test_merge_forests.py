"""Forests of one input become one, with the bits of each output; others stay apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from forests import forests, hostile_rows, random_forest, with_random_slopes
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    BaggingRegressor,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Columns,
    Concat,
    Graph,
    Node,
    Output,
    Schema,
    Select,
    TreeEnsemble,
    TreeLeaves,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize.late_rewrites import narrow_to
from hbconv.optimize.rule import Declined, Derivation
from hbconv.optimize.rules.merge_forests import merge_forests
from hbconv.parse import parse
from hbconv.target import Target
from hbconv.trees.forest import keep_trees

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(5)
X = Columns.of(SCHEMA)


def graph_of(*nodes: Node, schema: Schema = SCHEMA) -> Graph:
    return verify_graph(Graph(schema, {f"f{i}": Output(node) for i, node in enumerate(nodes)}))


def ensemble(x: Node = X, **options: Any) -> TreeEnsemble:
    return TreeEnsemble(x, random_forest(RNG, n_features=x.type.width, **options))


def pick(x: Node, *columns: int) -> Select:
    return Select(x, Array.of(columns, "int32"))


def merged(graph: Graph) -> Graph:
    """Apply all derivations, of which there must be one."""
    (derivation,) = (d for d in merge_forests(graph) if isinstance(d, Derivation))
    return verify_graph(derivation.apply(graph))


def forests_in(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes() if isinstance(n, TreeEnsemble | TreeLeaves)]


def answers(graph: Graph, rows: npt.NDArray[Any]) -> dict[str, bytes]:
    with np.errstate(all="ignore"):
        return {
            name: value.tobytes()
            for name, value in evaluate(lower(graph).program, {"x": rows}).items()
        }


def assert_same_bits(before: Graph, after: Graph, rows: npt.NDArray[Any]) -> None:
    assert len(forests_in(after)) < len(forests_in(before))
    assert answers(before, rows) == answers(after, rows)


@settings(max_examples=60, deadline=None)
@given(st.lists(forests(max_trees=3, max_depth=4), min_size=2, max_size=4), st.data())
def test_random_forests_merge_with_the_same_bits(members, data):
    """Forests of any comparison, threshold dtype, category sets and number of outputs."""
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    kind = data.draw(st.sampled_from([TreeEnsemble, TreeLeaves]))
    schema = SCHEMA.with_dtypes((dtype,) * 5)
    nodes = [kind(pick(Columns.of(schema), *range(f.n_features)), f) for f in members]
    graph = graph_of(*nodes, schema=schema)
    rng = np.random.default_rng(0)
    rows = np.zeros((40, 5), dtype)
    for forest in members:
        hostile = hostile_rows(rng, forest, dtype, 40)
        rows[:, : forest.n_features] = np.where(
            rng.random() < 0.5, hostile, rows[:, : forest.n_features]
        )
    if any(forest.tables for forest in members):
        rows = np.where(np.isfinite(rows) & (rows >= 0), np.minimum(np.floor(rows), 50), 3).astype(
            dtype
        )
    after = graph
    for derivation in merge_forests(graph):
        if isinstance(derivation, Derivation):
            after = derivation.apply(after)
    assert answers(graph, rows) == answers(verify_graph(after), rows)


def test_forests_of_vectors_without_trees_stay_apart():
    one = ensemble(n_trees=1, n_outputs=2, vector=True)
    none = keep_trees(one.forest, np.zeros(0, np.int64))
    shifted = replace(none, start=Array([1.0, 2.0]))
    graph = graph_of(one, TreeEnsemble(X, none), TreeEnsemble(X, shifted))
    assert all(isinstance(found, Declined) for found in merge_forests(graph))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strict_and_other_comparisons_become_one(dtype):
    schema = SCHEMA.with_dtypes((dtype,) * 5)
    x = Columns.of(schema)
    nodes = [
        ensemble(x, strict=i % 2 == 0, awkward=0.8, dtype=d)
        for i, d in enumerate(("float32", "float64", "float64"))
    ]
    graph = graph_of(*nodes, schema=schema)
    for node in nodes:
        assert_same_bits(graph, merged(graph), hostile_rows(RNG, node.forest, dtype, 300))


def test_columns_are_put_side_by_side_once():
    scaled = Affine.of(X, sub=np.arange(5.0), div=np.arange(1.0, 6.0))
    few = Affine.of(pick(X, 4, 1), sub=[4.0, 1.0], div=[5.0, 2.0])
    graph = graph_of(ensemble(few), ensemble(scaled), ensemble(Concat((pick(X, 3), few))))
    after = merged(graph)
    (forest,) = forests_in(after)
    assert forest.inputs[0] == Concat((scaled, pick(Concat((pick(X, 3), few)), 0)))
    assert_same_bits(graph, after, RNG.standard_normal((200, 5)))


def test_columns_of_the_input_are_read_in_their_order():
    graph = graph_of(ensemble(pick(X, 3, 1)), ensemble(pick(X, 1, 0)))
    columns = [Columns(SCHEMA, Array.of(c, "int32")) for c in ([3, 1], [1, 0])]
    graph = graph_of(*(ensemble(x) for x in columns))
    after = merged(graph)
    assert forests_in(after)[0].inputs[0] == Columns(SCHEMA, Array.of([0, 1, 3], "int32"))
    assert_same_bits(graph, after, RNG.standard_normal((200, 5)))


def test_a_column_of_numbers_and_of_categories_is_two_columns():
    """A kernel may count on a column having tests of one kind alone."""
    graph = graph_of(ensemble(n_categorical=2), ensemble(n_trees=9))
    after = merged(graph)
    assert forests_in(after)[0].inputs[0].type.width == 7
    assert_same_bits(graph, after, RNG.integers(0, 50, (200, 5)).astype(np.float64))


@pytest.mark.parametrize(
    "other",
    [
        ensemble(accumulate="float32"),
        ensemble(Affine.of(X, add=1.0)),
        TreeLeaves(X, random_forest(RNG, n_features=5)),
    ],
    ids=["sums of another dtype", "no column in common", "leaves"],
)
def test_what_differs_stays_apart(other):
    assert not list(merge_forests(graph_of(ensemble(), other)))


def test_a_forest_that_reads_another_s_scores_stays_apart():
    first = ensemble()
    second = ensemble(Concat((X, first)))
    assert not list(merge_forests(graph_of(first, second)))


@pytest.mark.parametrize("accumulate", ["float32", "float64"])
def test_single_trees_of_vector_leaves_look_their_sums_up(accumulate):
    options = {"n_trees": 1, "n_outputs": 3, "vector": True, "accumulate": accumulate}
    graph = graph_of(*(ensemble(**options) for _ in range(4)))
    after = merged(graph)
    (leaves,) = forests_in(after)
    assert isinstance(leaves, TreeLeaves)
    assert_same_bits(graph, after, hostile_rows(RNG, leaves.forest, n=300))
    alone = narrow_to(after, ("f1",), Target())
    assert [n.forest.n_trees for n in forests_in(alone)] == [1]
    rows = hostile_rows(RNG, leaves.forest, n=300)
    assert answers(alone, rows) == answers(graph.only("f1"), rows)


def test_forests_of_several_trees_of_vector_leaves_are_declined():
    graph = graph_of(*(ensemble(n_outputs=2, vector=True) for _ in range(2)))
    reasons = [d.reason for d in merge_forests(graph) if isinstance(d, Declined)]
    assert reasons == ["its leaves are vectors, and it has 5 trees"] * 2


def test_linear_leaves_are_declined():
    linear = [
        TreeEnsemble(X, with_random_slopes(random_forest(RNG, n_features=5), RNG)) for _ in "ab"
    ]
    found = list(merge_forests(graph_of(*linear, ensemble(), ensemble())))
    assert [d.reason for d in found if isinstance(d, Declined)] == [
        "its leaves are linear models"
    ] * 2
    (derivation,) = (d for d in found if isinstance(d, Derivation))
    assert len(derivation.replacements) == 2


FEATURES, LABELS = make_classification(
    300, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=0
)
BOOSTED = LGBMClassifier(n_estimators=4, num_leaves=6, verbose=-1)
REGRESSOR = LGBMRegressor(n_estimators=4, num_leaves=6, verbose=-1)
GROWN = RandomForestRegressor(4, max_depth=4, random_state=0)
FITTED = {
    "calibrated": CalibratedClassifierCV(BOOSTED, cv=3).fit(FEATURES, LABELS),
    "scaled": make_pipeline(StandardScaler(), CalibratedClassifierCV(BOOSTED, cv=3)).fit(FEATURES, LABELS),
    "one-versus-rest": OneVsRestClassifier(BOOSTED).fit(FEATURES, LABELS),
    "multi-output": MultiOutputClassifier(BOOSTED).fit(FEATURES, np.stack([LABELS, FEATURES[:, 0] > 0], 1)),
    "multi-regressor": MultiOutputRegressor(GROWN).fit(FEATURES, FEATURES[:, :3] + LABELS[:, None]),
    "bagging": BaggingRegressor(REGRESSOR, 3, random_state=0).fit(FEATURES, LABELS),
    "trees of several outputs": MultiOutputClassifier(DecisionTreeClassifier(max_depth=5)).fit(FEATURES, np.stack([LABELS, 2 - LABELS], 1)),
    "voting": VotingRegressor([("a", REGRESSOR), ("b", GROWN), ("c", RandomForestRegressor(3, random_state=1))]).fit(FEATURES, LABELS),
    "stacking": StackingClassifier([("a", BOOSTED), ("b", LGBMClassifier(n_estimators=3, verbose=-1))], LogisticRegression(), cv=2).fit(FEATURES, LABELS),
    "embeddings": make_union(*(RandomTreesEmbedding(3, max_depth=3, random_state=i) for i in range(3))).fit(FEATURES),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTED)
def test_wrapped_models_merge_with_the_same_bits(name):
    """Rows on thresholds and beside them, each output of each method."""
    graph = parse(FITTED[name])
    after = merged(graph)
    rows = np.concatenate([FEATURES, hostile_rows(RNG, forests_in(after)[0].forest, n=300)[:, :5]])
    rows = np.where(np.isfinite(rows), rows, 0.5)
    rows = np.clip(rows, -1e30, 1e30)
    assert_same_bits(graph, after, rows)


def test_forests_that_number_the_same_leaves_otherwise_stay_apart():
    """As apply and decision_path: merged they would hold each tree twice."""
    rows, target = make_classification(random_state=0)
    graph = parse(RandomForestRegressor(3, max_depth=3, random_state=0).fit(rows, target))
    leaves = [node for node in graph.nodes() if isinstance(node, TreeLeaves)]
    assert len(leaves) == 2
    (declined,) = [found for found in merge_forests(graph) if isinstance(found, Declined)]
    assert declined.reason == "its trees are another's"
