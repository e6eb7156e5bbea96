"""The plan: choices, refusals, forced strategies, native kernels, and how it prints."""

import json

import numpy as np
import pytest
from forests import chain_forest, random_forest

from hbconv.backends import find_backend
from hbconv.backends.reference import Reference
from hbconv.containers import Columns, Graph, Output, Schema, TreeEnsemble, TreeLeaves
from hbconv.errors import BackendError, OptionError
from hbconv.optimize.plan import Plan, make_plan, show_plan
from hbconv.target import Target
from hbconv.trees.strategy import find_strategy, strategies


class Plain(Reference):
    """A backend without kernels of its own, or with some."""

    def __init__(self, *native):
        self.native = frozenset(native)

    def native_trees(self, target):
        return self.native


def seeded(seed=0, **shape):
    return random_forest(np.random.default_rng(seed), **shape)


def graph_of(*forests):
    schema = Schema.matrix(4, "float32")
    x = Columns.of(schema)
    outputs = {
        f"predict{i}": Output(TreeEnsemble(x, forest, step=f"step{i}"))
        for i, forest in enumerate(forests)
    }
    return Graph(schema, {**outputs, "apply": Output(TreeLeaves(x, forests[0], step="step0"))})


def strategies_in(graph):
    return [node.strategy for node in graph.nodes() if isinstance(node, TreeEnsemble | TreeLeaves)]


def test_the_cheapest_is_chosen_for_each_forest():
    graph = graph_of(seeded(n_trees=5), seeded(1, n_trees=50, max_depth=3))
    plan = make_plan(graph, Target("torch"), Plain())
    assert [choice.source for _, choice in plan.choices] == ["step0", "step1"]
    for _, choice in plan.choices:
        assert set(choice.costs) | set(choice.refusals) == set(strategies())
        assert choice.strategy == min(choice.costs, key=choice.costs.get)
        assert not choice.native
        assert not choice.forced


def test_one_forest_in_two_nodes_has_one_choice():
    graph = graph_of(seeded())
    plan = make_plan(graph, Target("torch"), Plain())
    assert len(plan.choices) == 1
    assert strategies_in(plan.apply(graph)) == [plan.choices[0][1].strategy] * 2


def test_equal_forests_are_one():
    """Forests are known by their content, so a plan fits a graph that was stored and loaded."""
    plan = make_plan(graph_of(seeded()), Target("torch", strategy="select"), Plain())
    assert strategies_in(plan.apply(graph_of(seeded()))) == ["select", "select"]


@pytest.mark.parametrize("name", sorted(strategies()))
def test_a_strategy_can_be_forced(name):
    graph = graph_of(seeded())
    plan = make_plan(graph, Target("torch", strategy=name), Plain())
    assert strategies_in(plan.apply(graph)) == [name, name]
    assert plan.choices[0][1].forced
    assert set(plan.choices[0][1].costs) == set(strategies())


def test_an_unknown_strategy_is_refused_even_without_trees():
    schema = Schema.matrix(2)
    with pytest.raises(
        OptionError, match=r"Unknown strategy 'gem'. Did you mean 'gemm'\? Known: gemm, "
    ):
        make_plan(
            Graph(schema, {"transform": Output(Columns.of(schema))}),
            Target(strategy="gem"),
            Plain(),
        )


def test_no_trees_no_choices():
    schema = Schema.matrix(2)
    graph = Graph(schema, {"transform": Output(Columns.of(schema))})
    plan = make_plan(graph, Target("torch"), Plain())
    assert plan == Plan()
    assert plan.apply(graph).output_roots == graph.output_roots
    assert show_plan(plan) == "No trees, so nothing to choose."


def test_deep_forests_are_not_padded():
    choice = make_plan(graph_of(seeded(n_trees=9, max_depth=45)), Target("torch"), Plain()).choices[
        0
    ][1]
    assert (
        choice.refusals["perfect_tree_traversal"]
        == "9 trees padded to depth 45 have 9 * 2**45 leaves, more than int32 can number"
    )
    assert choice.strategy in choice.costs


