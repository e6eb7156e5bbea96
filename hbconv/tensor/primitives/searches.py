"""Searches for the smallest entries as scikit-learn makes them, which decide among equal ones."""

from collections.abc import Iterator, Sequence

import numpy as np

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.primitives.heap import Heap, sorted_pairs
from hbconv.tensor.types import FLOATS, NumpyArray, TensorType, require

__all__: list[str] = []

Parts = tuple[tuple[int, int], ...]


def infer_heap_search(x: TensorType, k: int, parts: Parts) -> TensorType:
    """Type ``heap_search(x, k, parts)``: indices of the k smallest entries of (n_rows, width).

    A heap meets the entries in their order. Or one meets those of each part ``(start, end)``, and
    another one what theirs hold.
    """
    fits = x.rows and x.dtype in FLOATS and len(x.shape) == 1 and 0 < k <= x.shape[0]
    require(fits, f"heap_search({k}) of {x}")
    inside = all(0 <= start < end <= x.shape[0] for start, end in parts)
    require(inside, f"heap_search in {parts} of {x}")
    return TensorType("int32", (k,))


def heap_search(x: NumpyArray, k: int, parts: Parts) -> NumpyArray:
    """Search row by row."""
    return _rows([_by_parts(row, k, parts) for row in x], k)


def _by_parts(row: NumpyArray, k: int, parts: Parts) -> list[int]:
    heap = Heap(k)
    numbers = np.arange(len(row))
    if not parts:
        heap.offer(row, numbers)
    for start, end in parts:
        own = Heap(k)
        own.offer(row[start:end], numbers[start:end])
        for value, number in zip(own.values, own.numbers, strict=True):
            heap.push(value, number)
    return sorted_pairs(heap.values, heap.numbers)


def infer_tree_search(
    x: TensorType,
    bounds: TensorType,
    order: TensorType,
    starts: TensorType,
    k: int,
    prunes: bool,  # noqa: ARG001
) -> TensorType:
    """Type ``tree_search(x, bounds, order, starts, k, prunes)``: as ``heap_search``, leaf by leaf.

    Node i has the sides 2 i + 1 and 2 i + 2; ``bounds`` tell the nearer one, whose leaves are met
    first. All leaves stand on the last level; leaf i holds the entries ``order[starts[i]:starts[i +
    1]]``. If it ``prunes``, nodes whose bound is above all that the heap holds are left out.
    """
    fits = x.rows and x.dtype in FLOATS and len(x.shape) == 1 and 0 < k <= x.shape[0]
    require(fits, f"tree_search({k}) of {x}")
    leaves = starts.shape[0] - 1 if len(starts.shape) == 1 else 0
    is_tree = leaves > 0 and leaves & (leaves - 1) == 0
    require(is_tree and bounds == TensorType(x.dtype, (2 * leaves - 1,)), f"bounds {bounds}")
    ints = (
        TensorType("int32", x.shape, rows=False),
        TensorType("int32", (leaves + 1,), rows=False),
    )
    require((order, starts) == ints, f"leaves {starts} over {order}")
    return TensorType("int32", (k,))


def tree_search(
    x: NumpyArray, bounds: NumpyArray, order: NumpyArray, starts: NumpyArray, k: int, prunes: bool
) -> NumpyArray:
    """Search row by row."""
    leaves = np.split(order, starts[1:-1])
    limits = bounds.tolist()
    found = [_by_leaves(row, low, leaves, k, prunes) for row, low in zip(x, limits, strict=True)]
    return _rows(found, k)


def _by_leaves(
    row: NumpyArray, bounds: Sequence[float], leaves: Sequence[NumpyArray], k: int, prunes: bool
) -> list[int]:
    heap = Heap(k)
    for leaf in _leaves_met(bounds, heap, prunes):
        heap.offer(row[leaves[leaf]], leaves[leaf])
    return sorted_pairs(heap.values, heap.numbers)


def _leaves_met(bounds: Sequence[float], heap: Heap, prunes: bool) -> Iterator[int]:
    """Yield the leaves depth first, the nearer side first, while the heap fills."""
    inner = len(bounds) // 2
    waiting = [0]
    while waiting:
        node = waiting.pop()
        if prunes and bounds[node] > heap.values[0]:
            continue
        if node >= inner:
            yield node - inner
            continue
        sides = (2 * node + 1, 2 * node + 2)
        waiting.extend(sides[::-1] if bounds[sides[0]] <= bounds[sides[1]] else sides)


def _rows(found: list[list[int]], k: int) -> NumpyArray:
    return np.array(found, np.int32).reshape(len(found), k)


define("heap_search", infer_heap_search, heap_search, OpKind.REDUCTION)
define("tree_search", infer_tree_search, tree_search, OpKind.REDUCTION)
