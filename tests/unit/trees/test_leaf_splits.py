"""Leaf splits: trees of any shape halved by their leaves."""

from __future__ import annotations

import numpy as np
import pytest
from shaped_forests import grown

from hbconv.trees.leaf_splits import split_leaves

SHAPES = [
    ("chain", 31),
    ("chain", 256),
    ("random", 5),
    ("random", 31),
    ("random", 200),
    ("balanced", 8),
    ("balanced", 256),
    ("balanced", 2),
    ("random", 1),
]


@pytest.mark.parametrize(("lean", "leaves"), SHAPES)
def test_splits_tell_leaves_apart_by_as_few_bits_as_can(lean, leaves):
    forest = grown(np.random.default_rng(0), 3, leaves, lean)
    splits = split_leaves(forest)
    codes = splits.codes(forest.n_leaves).reshape(3, leaves)
    assert all(len(set(tree)) == leaves for tree in codes.tolist())
    assert codes.max() < 2 ** int(np.ceil(np.log2(leaves)))
