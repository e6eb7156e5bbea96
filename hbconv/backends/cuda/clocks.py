"""Predict kernels: cycles of a multiprocessor from counted instructions, and seconds from those.

Instructions are counted in the machine code for cc 9.0. An H200 took more cycles for some kernels
(docs/figures/gpu.json): constants named ``TAKEN`` say how many times as many. What sliced trees and
their terms take was counted, and never measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hbconv.backends.cuda.bits import BitsShape, TreePrograms
from hbconv.backends.cuda.deep import DeepShape, PairPlaces
from hbconv.backends.cuda.plan import Launch
from hbconv.backends.cuda.tree_order import ColumnChunks, Nodes, TreeOrder
from hbconv.backends.cuda.walk import WalkShape
from hbconv.trees.forest import Forest

__all__ = [
    "A100",
    "H100",
    "Clocks",
    "Device",
    "Turns",
    "add_seconds",
    "bits_clocks",
    "deep_clocks",
    "few_clocks",
    "memory_clocks",
    "time_binning",
    "time_few",
    "time_terms",
    "time_trees",
    "time_vectors",
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
"""Those of a tree besides its cutoffs and joins; SHARED_PER_TREE for values of one word."""
CONFLICTS_OF_HALVES = 1.5
"""Reads of two half warps, whose planes may be in the same banks."""
BINNING = 13 / 32
"""Clocks of a value, the bits of its code included: 52 warp instructions for 32 columns."""
ISSUED_PER_PLANES, INTEGER_PER_PLANES, SHARED_PER_PLANES = 120, 75, 31
"""Those of the bits of 32 columns and 32 rows, where a chunk of trees reads them again."""
LATENCY_PER_CUTOFF = 65
LATENCY_PER_GROUP = 500
LATENCY_PER_PLANES = 700
"""Clocks of a cutoff, of a group of trees besides its cutoffs, and of planes that a team writes."""
ISSUED_PER_LEVEL, INTEGER_PER_LEVEL, SHARED_PER_LEVEL = 6.3, 3.1, 2.35
ISSUED_PER_WALK, INTEGER_PER_WALK, SHARED_PER_VALUE = 8.0, 4.0, 2.6
"""Warp instructions of a level, and of a tree besides its levels; reads of each word of a value."""
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
"""Shared memory that a block takes on top of its own."""
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
        """Count the blocks of this much shared memory that a multiprocessor keeps, up to some."""
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
        # Pipes work at the same time, so the busiest one limits.
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
    # A join of b bits selects b - 1 planes; there are 2 ** (bits - b) of them in a tree.
    joins = sum((1 << shape.bits - b) * (b - 1) for b in range(1, shape.bits + 1)) * n_trees
    # Columns that several chunks read are read again by each of them.
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
    # Each column of a chunk is copied into the block's memory once.
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
    4. A warp continues until the last row of its threads is at a leaf.
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
    # A node of `few` is four words.
    near = 16 * len(leaf) <= NEAR_BYTES
    each = CLOCKS_PER_NEAR_READ if near else CLOCKS_PER_READ
    return Clocks(0.0, 0.0, 0.0, each * float(reads.sum()))


def memory_clocks(bytes_per_row: float) -> float:
    """Predict a kernel that does little with what it reads and writes."""
    return bytes_per_row / BYTES_PER_CLOCK


LAUNCH = 6000
"""Clocks of one launch more: the host's work, and the end of the kernel before."""
BITS_TAKEN, BINNING_TAKEN = 1.5, 2.5
"""Clocks that an H200 took for each one that was counted."""
WALK_TAKEN, DEEP_TAKEN = 1.3, 1.3
"""As much is guessed: both were never measured."""
BEGINNING = 3000
"""Clocks until a block of many trees has its planes or codes, and the first trees."""
EDGES_LATENCY = 2500
"""Clocks until a block has its edges, and a value its code."""
ROW_LATENCY = 1500
READ_LATENCY = 250
TERM_LATENCY = 15
"""Clocks of a row of ``few`` at least, of a node from the second cache, of a term in turn."""
TERMS_LATENCY, ADD_LATENCY = 700, 13
"""Clocks until the first terms are there, and of each: the machine code waits 12.4 for it."""
TERMS_RESIDENT = 3
"""Blocks of ``terms`` whose shared memory a multiprocessor has."""
LEAF_LATENCY = 350
"""Clocks of a leaf whose vector is looked up: four at once wait twice for memory."""
TERM_BYTES_PER_CLOCK = 18
"""Bytes of terms for a multiprocessor: part of them is in the second cache."""