def test_refusals_hold_the_numbers():
    forest = seeded(n_trees=9, max_depth=20)
    refused = find_strategy("perfect_tree_traversal").check(forest, Target(memory=50_000_000))
    assert refused.reason == "needs 151.0 MB for trees padded to depth 20, allowed 50.0 MB"
    wide = seeded(n_trees=400, max_depth=6)
    assert (
        find_strategy("gemm")
        .check(wide, Target(memory=6_000_000))
        .reason.startswith("needs 6.9 MB for its path matrices, allowed 6.0 MB")
    )
    reason = find_strategy("gemm").check(wide, Target(memory=8_000_000)).reason
    assert reason.startswith("needs ")
    assert reason.endswith("rows, allowed 8.0 MB")


def test_a_forced_strategy_that_is_refused_says_why_and_what_else():
    target = Target("torch", strategy="perfect_tree_traversal", memory=50_000_000)
    message = "Strategy 'perfect_tree_traversal' cannot be used for the trees of step 'step0': it needs 151.0 MB for trees padded .*Leave strategy out to take "
    with pytest.raises(BackendError, match=message):
        make_plan(graph_of(seeded(n_trees=9, max_depth=20)), target, Plain())


def test_when_all_refuse_all_reasons_are_told():
    with pytest.raises(
        BackendError,
        match=r"No strategy can be used .* gemm needs .*; tree_traversal needs .* Allow more with memory=",
    ) as error:
        make_plan(graph_of(seeded(n_trees=50)), Target("torch", memory=1000), Plain())
    assert all(name in str(error.value) for name in strategies())


def test_native_kernels_are_priced_as_such_and_never_refused():
    forest = seeded(n_trees=50)
    choice = make_plan(graph_of(forest), Target("torch", memory=1000), Plain("select")).choices[0][
        1
    ]
    assert choice.strategy == "select"
    assert choice.native
    assert "select" not in choice.refusals


def test_a_backend_whose_trees_are_one_operator_has_one_choice():
    choice = make_plan(graph_of(seeded(n_trees=50)), Target(memory=1000), Reference()).choices[0][1]
    assert choice.native
    assert list(choice.costs) == [choice.strategy]
    assert (
        make_plan(graph_of(seeded()), Target(strategy="gemm"), Reference()).choices[0][1].strategy
        == "gemm"
    )


def test_more_rows_cost_more():
    forest = seeded(n_trees=20)
    for name in strategies():
        costs = [
            make_plan(graph_of(forest), Target("torch", rows=rows), Plain())
            .choices[0][1]
            .costs[name]
            for rows in (1, 100, 10_000)
        ]
        assert costs == sorted(costs)
        assert costs[0] > 0


@pytest.mark.parametrize("rows", [1, 100, 10_000])
@pytest.mark.parametrize("length", [20, 40, 3_000])
def test_tables_are_a_small_multiple_of_the_nodes(rows, length):
    """Trees are padded neither to perfect ones nor to all paths where that is mostly padding."""
    forest = chain_forest(length)
    target = Target("torch", rows=rows)
    for backend in (Plain(), find_backend("torch"), find_backend("tvm")):
        choice = make_plan(graph_of(forest), target, backend).choices[0][1]
        assert choice.table_bytes <= 16 << 20
        if length == 3_000:
            assert "times as much as the nodes" in choice.refusals["gemm"]


def test_a_named_strategy_may_pad_within_the_memory():
    target = Target("torch", strategy="perfect_tree_traversal")
    choice = make_plan(graph_of(chain_forest(22)), target, Plain()).choices[0][1]
    assert choice.table_bytes > 16 << 20
    assert f"{choice.table_bytes / 1e6:,.0f} MB of tables" in str(choice)


def test_prints_as_text_and_as_json():
    plan = make_plan(graph_of(seeded(n_trees=9, max_depth=45)), Target("torch"), Plain())
    forest, choice = plan.choices[0]
    text = show_plan(plan)
    assert (
        text.splitlines()[0]
        == f"step0: 9 trees, {forest.n_tests} tests, depth 45 -> {choice.strategy} (the cheapest)"
    )
    assert "perfect_tree_traversal      refused: 9 trees padded" in text
    entry = json.loads(json.dumps(plan.to_dict()))[0]
    assert (entry["source"], entry["trees"], entry["depth"], entry["strategy"]) == (
        "step0",
        9,
        45,
        choice.strategy,
    )
    assert entry["costs"] == choice.costs
