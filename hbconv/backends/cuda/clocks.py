"""Clocks: what each kernel is predicted to cost a multiprocessor, from counted instructions.

The counts are of the machine code for cc 9.0, and of what a multiprocessor does in a clock. An H200
took longer: ``times`` says how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hbconv.backends.cuda.bits import BitsShape, TreePrograms
from hbconv.backends.cuda.chunks import ColumnChunks
from hbconv.backends.cuda.deep import DeepShape, PairPlaces
from hbconv.backends.cuda.nodes import Nodes
from hbconv.backends.cuda.tree_order import TreeOrder
from hbconv.backends.cuda.walk import WalkShape

__all__ = [
    "A100",
    "H100",
    "Clocks",
    "Device",
    "bits_clocks",
    "deep_clocks",
    "few_clocks",
    "memory_clocks",
    "walk_clocks",
]

ISSUED_PER_CLOCK = 4
INTEGER_PER_CLOCK = 2
SHARED_PER_CLOCK = 1
"""Warp instructions of all kinds, those of whole numbers, and reads of 32 words of memory."""
BYTES_PER_CLOCK = 14
"""Bytes of memory for a multiprocessor: an H100 moves 3.35e12 a second."""
WARP = 32
ROWS = 1024
"""Rows for which a tree's instructions are counted."""
ISSUED_PER_CUTOFF, INTEGER_PER_CUTOFF, SHARED_PER_CUTOFF = 17.8, 9.4, 4.2
ISSUED_PER_LISTED, INTEGER_PER_LISTED = 6, 2
"""More instructions of a cutoff where a test may have several."""
ISSUED_PER_TREE, INTEGER_PER_TREE, SHARED_PER_TREE = 263, 87, 67
"""Those of a tree beside its cutoffs and joins; SHARED_PER_TREE for values of one word."""
CONFLICTS_OF_HALVES = 1.5
"""Reads of two half warps, whose planes may lie in the same banks."""
BINNING = 13 / 32
"""Clocks of a value, the bits of its code included: 52 warp instructions for 32 columns."""
ISSUED_PER_PLANES, INTEGER_PER_PLANES, SHARED_PER_PLANES = 120, 75, 31
"""Those of the bits of 32 columns and 32 rows, where a chunk of trees reads them anew."""
LATENCY_PER_CUTOFF = 65
LATENCY_PER_GROUP = 500
LATENCY_PER_PLANES = 700
"""Clocks of a cutoff, of a group of trees beside its cutoffs, and of planes that a team writes."""
ISSUED_PER_LEVEL, INTEGER_PER_LEVEL, SHARED_PER_LEVEL = 6.3, 3.1, 2.35
ISSUED_PER_WALK, INTEGER_PER_WALK, SHARED_PER_VALUE = 8.0, 4.0, 2.6
"""Warp instructions of a level, and of a tree beside its levels; reads of each word of a value."""
SHARED_AT_TOP = 0.6
"""Reads of each of the first two levels, whose nodes and codes serve eight rows."""
LATENCY_PER_LEVEL = 100
LATENCY_PER_WALK = 400
"""Clocks that a block waits in a level, and for the next tree and its other threads."""
ISSUED_PER_WORD, SHARED_PER_WORD = 0.1, 1 / 32
"""Those of a tree's word that a block copies."""
ISSUED_PER_COPY, INTEGER_PER_COPY, SHARED_PER_COPY = 4, 2, 0.25
LATENCY_PER_COPY = 300
"""Those of a column that a chunk of trees reads, and what a block waits for two at once."""
WALK_THREADS, DEEP_THREADS = 768, 1024
"""Threads of a multiprocessor whose registers fit."""
RESERVED_BYTES = 1 << 10
"""Shared memory that a block takes beside its own."""
ISSUED_PER_BRANCH, INTEGER_PER_BRANCH = 19, 12.5
"""Warp instructions of a level of a tree of any depth."""
FIRST_CACHE_BYTES = 29 << 10
"""What the first cache has at least: all that no block takes for itself."""
SECTOR = 32
SECTORS_PER_CLOCK, SECTORS_OF_SECOND_CACHE = 4, 3 / 4
"""Bytes that caches hand over together, and how many of them in a clock."""
FIRST_CACHE_LATENCY, SECOND_CACHE_LATENCY = 110, 370
"""Clocks of a level whose node comes from either cache."""
CLOCKS_PER_NEAR_READ, CLOCKS_PER_READ = 0.8, 1.2
"""Clocks of a node that a thread of `few` reads alone, where all lie in the first cache and where
not."""
NEAR_BYTES = 208 << 10
"""Those of the first cache beside the terms of `few`."""


