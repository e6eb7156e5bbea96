"""Searches for the smallest entries as scikit-learn makes them, which decide among equal ones.

The heap keeps the nearest rows, and the sort orders them, exchange by exchange. Both move equal
values. Which of these the heap drops, and how the sort leaves them, follows from the exchanges
alone. They are those of scikit-learn's ``utils/_heap.pyx`` and ``utils/_sorting.pyx``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, log2

import numpy as np
import numpy.typing as npt

from hbconv.tensor.primitive import OpKind, define
from hbconv.tensor.types import FLOATS, NumpyArray, TensorType, require

__all__ = ["Heap", "sort_pairs"]

Parts = tuple[tuple[int, int], ...]


def infer_heap_search(x: TensorType, k: int, parts: Parts) -> TensorType:
    """Type ``heap_search(x, k, parts)``: indices of the k smallest entries of (n_rows, width).

    A heap is offered the entries in their order. With parts ``(start, end)``, each part has a heap,
    and another heap is offered what these hold.
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
        part = Heap(k)
        part.offer(row[start:end], numbers[start:end])
        for value, number in zip(part.values, part.numbers, strict=True):
            heap.push(value, number)
    return sort_pairs(heap.values, heap.numbers)


def infer_tree_search(
    x: TensorType,
    bounds: TensorType,
    order: TensorType,
    starts: TensorType,
    k: int,
    prunes: bool,  # noqa: ARG001
) -> TensorType:
    """Type ``tree_search(x, bounds, order, starts, k, prunes)``: as ``heap_search``, leaf by leaf.

    Node i has the sides 2 i + 1 and 2 i + 2; the one with the lower bound is visited
    first. All leaves are on the last level; leaf i holds the entries ``order[starts[i]:starts[i +
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
    positions = [
        _by_leaves(row, low, leaves, k, prunes) for row, low in zip(x, limits, strict=True)
    ]
    return _rows(positions, k)


def _by_leaves(
    row: NumpyArray, bounds: Sequence[float], leaves: Sequence[NumpyArray], k: int, prunes: bool
) -> list[int]:
    heap = Heap(k)
    for leaf in _leaves_met(bounds, heap, prunes):
        heap.offer(row[leaves[leaf]], leaves[leaf])
    return sort_pairs(heap.values, heap.numbers)


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


def _rows(positions: list[list[int]], k: int) -> NumpyArray:
    return np.array(positions, np.int32).reshape(len(positions), k)


define("heap_search", infer_heap_search, heap_search, OpKind.REDUCTION)
define("tree_search", infer_tree_search, tree_search, OpKind.REDUCTION)


SHORT = 15
"""Pairs up to which the sort inserts them one by one, so that equal ones keep their order."""

BLOCK = 64
"""Values that are looked at together at least, once the heap is full."""


class Heap:
    """The smallest of many values and their numbers, the largest of these first.

    Attributes
    ----------
    values : list of float
    numbers : list of int
    """

    def __init__(self, size: int) -> None:
        self.values = [inf] * size
        self.numbers = [0] * size

    def offer(self, values: npt.NDArray[np.floating], numbers: npt.NDArray[np.integer]) -> None:
        """Push many values in their order.

        Most are not below the largest held. Those are left out by blocks, each twice as long as
        the one before.
        """
        # While the heap has free places, the first k values enter, whatever they are.
        start, size = 0, len(self.values) if self.values[0] == inf else BLOCK
        while start < len(values):
            block = values[start : start + size]
            places = (block < self.values[0]).nonzero()[0]
            if len(places):
                below = numbers[start : start + size][places].tolist()
                for value, number in zip(block[places].tolist(), below, strict=True):
                    self.push(value, number)
            start, size = start + size, max(2 * size, BLOCK)

    def push(self, value: float, number: int) -> None:
        """Put a value in the place of the largest, and let it sink below larger ones."""
        values, numbers = self.values, self.numbers
        # scikit-learn's heap_push also returns at equality, so of equal values the first ones stay.
        if value >= values[0]:
            return
        place, size = 0, len(values)
        while (child := 2 * place + 1) < size:
            # Of equal children the left one moves up, as in scikit-learn: it decides which is
            # dropped next.
            if child + 1 < size and values[child + 1] > values[child]:
                child += 1
            if value >= values[child]:
                break
            values[place], numbers[place] = values[child], numbers[child]
            place = child
        values[place], numbers[place] = value, number


def sort_pairs(values: list[float], numbers: list[int]) -> list[int]:
    """Return the numbers in the order into which scikit-learn sorts the values."""
    pairs = list(zip(values, numbers, strict=True))
    # Depth from which heapsort takes over, as in scikit-learn's _sorting.pyx.
    _introsort(pairs, 0, len(pairs), 2 * int(log2(len(pairs))))
    return [number for _, number in pairs]


Pairs = list[tuple[float, int]]


def _introsort(pairs: Pairs, start: int, end: int, depth: int) -> None:
    """Sort a part by partitions about a median of three, short parts by insertion."""
    while end - start > SHORT:
        if depth <= 0:
            _heapsort(pairs, start, end)
            return
        depth -= 1
        pivot = _partition(pairs, start, end)
        _introsort(pairs, start, pivot, depth)
        start = pivot + 1
    # Python's sort is stable, as insertion is, so equal values keep their order.
    pairs[start:end] = sorted(pairs[start:end], key=_value)


def _partition(pairs: Pairs, start: int, end: int) -> int:
    """Bring smaller values before the pivot and larger ones behind it; return its place."""
    last = end - 1
    _place_median(pairs, start, (start + (end - start) // 2), last)
    pivot = pairs[last][0]
    i, j = start + 1, end - 2
    while True:
        while i <= j and pairs[i][0] < pivot:
            i += 1
        while i <= j and pairs[j][0] > pivot:
            j -= 1
        if i >= j:
            break
        _swap(pairs, i, j)
        i, j = i + 1, j - 1
    _swap(pairs, i, last)
    return i


def _place_median(pairs: Pairs, first: int, middle: int, last: int) -> None:
    """Order three pairs: the smallest to the first place, the median to the last."""
    if pairs[first][0] > pairs[last][0]:
        _swap(pairs, first, last)
    if pairs[last][0] > pairs[middle][0]:
        _swap(pairs, last, middle)
        if pairs[first][0] > pairs[last][0]:
            _swap(pairs, first, last)


def _heapsort(pairs: Pairs, start: int, end: int) -> None:
    size = end - start
    for root in range((size - 2) // 2, -1, -1):
        _sift_down(pairs, start, root, size)
    for last in range(size - 1, 0, -1):
        _swap(pairs, start, start + last)
        _sift_down(pairs, start, 0, last)


def _sift_down(pairs: Pairs, start: int, root: int, size: int) -> None:
    """Exchange a pair with its larger child, down to where both are smaller."""
    while True:
        largest = root
        for child in (2 * root + 1, 2 * root + 2):
            if child < size and pairs[start + largest][0] < pairs[start + child][0]:
                largest = child
        if largest == root:
            return
        _swap(pairs, start + root, start + largest)
        root = largest


def _swap(pairs: Pairs, i: int, j: int) -> None:
    pairs[i], pairs[j] = pairs[j], pairs[i]


def _value(pair: tuple[float, int]) -> float:
    return pair[0]
