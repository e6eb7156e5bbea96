"""Bits of trees in preorder: the same links, and None where nodes are numbered otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from forests import chain_forest, random_forest

from hbconv.array import Array
from hbconv.trees.forest import Forest
from hbconv.trees.forest_check import check_forest
from hbconv.trees.preorder import LINKS, PARENT, find_preorder, links_of_preorder

RNG = np.random.default_rng(0)


def in_preorder(is_test) -> Forest:
    """Return a forest of such nodes."""
    tests = int(np.count_nonzero(is_test))
    forest = random_forest(RNG, n_trees=1, max_depth=1)
    links = links_of_preorder(np.array(is_test, np.bool_))
    del links[PARENT]
    trees = len(links["roots"])
    return replace(
        forest,
        **links,
        feature=Array.of(np.zeros(tests), np.int32),
        threshold=Array.of(np.zeros(tests), np.float32),
        default_left=Array.of(np.zeros(tests), np.bool_),
        values=Array.of(np.zeros((len(is_test) - tests, 1)), np.float32),
        target=Array.of(np.zeros(trees), np.int32),
        leaf_id=Array.of(np.zeros(len(is_test) - tests), np.int32),
    )


@pytest.mark.parametrize(
    "is_test",
    [
        [],
        [0],
        [0, 0, 0],
        [1, 0, 0],
        [0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0],
        [1, 0] * 70_000 + [0],
        [1] * 70_000 + [0] * 70_001,
    ],
    ids=lambda nodes: f"{len(nodes)} nodes",
)
def test_bits_come_back(is_test):
    forest = in_preorder(is_test)
    found = find_preorder(forest)
    np.testing.assert_array_equal(found, np.array(is_test, np.bool_))


@pytest.mark.parametrize("chain", [False, True])
def test_links_are_those_of_the_forest(chain):
    forest = chain_forest(300) if chain else random_forest(RNG, n_trees=20, max_depth=6)
    bits = find_preorder(forest)
    assert bits is not None
    links = links_of_preorder(bits)
    for name in LINKS:
        assert links[name] == getattr(forest, name)
    # What the bits make is a forest, so readers of files need not look at it again.
    assert check_forest(forest) is forest
    # Codes of tests count from the front, those of leaves from the end.
    place = np.concatenate([np.flatnonzero(bits), np.flatnonzero(~bits)[::-1]])
    for children in (forest.left.data, forest.right.data):
        above = links[PARENT].data[place[children]]
        np.testing.assert_array_equal(above, place[: forest.n_tests])
    assert np.count_nonzero(links[PARENT].data < 0) == forest.n_trees


def test_other_orders_have_no_bits():
    forest = in_preorder([1, 1, 0, 0, 1, 0, 0])
    swapped = replace(
        forest,
        left=Array.of([2, ~2, ~0], np.int32),
        right=Array.of([1, ~3, ~1], np.int32),
    )
    assert find_preorder(swapped) is None
    assert find_preorder(replace(forest, roots=Array.of([~0], np.int32))) is None
    assert {*LINKS, PARENT} == set(links_of_preorder(np.zeros(1, np.bool_)))


@pytest.mark.parametrize("is_test", [[1], [1, 0], [0, 1], [1, 0, 0, 1, 1, 0, 0]])
def test_nodes_that_end_within_a_tree(is_test):
    with pytest.raises(ValueError, match="end within a tree"):
        links_of_preorder(np.array(is_test, np.bool_))
