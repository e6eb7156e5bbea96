"""A forest becomes narrower exactly where selections alone read it, with the same bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from forests import hostile_rows, random_forest, with_random_slopes
from sklearn.ensemble import (
    ExtraTreesClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Columns,
    Concat,
    Graph,
    LeafSums,
    Map,
    Node,
    Output,
    Schema,
    Select,
    Together,
    TreeEnsemble,
    TreeLeaves,
    verify_graph,
)
from hbconv.lower import lower
from hbconv.optimize import RULES, optimize
from hbconv.optimize.late_rewrites import narrow_to
from hbconv.optimize.rule import Declined, Derivation, simplify
from hbconv.optimize.rules.narrow_forests import narrow_forests
from hbconv.parse import parse
from hbconv.target import Target
from hbconv.trees.forest import Forest

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)
SCALAR = random_forest(RNG, n_trees=9, n_outputs=3, n_categorical=1)
VECTOR = random_forest(RNG, n_trees=5, n_outputs=3, vector=True)
LINEAR = with_random_slopes(random_forest(RNG, n_trees=6, n_outputs=3), RNG)
KINDS = {"scalar": SCALAR, "vector": VECTOR, "linear": LINEAR}


def pick(x: Node, *columns: int) -> Select:
    return Select(x, Array.of(columns, "int32"))


def graph_of(*nodes: Node) -> Graph:
    outputs = {name: Output(node) for name, node in zip("abc", nodes, strict=False)}
    return verify_graph(Graph(SCHEMA, outputs))


def narrowed(graph: Graph) -> Graph:
    """Apply what the rule derives, which is at least one."""
    found = [found for found in narrow_forests(graph) if isinstance(found, Derivation)]
    assert found
    for derivation in found:
        graph = derivation.apply(graph)
    return verify_graph(graph)


def forests_of(graph: Graph) -> list[Forest]:
    return [n.forest for n in graph.nodes() if isinstance(n, TreeEnsemble | TreeLeaves)]


def run(graph: Graph, rows: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[np.generic]]:
    lowered = lower(graph)
    feeds = {feed.name: rows[:, list(feed.columns)] for feed in lowered.feeds}
    with np.errstate(all="ignore"):
        return evaluate(lowered.program, feeds)


def check_bits(before: Graph, after: Graph, forest: Forest) -> None:
    rows = hostile_rows(np.random.default_rng(1), forest)
    expected = run(before, rows)
    for name, found in run(after, rows).items():
        assert found.dtype == expected[name].dtype
        assert found.tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("forest", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("columns", [(0,), (2,), (2, 0), (1, 1), (0, 2, 0)], ids=str)
def test_the_columns_left_have_the_same_bits(forest: Forest, columns: tuple[int, ...]) -> None:
    before = graph_of(pick(TreeEnsemble(X, forest), *columns))
    after = narrowed(before)
    assert forests_of(after)[0].n_outputs == len(set(columns))
    check_bits(before, after, forest)


def test_only_the_trees_of_the_output_are_left() -> None:
    after = narrowed(graph_of(pick(TreeEnsemble(X, SCALAR), 1)))
    assert after.output_roots[0].name == "tree_ensemble"  # nothing is left to select
    assert forests_of(after)[0].n_trees == 3


def test_readers_share_one_narrower_forest() -> None:
    wide = TreeEnsemble(X, VECTOR)
    before = graph_of(Map(pick(wide, 2), "exp"), pick(wide, 0), Concat((pick(wide, 2, 0), X)))
    after = narrowed(before)
    assert [forest.n_outputs for forest in forests_of(after)] == [2]
    check_bits(before, after, VECTOR)


@pytest.mark.parametrize("forest", KINDS.values(), ids=KINDS)
def test_leaves_of_fewer_trees_keep_their_names(forest: Forest) -> None:
    before = graph_of(pick(TreeLeaves(X, forest), 3, 1))
    after = narrowed(before)
    assert forests_of(after)[0].n_trees == 2
    check_bits(before, after, forest)


def test_leaves_keep_the_numbers_that_tables_are_read_at() -> None:
    forest = SCALAR.with_numbered_leaves()
    leaves = pick(TreeLeaves(X, forest), 1, 4)
    sums = LeafSums(leaves, forest.values, pick(X, 0))
    before = graph_of(Affine.of(sums, mul=2.0))
    check_bits(before, narrowed(before), SCALAR)


def test_a_forest_that_is_read_whole_elsewhere_stays() -> None:
    wide = TreeEnsemble(X, VECTOR)
    for graph in (graph_of(pick(wide, 0), wide), graph_of(pick(wide, 0), Map(wide, "exp"))):
        assert list(narrow_forests(graph)) == [
            Declined("narrow_forests", wide, "all 3 columns are read elsewhere too")
        ]


def test_a_forest_whose_columns_are_all_read_stays() -> None:
    wide = TreeEnsemble(X, VECTOR)
    assert list(narrow_forests(graph_of(pick(wide, 2, 1), pick(wide, 0)))) == []
    assert list(narrow_forests(graph_of(wide))) == []


def test_a_forest_computed_at_once_stays() -> None:
    assert list(narrow_forests(graph_of(pick(Together(TreeEnsemble(X, VECTOR)), 0)))) == []


def test_a_stack_of_forests_reads_one_class_of_each() -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4))
    members = [
        ("a", RandomForestClassifier(4, max_depth=4, random_state=0)),
        ("b", ExtraTreesClassifier(4, max_depth=4, random_state=0)),
    ]
    source = StackingClassifier(members, LogisticRegression(), cv=2)
    source.fit(rows, rows[:, 0] > rows[:, 1])
    parsed = parse(source).for_rows(sparse=False).only("predict_proba")
    before = simplify(parsed, RULES)
    after = optimize(parsed, Target(without=("merge_forests",))).graph
    assert [forest.values.shape[1] for forest in forests_of(before)] == [2, 2]
    assert [forest.values.shape[1] for forest in forests_of(after)] == [1, 1]
    answer = run(after, rows)["predict_proba"]
    np.testing.assert_array_equal(answer, run(before, rows)["predict_proba"])
    np.testing.assert_allclose(answer, source.predict_proba(rows), rtol=1e-12)


@pytest.mark.parametrize(("without", "width"), [((), 1), (("narrow_forests",), 3)])
def test_a_method_alone_reads_a_narrower_forest(without: tuple[str, ...], width: int) -> None:
    wide = TreeEnsemble(X, VECTOR)
    graph = graph_of(pick(wide, 0), wide)
    narrow = narrow_to(graph, ("a",), Target(without=without))
    assert [forest.n_outputs for forest in forests_of(narrow)] == [width]
    check_bits(graph.only("a"), narrow, VECTOR)


def test_trees_whose_leaves_nobody_weighs_vanish() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 4))
    model = LogisticRegression(C=0.2, l1_ratio=1.0, solver="liblinear")
    source = make_pipeline(RandomTreesEmbedding(8, max_depth=2, random_state=0), model)
    source.fit(rows, rows[:, 0] > 0)
    parsed = parse(source).for_rows(sparse=False).only("decision_function")
    before = simplify(parsed, RULES)
    after = optimize(parsed).graph
    assert forests_of(after)[0].n_trees < forests_of(before)[0].n_trees == 8
    np.testing.assert_allclose(
        run(after, rows)["decision_function"][:, 0], source.decision_function(rows), rtol=1e-12
    )