@dataclass(frozen=True)
class Turns:
    """Blocks of a launch, which take turns on the multiprocessors.

    Parameters
    ----------
    rows : int
        Rows of a block.
    busy, latency : float
        Clocks of a block: those of its busiest pipe, and those that it takes at least.
    slices : int
        Blocks for the same rows.
    resident : int
        Blocks that a multiprocessor keeps at once.
    bytes_moved : float
        Bytes of terms that a block reads or writes, while it does the rest.
    """

    rows: int
    busy: float
    latency: float = 0.0
    slices: int = 1
    resident: int = 1
    bytes_moved: float = 0.0

    def clocks(self, n_rows: int, processors: int) -> float:
        """Count the clocks of the multiprocessor that has most blocks, or those of the memory."""
        blocks = -(-n_rows // self.rows) * self.slices
        most = -(-blocks // processors)
        moved = blocks * self.bytes_moved / (TERM_BYTES_PER_CLOCK * processors)
        return max(most * self.busy, -(-most // self.resident) * self.latency, moved)


def add_seconds(turns: Iterable[Turns], n_rows: int, device: Device) -> float:
    """Predict the seconds of launches, one after another."""
    clocks = (LAUNCH + each.clocks(n_rows, device.processors) for each in turns)
    return sum(clocks) / device.hertz


def time_binning(launch: Launch, n_columns: int) -> Turns:
    """Predict kernel ``bin``."""
    grid = launch.grid
    busy = grid.rows * n_columns / grid.passes * BINNING * BINNING_TAKEN
    return Turns(grid.rows, busy, EDGES_LATENCY, grid.passes, grid.per_processor)


def time_trees(rows: int, trees: TreeOrder, clocks: Clocks, teams: int, taken: float) -> Turns:
    """Predict a kernel whose block takes some rows, and ``teams`` trees at once."""
    n_trees = len(trees.number)
    groups = -(-n_trees // teams)
    own_groups = -(-n_trees // (trees.slices * teams))
    share = own_groups / groups
    busy = BEGINNING + clocks.total * rows * taken * share
    alone = BEGINNING + clocks.latency * clocks.resident * rows * share
    written = rows * n_trees / trees.slices * trees.values.itemsize if trees.apart else 0.0
    return Turns(rows, busy, alone, trees.slices, clocks.resident, written)


def time_few(nodes: Nodes, clocks: Clocks, n_outputs: int, resident: int) -> Turns:
    """Predict kernel ``few``: a row waits for its reads, then for its additions."""
    n_trees = len(nodes.depth)
    waits = ROW_LATENCY + int(nodes.depth.max(initial=0)) * READ_LATENCY * -(-n_trees // 512)
    waits += -(-n_trees // n_outputs) * TERM_LATENCY
    return Turns(1, clocks.total, waits, resident=resident)


def time_terms(trees: TreeOrder) -> Turns:
    """Predict kernel ``terms``."""
    n_trees = len(trees.number) / trees.outputs
    latency = TERMS_LATENCY + n_trees * ADD_LATENCY
    read = 32 * n_trees * trees.values.itemsize
    return Turns(32, 0.0, latency, trees.outputs, TERMS_RESIDENT, read)


def time_vectors(forest: Forest) -> Turns:
    """Predict kernel ``vectors``: each leaf's number is read first, then its value."""
    latency = forest.n_trees * LEAF_LATENCY
    return Turns(256, 0.0, latency, forest.n_outputs, 8, 256 * forest.n_trees * (4 + 32))