@dataclass(frozen=True)
class Device:
    """Sizes of a CUDA device.

    Parameters
    ----------
    processors : int
        Multiprocessors.
    shared_bytes : int
        Shared memory that a block may have.
    threads : int
        Threads that a multiprocessor keeps.
    hertz : float
        Clocks a second.
    """

    processors: int
    shared_bytes: int
    threads: int = 2048
    hertz: float = 1.755e9

    def blocks(self, shared_bytes: int, most: int) -> int:
        """Count the blocks of so much shared memory that a multiprocessor keeps, at most some."""
        all_bytes = self.shared_bytes + RESERVED_BYTES
        return min(most, all_bytes // (shared_bytes + RESERVED_BYTES))


H100 = Device(132, 227 << 10)
A100 = Device(108, 163 << 10, hertz=1.41e9)


@dataclass(frozen=True)
class Clocks:
    """Clocks a row of one multiprocessor, by what takes them.

    Parameters
    ----------
    issue, integer, shared : float
        Of issuing instructions, of the pipe of whole numbers, and of shared memory.
    latency : float
        Of waiting, where too few threads are there.
    cache : float
        Of reading sectors from the second cache.
    resident : int
        Blocks of a multiprocessor that wait at the same time; a block alone waits as long.
    """

    issue: float
    integer: float
    shared: float
    latency: float = 0.0
    cache: float = 0.0
    resident: int = 1

    @property
    def total(self) -> float:
        """Clocks of what limits."""
        return max(self._pipes.values())

    @property
    def limit(self) -> str:
        """Name what limits."""
        return max(self._pipes, key=lambda name: self._pipes[name])

    @property
    def _pipes(self) -> dict[str, float]:
        return {
            "issue": self.issue,
            "integer": self.integer,
            "shared memory": self.shared,
            "latency": self.latency,
            "second cache": self.cache,
        }

    @staticmethod
    def of(issued: float, integer: float, shared: float) -> Clocks:
        """Turn warp instructions a row into clocks."""
        return Clocks(
            issued / ISSUED_PER_CLOCK, integer / INTEGER_PER_CLOCK, shared / SHARED_PER_CLOCK
        )

    def after_binning(self, n_columns: int) -> Clocks:
        """Return the clocks with those of a kernel before, which makes the codes."""
        binning = n_columns * BINNING
        return replace(
            self,
            issue=self.issue + binning,
            integer=self.integer + binning,
            shared=self.shared + binning,
            latency=self.latency + binning,
        )


def bits_clocks(
    programs: TreePrograms,
    chunks: ColumnChunks,
    shape: BitsShape,
    trees: TreeOrder,
    n_columns: int,
    lists: bool,
) -> Clocks:
    """Predict kernel ``bits``."""
    cutoffs = len(programs.cutoff)
    n_trees = len(programs.counts)
    joins = sum((1 << shape.bits - b) * (b - 1) for b in range(1, shape.bits + 1)) * n_trees
    again = (len(chunks.column) - n_columns) * ROWS / WARP**2
    more_issued = ISSUED_PER_LISTED * lists
    more_integer = INTEGER_PER_LISTED * lists
    conflicts = CONFLICTS_OF_HALVES if shape.lanes < WARP else 1.0
    issued = cutoffs * (ISSUED_PER_CUTOFF + more_issued) + joins + n_trees * ISSUED_PER_TREE
    integer = cutoffs * (INTEGER_PER_CUTOFF + more_integer) + joins + n_trees * INTEGER_PER_TREE
    shared = cutoffs * SHARED_PER_CUTOFF * conflicts
    shared += n_trees * (SHARED_PER_TREE + (trees.words - 1) * ROWS / WARP)
    pipes = Clocks.of(
        (issued + again * ISSUED_PER_PLANES) / ROWS,
        (integer + again * INTEGER_PER_PLANES) / ROWS,
        (shared + again * SHARED_PER_PLANES) / ROWS,
    )
    return replace(pipes, latency=_bits_latency(programs, chunks, shape, trees) / shape.rows)


def _bits_latency(
    programs: TreePrograms, chunks: ColumnChunks, shape: BitsShape, trees: TreeOrder
) -> float:
    """Count the clocks that a tile takes at least: those of the longest tree of each group.

    Groups end with the trees of an output, and with those of a chunk.
    """
    ends = np.union1d(chunks.end, trees.of_output[1:])
    begins = np.append(0, ends[:-1])
    spans = zip(begins, ends, strict=True)
    groups = np.concatenate([np.arange(begin, end, shape.teams) for begin, end in spans])
    longest = np.maximum.reduceat(programs.counts, groups)
    blocks = -(-np.diff(chunks.first) // shape.lanes)
    turns = -(-blocks * shape.lanes // shape.teams)
    waits = longest.sum() * LATENCY_PER_CUTOFF + len(groups) * LATENCY_PER_GROUP
    return float(waits + turns.sum() * LATENCY_PER_PLANES)


def walk_clocks(nodes: Nodes, chunks: ColumnChunks, shape: WalkShape, device: Device) -> Clocks:
    """Predict kernel ``walk``."""
    levels = int(nodes.depth.sum())
    n_trees = len(nodes.depth)
    copies = len(chunks.column)
    words = len(nodes.child) * (1 + shape.words) * WARP / shape.rows
    top = int(np.minimum(nodes.depth, 2).sum())
    shared = (levels - top) * SHARED_PER_LEVEL + top * SHARED_AT_TOP + words * SHARED_PER_WORD
    shared += n_trees * SHARED_PER_VALUE * shape.words
    pipes = Clocks.of(
        (
            levels * ISSUED_PER_LEVEL
            + n_trees * ISSUED_PER_WALK
            + words * ISSUED_PER_WORD
            + copies * ISSUED_PER_COPY
        )
        / WARP,
        (levels * INTEGER_PER_LEVEL + n_trees * INTEGER_PER_WALK + copies * INTEGER_PER_COPY)
        / WARP,
        (shared + copies * SHARED_PER_COPY) / WARP,
    )
    waits = levels * LATENCY_PER_LEVEL + n_trees * LATENCY_PER_WALK + copies * LATENCY_PER_COPY
    blocks = device.blocks(shape.shared_bytes(chunks.widest), WALK_THREADS // shape.threads)
    return replace(pipes, latency=waits / (blocks * shape.rows), resident=blocks)


def deep_clocks(
    nodes: Nodes, pairs: PairPlaces, shape: DeepShape, node_bytes: int, device: Device
) -> Clocks:
    """Predict kernel ``deep``.

    1. As many rows reach a leaf as another, so what share of them reads a level is counted.
    2. A level comes from the first cache if it fits, with those above it.
    3. A sector holds two pairs of small nodes, and brings some from the second cache ahead.
    4. A warp goes on until the last row of its threads is at a leaf.
    """
    widths = nodes.widths
    leaves = widths - np.append(widths[1:], np.zeros_like(widths[:1]), axis=0) // 2
    share = np.cumsum(leaves[::-1], axis=0)[::-1] / leaves.sum(axis=0)  # 1
    blocks = device.blocks(shape.shared_bytes, DEEP_THREADS // shape.threads)
    cache_bytes = FIRST_CACHE_BYTES + device.shared_bytes - blocks * shape.shared_bytes
    near = np.cumsum(widths, axis=0) * node_bytes <= cache_bytes  # 2
    sectors = np.minimum(WARP * share, np.ceil(widths * node_bytes / SECTOR))
    fresh = pairs.fresh if 4 * node_bytes <= SECTOR else 1.0  # 3
    far = np.sum(sectors * ~near) * fresh / SECTORS_OF_SECOND_CACHE
    if not shape.shared_bytes:
        far += share.sum() * WARP * memory_clocks(SECTOR)
    turns = int(np.count_nonzero(share * shape.rows > shape.threads // WARP))  # 4
    pipes = Clocks.of(
        turns * ISSUED_PER_BRANCH / WARP,
        turns * INTEGER_PER_BRANCH / WARP,
        float(turns + np.sum(share + sectors / SECTORS_PER_CLOCK)) / WARP,
    )
    later = fresh * SECOND_CACHE_LATENCY + (1 - fresh) * FIRST_CACHE_LATENCY
    waits = np.sum(np.where(near, FIRST_CACHE_LATENCY, later) * (share > 0))
    return replace(
        pipes,
        latency=float(waits / (blocks * shape.rows)),
        cache=float(far / WARP),
        resident=blocks,
    )


def few_clocks(nodes: Nodes) -> Clocks:
    """Predict kernel ``few``: its threads read nodes that lie apart, one level after another."""
    leaf = ~nodes.is_test
    leaves = np.bincount(nodes.tree[leaf])
    reads = np.bincount(nodes.tree[leaf], nodes.level[leaf]) / leaves
    near = 16 * len(leaf) <= NEAR_BYTES
    each = CLOCKS_PER_NEAR_READ if near else CLOCKS_PER_READ
    return Clocks(0.0, 0.0, 0.0, each * float(reads.sum()))


def memory_clocks(bytes_per_row: float) -> float:
    """Predict a kernel that does little with what it reads and writes."""
    return bytes_per_row / BYTES_PER_CLOCK
