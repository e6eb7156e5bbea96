"""The cost of programs that no backend has seen: it adds up, grows, and knows the strategies."""

import math

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends import find_backend
from hbconv.optimize.program_cost import program_seconds, strategy_costs, strategy_refusals
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.splits import decide_tables, with_tables_as_columns
from hbconv.trees.strategy import strategies

FOREST = random_forest(np.random.default_rng(0), n_trees=20, missing="left")
BACKENDS = ("reference", "torch", "torchscript", "onnx", "tvm")


def chain(length, width=10):
    b = Builder()
    x = b.input("x", "float64", width)
    y = x
    for _ in range(length):
        y = y + x
    return b.program({"y": y})


def trees(forest=FOREST, strategy="gemm"):
    b = Builder()
    x = b.input("x", "float64", forest.n_features)
    return b.program({"y": b.op("tree_scores", x, forest=forest, strategy=strategy)})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_longer_chain_and_wider_rows_cost_more(backend):
    target = Target(backend)
    costs = [program_seconds(chain(length), target) for length in range(4)]
    assert costs == sorted(set(costs))
    assert costs[0] == 0
    assert program_seconds(chain(1, 1000), target) > costs[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_trees_cost_what_their_cheapest_strategy_does(backend):
    target = Target(backend)
    costs = strategy_costs(FOREST, target, find_backend(backend))
    assert program_seconds(trees(), target) == min(costs.values())
    assert program_seconds(trees(strategy="select"), target) == min(costs.values())


def test_a_forced_strategy_costs_its_own():
    target = Target("torch", strategy="gemm")
    costs = strategy_costs(FOREST, target, find_backend("torch"))
    assert program_seconds(trees(), target) == costs["gemm"] > min(costs.values())


def test_trees_that_no_strategy_takes_cost_infinity():
    target = Target("torch", memory=10)
    assert set(strategy_refusals(FOREST, target, find_backend("torch"))) == set(strategies())
    assert program_seconds(trees(), target) == math.inf


def test_reshaped_rows_are_free():
    b = Builder()
    program = b.program({"y": b.reshape(b.input("x", "float64", 6), 2, 3)})
    assert program_seconds(program, Target("torch")) == 0


def test_category_sets_cost_onnx_the_operators_before_its_trees():
    target = Target("onnx")
    listed = random_forest(np.random.default_rng(0), n_trees=20, n_categorical=5)
    plain = with_tables_as_columns(listed)
    b = Builder()
    x = b.input("x", "float64", listed.n_features)
    before = b.program({"x": b.concat([x, decide_tables(listed, x, b)])})
    apart = program_seconds(before, target) + program_seconds(trees(plain), target)
    assert program_seconds(before, target) > 0
    # temporaries are those of the largest operator, so a word may miss a cache more often
    assert program_seconds(trees(listed), target) == pytest.approx(apart, rel=0.1)
