"""Deep forests: programs in proportion to the nodes, whatever the strategy that accepts them,
and a conversion that ends.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from fitted import available_backends

import hbconv
from hbconv.array import Array
from hbconv.containers import Columns, Graph, Output, Schema, TreeEnsemble
from hbconv.errors import BackendError
from hbconv.parse.common.node_tables import FlatTrees, assemble
from hbconv.target import Target
from hbconv.tensor import Builder, Constant
from hbconv.trees.strategy import lower_trees, strategies

DEPTH = 30


def lopsided_forest(n_trees, bushy):
    """Trees of depth 30 whose levels below the fourth hold ``bushy`` tests each: what noise
    makes of a random forest.
    """
    widths = [min(2**level, bushy) for level in range(DEPTH)]
    rng = np.random.default_rng(0)
    tests, leaves, left, right = 0, 0, [], []
    for width, below in zip(widths, [*widths[1:], 0], strict=True):
        first_below = tests + width
        children = np.concatenate(
            [first_below + np.arange(below), ~(leaves + np.arange(2 * width - below))]
        )
        children = rng.permutation(children)
        left.append(children[:width])
        right.append(children[width:])
        tests, leaves = first_below, leaves + 2 * width - below
    own = [np.concatenate(side) for side in (left, right)]
    joined = [
        np.concatenate(
            [np.where(side >= 0, side + t * tests, side - t * leaves) for t in range(n_trees)]
        )
        for side in own
    ]
    count = n_trees * tests
    flat = FlatTrees(
        rng.integers(0, 8, count),
        rng.normal(size=count),
        np.zeros(count, bool),
        *joined,
        np.arange(n_trees) * tests,
        rng.normal(size=(n_trees * leaves, 1)),
        np.tile(np.arange(leaves), n_trees),
    )
    return assemble(flat, np.zeros(1), strict=False, n_features=8)


def constant_bytes(forest, strategy):
    """Bytes of the constants of the leaves' program."""
    b = Builder()
    program = b.program(
        {
            "leaves": b.op(
                "tree_leaves", b.input("x", "float64", 8), forest=forest, strategy=strategy
            )
        }
    )
    return sum(
        i.value.data.nbytes
        for i in lower_trees(program, frozenset()).instructions
        if isinstance(i, Constant)
    )


@cache
def large():
    """100 trees of some 2,700 tests each."""
    return lopsided_forest(100, 100)


@pytest.mark.parametrize("strategy", sorted(strategies()))
def test_tables_are_in_proportion_to_the_nodes(strategy):
    forest = large()
    assert forest.depth == DEPTH
    refusal = strategies()[strategy].check(forest, Target("torch"))
    assert bool(refusal) == (strategy in ("gemm", "perfect_tree_traversal"))
    if not refusal:
        assert constant_bytes(forest, strategy) <= 64 * (forest.n_tests + forest.n_leaves)


@pytest.mark.parametrize("backend", available_backends())
def test_they_are_exact(backend):
    forest = lopsided_forest(5, 300)
    schema = Schema.matrix(8)
    model = hbconv.convert(
        Graph(schema, {"predict": Output(TreeEnsemble(Columns.of(schema), forest))}),
        backend=backend,
    )
    x = np.random.default_rng(1).normal(size=(70, 8))
    np.testing.assert_array_equal(model.predict(x), forest.scores(x))


@pytest.mark.parametrize("strategy", ["gemm", "perfect_tree_traversal"])
def test_a_strategy_that_would_need_more_is_refused(strategy):
    schema = Schema.matrix(8)
    graph = Graph(schema, {"predict": Output(TreeEnsemble(Columns.of(schema), large()))})
    with pytest.raises(
        BackendError, match=f"Strategy '{strategy}' cannot be used.*Leave strategy out to take"
    ):
        hbconv.convert(graph, backend="torch", strategy=strategy)


def test_a_tree_that_is_a_list_is_exact():
    """One test below the other, 2,000 deep."""
    depth = 2000
    left = np.append(np.arange(1, depth), ~0)
    flat = FlatTrees(
        np.zeros(depth, int),
        np.arange(depth, 0, -1.0),
        np.zeros(depth, bool),
        left,
        ~np.arange(1, depth + 1),
        np.zeros(1, int),
        np.arange(depth + 1.0)[:, None],
        np.arange(depth + 1),
    )
    forest = assemble(flat, np.zeros(1), strict=False, n_features=1)
    x = np.array([[0.0], [1.0], [1.5], [1000.0], [1999.5], [2000.0], [3000.0], [np.nan]])
    schema = Schema.matrix(1)
    model = hbconv.convert(
        Graph(schema, {"predict": Output(TreeEnsemble(Columns.of(schema), forest))}), backend="tvm"
    )
    np.testing.assert_array_equal(model.predict(x), forest.scores(x))
    assert Array(forest.leaves(x)).shape == (8, 1)
