"""The heap and the sort move equal values exactly as scikit-learn's do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors._kd_tree import NeighborsHeap64
from sklearn.utils._sorting import _py_simultaneous_sort

from hbconv.tensor.primitives.searches import Heap, sort_pairs


def values(kind: str, size: int) -> np.ndarray:
    r = np.random.default_rng(size)
    return {
        "few": r.integers(0, 3, size),
        "some": r.integers(0, 1 + size // 4, size),
        "falling": np.arange(size, 0, -1) // 2,
        "against medians": against_medians(size),
    }[kind].astype(float)


def against_medians(size: int) -> np.ndarray:
    """Values whose medians of three are always among the smallest, so that heapsort takes over."""
    half = size // 2
    low = np.arange(half)
    return np.concatenate([np.where(low % 2, half + low, low), 2 * low, np.full(size % 2, size)])


KINDS = ["few", "some", "falling", "against medians"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 100, 1000])
def test_the_heap_drops_what_scikit_learn_drops(kind, size):
    offered = values(kind, size)
    for count in {1, 2, min(5, size), min(40, size), size}:
        theirs, ours = NeighborsHeap64(1, count), Heap(count)
        for number, value in enumerate(offered):
            theirs.push(0, value, number)
        ours.offer(offered, np.arange(size))
        held, numbers = theirs.get_arrays(sort=False)
        assert (ours.values, ours.numbers) == (held[0].tolist(), numbers[0].tolist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 100, 1000])
def test_the_sort_leaves_equal_values_as_scikit_learn_does(kind, size):
    given = values(kind, size)
    held, numbers = given.copy(), np.arange(size)
    _py_simultaneous_sort(held, numbers, size, use_three_way_partition=False)
    assert sort_pairs(given.tolist(), list(range(size))) == numbers.tolist()
