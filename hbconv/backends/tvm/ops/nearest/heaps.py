"""Emit ``heap_search`` and ``tree_search``: scikit-learn's heap and sort, exchange by exchange.

``hbconv.tensor.primitives.searches`` defines the order of equal values; these are the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.nearest.best_lists import NARROW, holds
from hbconv.backends.tvm.tir.kernel import Kernel, lanes, literal
from hbconv.backends.tvm.tir.memory import Place
from hbconv.tensor.primitives.searches import SHORT

__all__ = ["EMITTERS"]

select = tirx.Select


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Values of each row of the tile with their numbers: a heap, then a list that is sorted."""

    k: Kernel
    values: Place
    numbers: Place

    @property
    def count(self) -> int:
        return self.values.shape[0]

    def value(self, place: Any, row: Any) -> Any:
        """Read a value."""
        return self.k.load(self.values, (place,), row)

    def put(self, place: Any, row: Any, value: Any, number: Any) -> None:
        """Write a pair."""
        self.k.store(self.values, (place,), row, value)
        self.k.store(self.numbers, (place,), row, number)

    def copy(self, source: Any, place: Any, row: Any) -> None:
        """Write a pair over another."""
        number = self.k.load(self.numbers, (source,), row)
        self.put(place, row, self.value(source, row), number)

    def exchange(self, a: Any, b: Any, row: Any) -> None:
        """Exchange two pairs."""
        k = self.k
        held = [
            k.variable(place.dtype, k.load(place, (a,), row))
            for place in (self.values, self.numbers)
        ]
        self.copy(b, a, row)
        self.put(b, row, *(each.get() for each in held))

    # A heap, the largest value first.

    def clear(self) -> None:
        """Hold infinities."""
        k = self.k
        with k.over((self.count,)) as (slot,), k.vectors(NARROW) as row:
            many = lanes(row)
            self.put(slot, row, literal(inf, self.values.dtype, many), literal(0, "int32", many))

    def offer(self, x: Place, start: int, end: int) -> None:
        """Push entries from one position to another. Most are below no row's root."""
        k = self.k
        with T.serial(end - start) as step, k.vectors(NARROW) as row:
            entry = k.load(x, (start + step,), row)
            with T.If(holds(entry < self.value(0, row), lanes(row))), T.Then():
                if lanes(row) == 1:
                    self.push(row, k.load(x, (start + step,), row), start + step)
                else:
                    with T.serial(lanes(row)) as lane:
                        single_row = k.bind(row.base + lane)
                        self.push(single_row, k.load(x, (start + step,), single_row), start + step)

    def push(self, row: Any, value: Any, number: Any) -> None:
        """Put a value below the root in its place, and let it sink below larger ones."""
        k = self.k
        entry = k.bind(value)
        # Strictly: an equal value does not replace the root, as in scikit-learn.
        with T.If(entry < self.value(0, row)), T.Then():
            place = k.variable("int32", literal(0, "int32", 1))
            child = k.variable("int32", literal(1, "int32", 1))
            with T.While(child.get() < self.count):
                larger = k.bind(self._larger(child.get(), self.count, row))
                sinks = k.bind(self.value(larger, row) > entry)
                with T.If(sinks), T.Then():
                    self.copy(larger, place.get(), row)
                    place.set(larger)
                child.set(select(sinks, 2 * larger + 1, self.count))
            self.put(place.get(), row, entry, number)

    def _larger(self, child: Any, end: Any, row: Any) -> Any:
        """Return a child or the one behind it, whichever is larger; the first of equal ones."""
        behind = tirx.min(child + 1, end - 1)
        return select(self.value(behind, row) > self.value(child, row), behind, child)

    # Sorts.

    def sort(self, row: Any) -> None:
        """Sort a row by partitions about a median of three, short parts by insertion."""
        if self.count <= SHORT:
            self._insert(literal(0, "int32", 1), literal(self.count, "int32", 1), row)
            return
        k = self.k
        # Deeper partitions are sorted by a heap, as the source's sort does against bad pivots.
        most = 2 * (self.count.bit_length() - 1)
        with (
            k.temporary("int32", (most + 1,)) as starts,
            k.temporary("int32", (most + 1,)) as ends,
            k.temporary("int32", (most + 1,)) as depths,
        ):
            waiting = k.variable("int32", literal(1, "int32", 1))
            for place, number in ((starts, 0), (ends, self.count), (depths, most)):
                k.store(place, (0,), row, literal(number, "int32", 1))
            with T.While(waiting.get() > 0):
                waiting.set(waiting.get() - 1)
                start, end, depth = (
                    k.variable("int32", k.load(place, (waiting.get(),), row))
                    for place in (starts, ends, depths)
                )
                with T.While((end.get() - start.get() > SHORT) & (depth.get() > 0)):
                    depth.set(depth.get() - 1)
                    pivot = k.bind(self._partition(start.get(), end.get(), row))
                    behind = ((starts, pivot + 1), (ends, end.get()), (depths, depth.get()))
                    for place, number in behind:
                        k.store(place, (waiting.get(),), row, number)
                    waiting.set(waiting.get() + 1)
                    end.set(pivot)
                first, last = k.bind(start.get()), k.bind(end.get())
                with T.If(last - first > SHORT), T.Then():
                    self._heapsort(first, last, row)
                with T.If(last - first <= SHORT), T.Then():
                    self._insert(first, last, row)

    def _insert(self, start: Any, end: Any, row: Any) -> None:
        """Sort a part by insertion, so that equal values keep their order."""
        k = self.k
        with T.serial(tirx.max(end - start - 1, 0)) as step:
            at = k.variable("int32", start + step + 1)
            value = k.variable(self.values.dtype, self.value(at.get(), row))
            number = k.variable("int32", k.load(self.numbers, (at.get(),), row))
            before = k.variable("int32", start + step)
            with T.While(
                (before.get() >= start)
                # Both sides of the "and" are computed, so the position is kept inside.
                & (self.value(tirx.max(before.get(), start), row) > value.get())
            ):
                self.copy(before.get(), at.get(), row)
                at.set(before.get())
                before.set(before.get() - 1)
            self.put(at.get(), row, value.get(), number.get())

    def _partition(self, start: Any, end: Any, row: Any) -> Any:
        """Bring smaller values before the pivot and larger ones behind it; return its place."""
        k = self.k
        first, last = k.bind(start), k.bind(end - 1)
        self._place_median(first, k.bind(first + (end - first) // 2), last, row)
        pivot = k.variable(self.values.dtype, self.value(last, row))
        i, j = k.variable("int32", first + 1), k.variable("int32", last - 1)
        goes_on = k.variable("int32", literal(1, "int32", 1))
        with T.While(goes_on.get() > 0):
            with T.While(
                (i.get() <= j.get()) & (self.value(tirx.min(i.get(), last), row) < pivot.get())
            ):
                i.set(i.get() + 1)
            with T.While(
                (i.get() <= j.get()) & (self.value(tirx.max(j.get(), first), row) > pivot.get())
            ):
                j.set(j.get() - 1)
            goes_on.set(tirx.Cast("int32", i.get() < j.get()))
            with T.If(goes_on.get() > 0), T.Then():
                self.exchange(i.get(), j.get(), row)
                i.set(i.get() + 1)
                j.set(j.get() - 1)
        self.exchange(i.get(), last, row)
        return i.get()

    def _place_median(self, first: Any, middle: Any, last: Any, row: Any) -> None:
        """Order three pairs: the smallest to the first place, the median to the last."""
        self._order(first, last, row)
        with T.If(self.value(last, row) > self.value(middle, row)), T.Then():
            self.exchange(last, middle, row)
            self._order(first, last, row)

    def _order(self, a: Any, b: Any, row: Any) -> None:
        with T.If(self.value(a, row) > self.value(b, row)), T.Then():
            self.exchange(a, b, row)

    def _heapsort(self, start: Any, end: Any, row: Any) -> None:
        k = self.k
        size = k.bind(end - start)
        with T.serial(size // 2) as step:
            self._sift_down(start, size // 2 - 1 - step, size, row)
        with T.serial(size - 1) as step:
            last = k.bind(size - 1 - step)
            self.exchange(start, start + last, row)
            self._sift_down(start, literal(0, "int32", 1), last, row)

    def _sift_down(self, start: Any, root: Any, size: Any, row: Any) -> None:
        """Exchange a pair with its larger child, down to where both are smaller."""
        k = self.k
        place = k.variable("int32", root)
        child = k.variable("int32", 2 * place.get() + 1)
        with T.While(child.get() < size):
            larger = k.bind(self._larger(start + child.get(), start + size, row))
            sinks = k.bind(self.value(larger, row) > self.value(start + place.get(), row))
            with T.If(sinks), T.Then():
                self.exchange(start + place.get(), larger, row)
                place.set(larger - start)
            child.set(select(sinks, 2 * (larger - start) + 1, size))


@contextmanager
def _pairs(k: Kernel, dtype: str, numbers: Place) -> Iterator[_Pairs]:
    """Take memory for values, next to their numbers."""
    with k.temporary(dtype, numbers.shape) as values:
        yield _Pairs(k, values, numbers)


def heap_search(
    kernel: Kernel, out: Place, x: Place, k: int, parts: tuple[tuple[int, int], ...]
) -> None:
    """Emit ``heap_search``."""
    with _pairs(kernel, x.dtype, out) as whole:
        whole.clear()
        if not parts:
            whole.offer(x, 0, x.shape[0])
        with kernel.temporary("int32", (k,)) as numbers, _pairs(kernel, x.dtype, numbers) as part:
            for start, end in parts:
                part.clear()
                part.offer(x, start, end)
                with kernel.rows() as row, kernel.over((k,)) as (slot,):
                    number = kernel.load(numbers, (slot,), row)
                    whole.push(row, part.value(slot, row), number)
        with kernel.rows() as row:
            whole.sort(row)


def tree_search(
    kernel: Kernel,
    out: Place,
    x: Place,
    bounds: Place,
    order: Place,
    starts: Place,
    k: int,  # noqa: ARG001
    prunes: bool,
) -> None:
    """Emit ``tree_search``: each row takes a way of its own."""
    # Depth first leaves one waiting side for each level at most.
    levels = starts.shape[0].bit_length()
    with (
        _pairs(kernel, x.dtype, out) as heap,
        kernel.temporary("int32", (levels + 1,)) as waiting,
    ):
        heap.clear()
        with kernel.rows() as row:
            count = kernel.variable("int32", literal(1, "int32", 1))
            kernel.store(waiting, (0,), row, literal(0, "int32", 1))
            with T.While(count.get() > 0):
                count.set(count.get() - 1)
                node = kernel.variable("int32", kernel.load(waiting, (count.get(),), row))
                bound = kernel.load(bounds, (node.get(),), row)
                # Strictly farther: a node as near as the root may hold equal values that the source
                # sees.
                far = bound > heap.value(0, row) if prunes else tirx.const(False)
                with T.If(tirx.Not(far)), T.Then():
                    _visit(heap, x, (bounds, order, starts), waiting, count, node.get(), row)
            heap.sort(row)


def _visit(
    heap: _Pairs,
    x: Place,
    tree: tuple[Place, Place, Place],
    waiting: Place,
    count: Any,
    node: Any,
    row: Any,
) -> None:
    """Let the sides of a node wait, the nearer one on top, or push the entries of a leaf."""
    k = heap.k
    bounds, order, starts = tree
    inner = bounds.shape[0] // 2
    at = k.bind(node)
    with T.If(at < inner), T.Then():
        left = k.bind(2 * at + 1)
        is_nearer = k.load(bounds, (left,), row) <= k.load(bounds, (left + 1,), row)
        nearer = k.bind(select(is_nearer, left, left + 1))
        # The sides are left and left + 1, so their sum less the nearer is the farther one.
        k.store(waiting, (count.get(),), row, 2 * left + 1 - nearer)
        k.store(waiting, (count.get() + 1,), row, nearer)
        count.set(count.get() + 2)
    with T.If(at >= inner), T.Then():
        leaf = k.bind(at - inner)
        start = k.bind(k.entry(starts, leaf))
        with T.serial(k.entry(starts, leaf + 1) - start) as step:
            number = k.bind(k.entry(order, start + step))
            heap.push(row, k.load(x, (number,), row), number)


EMITTERS: dict[str, Callable[..., None]] = {
    "heap_search": heap_search,
    "tree_search": tree_search,
}
