"""Plans of other numbers of rows: which buckets get one, and which do not."""

import dataclasses

import numpy as np
import pytest
from forests import random_forest

from hbconv.array import Array
from hbconv.backends.reference import Reference
from hbconv.containers import Affine, Columns, Graph, Output, Schema, TreeEnsemble
from hbconv.cost_model.tuning_record import BUCKETS, find_bucket
from hbconv.optimize.plan import LEAST_GAIN, Plan, make_plan, plan_rows
from hbconv.target import Target


class Planning(Reference):
    """A backend without kernels of its own, whose plans differ by rows."""

    plans_by_rows = True

    def native_trees(self, target):
        return frozenset()


def graph_of(*forests, add=None):
    schema = Schema.matrix(4, "float32")
    x = Columns.of(schema)
    x = x if add is None else Affine.of(x, add=add)
    nodes = {f"predict{i}": Output(TreeEnsemble(x, f)) for i, f in enumerate(forests)}
    return Graph(schema, nodes)


def forest(seed=0):
    return random_forest(np.random.default_rng(seed), n_trees=20)


def priced(monkeypatch, seconds):
    """Let the strategies cost so much, by number of rows and name."""

    def plan(graph, target, backend):
        costs = seconds[target.rows]
        chosen = min(costs, key=costs.get)
        made = make_plan(graph, target, backend)
        choices = [
            (f, dataclasses.replace(c, strategy=chosen, costs=costs)) for f, c in made.choices
        ]
        return Plan(tuple(choices))

    monkeypatch.setattr("hbconv.optimize.plan.make_plan", plan)
    return plan


def test_buckets_cover_all_numbers_of_rows_once():
    assert [sum(rows in b for b in BUCKETS) for rows in (1, 2, 16, 17, 1000, 1001, 10**7)] == [
        1
    ] * 7
    assert all(bucket.typical in bucket for bucket in BUCKETS)
    assert [find_bucket(b.least) for b in BUCKETS] == list(BUCKETS)


def test_a_bucket_has_a_plan_where_the_fitted_one_is_clearly_slower(monkeypatch):
    many = {"select": 9.0, "tree_traversal": 1.0, "gemm": 8.0}
    few = {"select": 1.0, "tree_traversal": 3.0, "gemm": 2.0}
    near = {"select": 1.0, "tree_traversal": 0.99 * LEAST_GAIN, "gemm": 2.0}
    plan = priced(monkeypatch, {1: few, 8: near, 256: many, 10_000: many})
    graph, target = graph_of(forest()), Target("torch")
    fitted = plan(graph, target, Planning())
    (found,) = plan_rows(graph, target, Planning(), fitted)
    assert (str(found.bucket), found.plan.strategies, found.gain) == ("1 row", ("select",), 3.0)
    assert "Calls of 1 row have a program of their own, predicted to be 3.0 times" in str(found)
    assert found.to_dict()["rows"] == [1, 1]


def test_the_bucket_of_the_target_keeps_its_plan(monkeypatch):
    few = {"select": 1.0, "tree_traversal": 3.0, "gemm": 2.0}
    many = {"select": 9.0, "tree_traversal": 1.0, "gemm": 8.0}
    plan = priced(monkeypatch, {1: few, 5: few, 8: many, 256: many, 10_000: many})
    graph, target = graph_of(forest()), Target("torch", rows=5)
    found = plan_rows(graph, target, Planning(), plan(graph, target, Planning()))
    assert [str(row_plan.bucket) for row_plan in found] == [
        "17 to 1,000 rows",
        "more than 1,000 rows",
    ]


@pytest.mark.parametrize(
    ("target", "backend"), [(Target("torch", strategy="gemm"), Planning()), (Target(), Reference())]
)
def test_there_is_one_plan_where_strategies_are_forced_or_alike(monkeypatch, target, backend):
    few = {"select": 1.0, "tree_traversal": 3.0, "gemm": 9.0}
    plan = priced(monkeypatch, dict.fromkeys((1, 8, 256, 10_000), few))
    graph = graph_of(forest())
    forced = make_plan(graph, Target("torch", strategy="gemm"), Planning())
    assert plan(graph, Target("torch"), Planning()).strategies == ("select",)
    assert plan_rows(graph, target, backend, forced) == ()


def test_no_trees_no_other_plans():
    schema = Schema.matrix(4, "float32")
    graph = Graph(schema, {"transform": Output(Columns.of(schema))})
    assert plan_rows(graph, Target("torch"), Planning(), Plan()) == ()


def test_large_constants_are_not_held_twice(monkeypatch):
    few = {"select": 1.0, "tree_traversal": 3.0, "gemm": 2.0}
    many = {"select": 9.0, "tree_traversal": 1.0, "gemm": 8.0}
    plan = priced(monkeypatch, {1: few, 8: many, 256: many, 10_000: many})
    graph, target = graph_of(forest(), add=Array(np.ones(4))), Target("torch")
    fitted = plan(graph, target, Planning())
    assert len(plan_rows(graph, target, Planning(), fitted)) == 1
    monkeypatch.setattr("hbconv.optimize.plan.MOST_CONSTANT_BYTES", 8)
    assert plan_rows(graph, target, Planning(), fitted) == ()
