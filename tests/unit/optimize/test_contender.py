"""Contenders: the predicted best first, others that are near, and nothing twice."""

import dataclasses

import numpy as np
import pytest
from forests import random_forest

from hbconv.array import Array
from hbconv.backends.reference import Reference
from hbconv.containers import Columns, Graph, Output, Schema, Select, TreeEnsemble
from hbconv.optimize import contender as module
from hbconv.optimize.contender import Problem, find_contenders, of_strategies
from hbconv.optimize.plan import Plan, make_plan
from hbconv.optimize.rule import Derivation
from hbconv.optimize.search import Decision, Optimized, Refused
from hbconv.target import Target


class Plain(Reference):
    """A backend without kernels of its own."""

    def native_trees(self, target):
        return frozenset({"select"})


def problem(*forests, backend=None):
    schema = Schema.matrix(4, "float32")
    x = Columns.of(schema)
    nodes = {f"predict{i}": Output(TreeEnsemble(x, f)) for i, f in enumerate(forests)}
    graph = Graph(schema, nodes or {"transform": Output(x)})
    target = Target("torch")
    return Problem(graph, target, backend or Plain(), Optimized(graph, Refused(), 1.0))


def forest(seed=0):
    return random_forest(np.random.default_rng(seed), n_trees=20)


@pytest.fixture
def priced(monkeypatch):
    """Let strategies cost so much, for each forest in turn."""

    def price(*costs):
        def plan(graph, target, backend):
            made = make_plan(graph, target, backend).choices
            pairs = zip(made, costs, strict=True)
            return Plan(tuple((f, _cheapest(choice, own)) for (f, choice), own in pairs))

        monkeypatch.setattr(module, "make_plan", plan)

    return price


def _cheapest(choice, costs):
    return dataclasses.replace(choice, costs=costs, strategy=min(costs, key=costs.get))


def labels(found):
    return [contender.label for contender in found]


def test_the_predicted_best_comes_first_then_the_nearest(priced):
    priced({"gemm": 3.0, "select": 2.0, "tree_traversal": 1.0, "perfect_tree_traversal": 99.0})
    found = find_contenders(problem(forest()))
    assert labels(found) == ["tree_traversal", "select", "gemm"]
    assert [contender.ratio for contender in found] == [1.0, 2.0, 3.0]
    assert [c.plan.choices[0][1].native for c in found[1:]] == [True, False]


def test_each_forest_takes_a_strategy_where_it_is_near(priced):
    priced({"select": 1.0, "gemm": 2.0}, {"select": 99.0, "gemm": 1.0})
    found = find_contenders(problem(forest(), forest(1)))
    assert labels(found) == ["1 select, 1 gemm", "gemm"]


def test_strategies_priced_alike_are_one_contender(priced):
    priced({"select": 1.0, "tree_traversal": 2.0, "perfect_tree_traversal": 2.0})
    assert labels(find_contenders(problem(forest()))) == ["select", "perfect_tree_traversal"]


def test_nothing_is_open_without_trees_and_on_one_operator():
    assert labels(find_contenders(problem())) == ["no trees"]
    assert len(find_contenders(problem(forest(), backend=Reference()))) == 1


def test_a_source_adds_contenders(priced):
    priced({"select": 1.0})

    def of_layout(given):
        (first,) = of_strategies(given)
        yield dataclasses.replace(first, label="other layout", ratio=1.5)

    found = find_contenders(problem(forest()), (of_strategies, of_layout))
    assert labels(found) == ["select", "other layout"]


def test_a_rewrite_that_was_chosen_may_be_undone(priced):
    priced({"select": 1.0})
    given = problem(forest())
    node = given.typed.nodes()[-1]
    derivation = Derivation("narrow_forests", {node: Select(node, Array([0]))}, "proof")
    chosen = dataclasses.replace(given.optimization, decisions=(Decision(derivation, True),))
    found = find_contenders(dataclasses.replace(given, optimization=chosen))
    assert labels(found) == ["select", "without narrow_forests, select"]
