"""Choose the kernels of a forest: the ones predicted fastest of those that fit the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hbconv.backends.cuda.bits import MAX_BITS, BitsShape, make_bits, write_programs
from hbconv.backends.cuda.clocks import (
    LAUNCH,
    Clocks,
    Device,
    bits_clocks,
    deep_clocks,
    few_clocks,
    walk_clocks,
)
from hbconv.backends.cuda.columns import join_columns, split_columns
from hbconv.backends.cuda.deep import (
    deep_shapes,
    make_deep,
    node_bytes,
    pair_bits,
    place_pairs,
    tabulate_deep,
)
from hbconv.backends.cuda.few import make_few
from hbconv.backends.cuda.launch import MAX_PASSES
from hbconv.backends.cuda.leaf_sums import add_vectors
from hbconv.backends.cuda.nodes import order_nodes
from hbconv.backends.cuda.plan import CudaKernel, Launch, PlannedKernels
from hbconv.backends.cuda.tree_order import order_trees
from hbconv.backends.cuda.walk import (
    MAX_NODES,
    THREADS,
    WalkShape,
    chunk_walk,
    make_walk,
    tabulate_walk,
)
from hbconv.backends.tvm.trees.bitwise.leaf_splits import split_leaves
from hbconv.forest import Forest

__all__ = ["Candidate", "TreeKernels", "refuse"]

LANES = (32, 16)
MAX_NODES_OF_FEW = 1 << 30


def refuse(forest: Forest) -> str:
    """Say why no kernel computes a forest; empty if they do."""
    if not forest.n_tests:
        return "a forest without splits needs no kernel"
    if forest.n_features >= MAX_NODES_OF_FEW or forest.n_tests >= MAX_NODES_OF_FEW:
        return "a node of the kernels names at most 2**30 features and splits"
    return ""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel with what it is predicted to take, and the chunks in which it reads columns."""

    kernel: PlannedKernels
    clocks: Clocks
    chunks: int = 1

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block of the kernel that goes through the trees."""
        return max(launch.shared_bytes for launch in self.kernel.plan.launches)

    @property
    def main(self) -> CudaKernel:
        """The kernel that goes through the trees."""
        return self._main.kernel

    @property
    def rows(self) -> int:
        """Rows of a block of that kernel."""
        return self._main.grid.rows

    @property
    def _main(self) -> Launch:
        names = ("bits", "walk", "deep", "few")
        return next(one for one in self.kernel.plan.launches if one.kernel.name in names)

    def __str__(self) -> str:
        chunks = f"; columns in {self.chunks:,} chunks" if self.chunks > 1 else ""
        return (
            f"{self.main}: predicted {self.clocks.total:,.0f} clocks a row and multiprocessor, "
            f"limited by {self.clocks.limit}; {self.shared_bytes:,} bytes of shared memory{chunks}"
        )


class TreeKernels:
    """The kernels of a forest on a device: for few rows, and for batches.

    Parameters
    ----------
    forest : Forest
        With splits.
    dtype : str
        Of the values.
    scores : bool
        Sums, rather than leaves.
    device : Device
    """

    def __init__(self, forest: Forest, dtype: str, scores: bool, device: Device) -> None:
        self.forest = forest
        self.dtype = dtype
        self.device = device
        self.adds_vectors = scores and forest.values.shape[1] > 1
        self.trees = order_trees(forest, scores and not self.adds_vectors)

    @cached_property
    def few(self) -> Candidate:
        """The kernel for few rows, which takes every forest."""
        nodes = order_nodes(self.forest, self.trees.number)
        kernel = make_few(self.forest, self.trees, nodes, self.dtype)
        clocks = few_clocks(nodes.depth, self.trees.outputs, self.device)
        return Candidate(self._summed(kernel), clocks)

    @cached_property
    def batch(self) -> Candidate:
        """The kernel for many rows: that for few ones, if no other fits or is faster."""
        return min((self.few, *self.candidates()), key=lambda c: c.clocks.total)

    @cached_property
    def few_rows(self) -> int:
        """Rows up to which the kernel for few of them is predicted faster."""
        if self.batch is self.few:
            return 1 << 62
        rows = 1
        while self._few_clocks(2 * rows) <= self._batch_clocks(2 * rows):
            rows *= 2
        return rows

    def candidates(self) -> Iterator[Candidate]:
        """Make the kernels for batches that fit the device; a grid has so many passes of `bin`."""
        for candidate in (*self._bits(), *self._walk(), *self._deep()):
            if candidate.kernel.plan.launches[0].grid.passes <= MAX_PASSES:
                yield candidate

    def _bits(self) -> Iterator[Candidate]:
        splits = split_leaves(self.forest)
        bits = BitsShape.bits_of(splits)
        if bits > MAX_BITS:
            return
        columns, cutoffs = join_columns(self.forest, self.dtype)
        programs = write_programs(splits, self.trees.number, cutoffs, bits)
        lists = not cutoffs.single
        for lanes in LANES:
            shape = BitsShape(bits, lanes)
            room = shape.room(self.device.shared_bytes, self.trees.words, programs.longest)
            chunks = programs.chunks(len(columns), room)
            if chunks is not None:
                kernel = make_bits(
                    self.forest, self.trees, splits, columns, programs, chunks, shape, lists
                )
                clocks = bits_clocks(programs, chunks, len(columns), shape, self.trees, lists)
                yield Candidate(self._summed(kernel), clocks, len(chunks.end))

    def _walk(self) -> Iterator[Candidate]:
        columns, cutoffs = split_columns(self.forest, self.dtype)
        nodes = order_nodes(self.forest, self.trees.number)
        largest = int((nodes.first[1:] - nodes.first[:-1]).max())
        if largest > MAX_NODES:
            return
        ways = []
        for threads in THREADS:
            shape = WalkShape(threads, largest, self.trees.words)
            chunks = chunk_walk(nodes, columns, cutoffs, shape.room(self.device.shared_bytes))
            if chunks is not None:
                clocks = walk_clocks(nodes, chunks, len(columns), shape, self.device)
                ways.append((clocks, chunks, shape))
        if ways:
            clocks, chunks, shape = min(ways, key=lambda way: way[0].total)
            tables = tabulate_walk(self.trees, cutoffs, nodes, chunks)
            kernel = make_walk(self.forest, self.trees, columns, chunks, shape, tables)
            yield Candidate(self._summed(kernel), clocks, len(chunks.end))

    def _deep(self) -> Iterator[Candidate]:
        nodes = order_nodes(self.forest, self.trees.number)
        bits = pair_bits(self.forest, nodes, self.dtype)
        if bits is None:
            return
        pairs = place_pairs(nodes)
        shapes = deep_shapes(self.forest.n_features, self.dtype, self.device.shared_bytes)
        size = node_bytes(self.dtype)
        ways = [(deep_clocks(nodes, pairs, s, size, self.device), s) for s in shapes]
        clocks, shape = min(ways, key=lambda way: (way[0].total, way[0].cache))
        tables = tabulate_deep(self.forest, self.trees, nodes, pairs, self.dtype, bits)
        kernel = make_deep(self.forest, self.trees, self.dtype, bits, shape, tables)
        yield Candidate(self._summed(kernel), clocks)

    def _summed(self, kernel: PlannedKernels) -> PlannedKernels:
        return add_vectors(kernel, self.forest) if self.adds_vectors else kernel

    def _few_clocks(self, rows: int) -> float:
        per_processor = -(-rows // self.device.processors)
        resident = max(1, self.device.threads // 512)
        return LAUNCH + max(per_processor, resident) * self.few.clocks.total

    def _batch_clocks(self, rows: int) -> float:
        block = self.batch.rows
        turns = -(-rows // (block * self.device.processors))
        clocks = self.batch.clocks
        waits = clocks.resident * block * clocks.latency
        return 2 * LAUNCH + max(turns * block * clocks.total, waits)

    def __str__(self) -> str:
        if self.batch is self.few:
            return str(self.few)
        return f"up to {self.few_rows:,} rows, {self.few}\nbeyond, {self.batch}"
