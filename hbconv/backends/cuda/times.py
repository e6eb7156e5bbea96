"""Times: seconds that the launches of a computation are predicted to take for some rows.

Counted clocks are multiplied by what an H200 took for each (docs/figures/gpu.json). What sliced
trees and their terms take was counted, and never measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hbconv.backends.cuda.clocks import BINNING, Clocks, Device
from hbconv.backends.cuda.nodes import Nodes
from hbconv.backends.cuda.plan import Launch
from hbconv.backends.cuda.tree_order import TreeOrder
from hbconv.trees.forest import Forest

__all__ = [
    "Turns",
    "add_seconds",
    "time_binning",
    "time_few",
    "time_terms",
    "time_trees",
    "time_vectors",
]

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
BYTES_PER_CLOCK = 18
"""Bytes of terms for a multiprocessor: they lie in the second cache in part."""


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
        moved = blocks * self.bytes_moved / (BYTES_PER_CLOCK * processors)
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
    """Predict a kernel whose block takes some rows, and so many trees at once in teams."""
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
    """Predict kernel ``vectors``: each leaf's number comes first, then a value of its own."""
    latency = forest.n_trees * LEAF_LATENCY
    return Turns(256, 0.0, latency, forest.n_outputs, 8, 256 * forest.n_trees * (4 + 32))
