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
    few_clocks,
    walk_clocks,
)
from hbconv.backends.cuda.columns import join_columns, split_columns
from hbconv.backends.cuda.few import make_few
from hbconv.backends.cuda.leaf_sums import add_vectors
from hbconv.backends.cuda.nodes import order_nodes
from hbconv.backends.cuda.plan import CudaKernel, PlannedKernels
from hbconv.backends.cuda.tree_order import order_trees
from hbconv.backends.cuda.walk import (
    MAX_COLUMNS,
    MAX_NODES,
    THREADS,
    make_walk,
    walk_shared_bytes,
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
    """A kernel with what it is predicted to take."""

    kernel: PlannedKernels
    clocks: Clocks

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block of the kernel that goes through the trees."""
        return max(launch.shared_bytes for launch in self.kernel.plan.launches)

    @property
    def main(self) -> CudaKernel:
        """The kernel that goes through the trees."""
        return next(
            launch.kernel
            for launch in self.kernel.plan.launches
            if launch.kernel.name in ("bits", "walk", "few")
        )

    def __str__(self) -> str:
        return (
            f"{self.main}: predicted {self.clocks.total:,.0f} clocks a row and multiprocessor, "
            f"limited by {self.clocks.limit}; {self.shared_bytes:,} bytes of shared memory"
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
        """The kernel for many rows: that for few ones, if no other fits."""
        return min(self.candidates(), key=lambda c: c.clocks.total, default=self.few)

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
        """Make the kernels for batches that fit the device."""
        yield from self._bits()
        yield from self._walk()

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
            size = shape.shared_bytes(len(columns), self.trees.words, programs.longest)
            if size <= self.device.shared_bytes:
                kernel = make_bits(self.forest, self.trees, splits, columns, programs, shape, lists)
                clocks = bits_clocks(
                    programs, self.forest.n_trees, len(columns), shape, self.trees.words, lists
                )
                yield Candidate(self._summed(kernel), clocks)

    def _walk(self) -> Iterator[Candidate]:
        columns, cutoffs = split_columns(self.forest, self.dtype)
        nodes = order_nodes(self.forest, self.trees.number)
        largest = int((nodes.first[1:] - nodes.first[:-1]).max())
        if len(columns) > MAX_COLUMNS or largest > MAX_NODES:
            return
        for threads in THREADS:
            size = walk_shared_bytes(len(columns), nodes, self.trees.words, threads)
            if size <= self.device.shared_bytes:
                kernel = make_walk(self.forest, self.trees, columns, cutoffs, nodes, threads)
                clocks = walk_clocks(nodes, len(columns), threads)
                yield Candidate(self._summed(kernel), clocks)
                return

    def _summed(self, kernel: PlannedKernels) -> PlannedKernels:
        return add_vectors(kernel, self.forest) if self.adds_vectors else kernel

    def _few_clocks(self, rows: int) -> float:
        per_processor = -(-rows // self.device.processors)
        resident = max(1, self.device.threads // 512)
        return LAUNCH + max(per_processor, resident) * self.few.clocks.total

    def _batch_clocks(self, rows: int) -> float:
        block = self.batch.kernel.plan.launches[1].grid.rows
        turns = -(-rows // (block * self.device.processors))
        return 2 * LAUNCH + turns * block * self.batch.clocks.total

    def __str__(self) -> str:
        if self.batch is self.few:
            return str(self.few)
        return f"up to {self.few_rows:,} rows, {self.few}\nbeyond, {self.batch}"
