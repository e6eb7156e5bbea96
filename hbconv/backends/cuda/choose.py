"""Choose the kernels of a forest: for each number of rows, those predicted to be done first.

Kernels that add up what these find, terms and leaves of vectors, are planned here too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from hbconv.backends.cuda.bits import (
    MAX_BITS,
    BitsShape,
    make_bits,
    tabulate_bits,
    write_programs,
)
from hbconv.backends.cuda.clocks import (
    BITS_TAKEN,
    DEEP_TAKEN,
    WALK_TAKEN,
    Clocks,
    Device,
    Turns,
    add_seconds,
    bits_clocks,
    deep_clocks,
    few_clocks,
    time_binning,
    time_few,
    time_terms,
    time_trees,
    time_vectors,
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
from hbconv.backends.cuda.plan import (
    MAX_PASSES,
    Buffer,
    CudaKernel,
    Grid,
    Launch,
    LaunchPlan,
    PlannedKernels,
)
from hbconv.backends.cuda.tree_order import (
    NAMES,
    ColumnChunks,
    Nodes,
    TreeOrder,
    order_nodes,
    order_trees,
)
from hbconv.backends.cuda.walk import (
    MAX_NODES,
    THREADS,
    WalkShape,
    chunk_walk,
    make_walk,
    tabulate_walk,
)
from hbconv.trees.forest import Forest
from hbconv.trees.leaf_splits import split_leaves

__all__ = ["Candidate", "TreeKernels", "refuse"]

# Wide tiles read each program for more rows, narrow ones leave room for more columns.
LANES = (32, 16)
# A node of `few` has its flags in bits 30 and 31, above the feature.
MAX_NODES_OF_FEW = 1 << 30
MAX_RESIDENT = 32
"""Blocks that a multiprocessor keeps at most."""
# What slices gain is predicted; no device has measured it.
SLICES = (2, 4, 8, 16, 32, 64)
TREES_OF_SLICE = 8
"""Trees worth a block of `walk`: one of depth 8 takes a third of what its codes do."""
# Four steps to each power of two: sizes between are at most a fifth apart.
STEPS = tuple(int(2 ** (i / 4)) for i in range(8, 81))
"""Rows for which forms are compared, 4 to 1,048,576: the best of the most takes all beyond."""
# Chosen, not measured.
WORTH = 1.15
"""A form stays unless another one is this many times as fast: each takes time to compile."""


def refuse(forest: Forest) -> str:
    """Say why no kernel computes a forest; empty if they do."""
    if not forest.n_tests:
        return "a forest without splits needs no kernel"
    if forest.n_features >= MAX_NODES_OF_FEW or forest.n_tests >= MAX_NODES_OF_FEW:
        return "a node of the kernels names at most 2**30 features and splits"
    return ""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A form of a kernel, with what it is predicted to take.

    Parameters
    ----------
    kernel : PlannedKernels
    clocks : Clocks
        Those of a row, without what slices add.
    turns : tuple of Turns
        What each launch takes.
    slices : int
        Blocks that share the trees of a row.
    chunks : int
        Runs of trees for each of which columns are read.
    """

    kernel: PlannedKernels
    clocks: Clocks
    turns: tuple[Turns, ...]
    slices: int = 1
    chunks: int = 1

    def fits(self, n_rows: int) -> bool:
        """Whether memory allows the terms of ``n_rows`` rows; whole trees have none."""
        return self.slices == 1 or n_rows <= self.kernel.plan.rows_at_once

    def seconds(self, n_rows: int, device: Device) -> float:
        """Predict the seconds of ``n_rows`` rows, which run in as large parts as memory allows."""
        calls, rest = divmod(n_rows, self.kernel.plan.rows_at_once)
        full = add_seconds(self.turns, self.kernel.plan.rows_at_once, device)
        return calls * full + (add_seconds(self.turns, rest, device) if rest else 0.0)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block of the kernel that goes through the trees."""
        return max(launch.shared_bytes for launch in self.kernel.plan.launches)

    @property
    def main(self) -> CudaKernel:
        """The kernel that goes through the trees."""
        names = ("bits", "walk", "deep", "few")
        kernels = (launch.kernel for launch in self.kernel.plan.launches)
        return next(kernel for kernel in kernels if kernel.name in names)

    def __str__(self) -> str:
        slices = f" in {self.slices} slices" if self.slices > 1 else ""
        chunks = f"; columns in {self.chunks:,} chunks" if self.chunks > 1 else ""
        return (
            f"{self.main}{slices}: predicted {self.clocks.total:,.0f} clocks a row and "
            f"multiprocessor, limited by {self.clocks.limit}; "
            f"{self.shared_bytes:,} bytes of shared memory{chunks}"
        )


class TreeKernels:
    """The kernels of a forest on a device.

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

    def choose(self, n_rows: int) -> Candidate:
        """Return the form that is predicted fastest for ``n_rows`` rows."""
        return self.forms[bisect_left(self.limits, n_rows)]

    @property
    def forms(self) -> tuple[Candidate, ...]:
        """The forms that are chosen, for few rows first."""
        return self._chosen[0]

    @property
    def limits(self) -> tuple[int, ...]:
        """Rows up to which each form is chosen but the last."""
        return self._chosen[1]

    @cached_property
    def _chosen(self) -> tuple[tuple[Candidate, ...], tuple[int, ...]]:
        """Compare the forms for many rows, then for fewer and fewer."""
        candidates = tuple(self.candidates())
        forms: list[Candidate] = []
        limits: list[int] = []
        for n_rows in reversed(STEPS):
            fitting = (form for form in candidates if form.fits(n_rows))
            seconds = {form: form.seconds(n_rows, self.device) for form in fitting}
            best = min(seconds, key=seconds.__getitem__)
            if not forms:
                forms.append(best)
            elif seconds[forms[0]] > WORTH * seconds[best]:
                forms.insert(0, best)
                limits.insert(0, n_rows)
        return tuple(forms), tuple(limits)

    def candidates(self) -> Iterator[Candidate]:
        """Make the forms that fit the device, and whose passes of `bin` fit a grid."""
        yield self.few
        for candidate in (*self._bits(), *self._walk(), *self._deep()):
            if candidate.kernel.plan.launches[0].grid.passes <= MAX_PASSES:
                yield candidate

    @cached_property
    def few(self) -> Candidate:
        """The kernel for few rows, which takes every forest."""
        nodes = self._nodes
        clocks = few_clocks(nodes)
        kernel = make_few(self.forest, self.trees, nodes, self.dtype)
        (launch,) = kernel.plan.launches
        resident = min(MAX_RESIDENT, self.device.threads // launch.threads)
        turns = time_few(nodes, clocks, self.trees.outputs, resident)
        return self._with_sums(Candidate(kernel, clocks, (turns,)), self.trees)

    @cached_property
    def _nodes(self) -> Nodes:
        """The trees' nodes, which all kernels but `bits` read in one order."""
        return order_nodes(self.forest, self.trees.number)

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
            if chunks is None:
                continue
            tables = tabulate_bits(self.forest, self.trees, splits, programs, chunks, shape)
            clocks = bits_clocks(programs, chunks, shape, self.trees, len(columns), lists)
            for trees in self._orders(shape.teams):
                kernel = make_bits(
                    self.forest, trees, columns, programs, chunks, shape, lists, tables
                )
                turns = time_trees(shape.rows, trees, clocks, shape.teams, BITS_TAKEN)
                yield self._batch(kernel, trees, clocks, turns, len(columns), chunks)

    def _walk(self) -> Iterator[Candidate]:
        columns, cutoffs = split_columns(self.forest, self.dtype)
        nodes = self._nodes
        largest = int((nodes.first[1:] - nodes.first[:-1]).max())
        if largest > MAX_NODES:
            return
        ways = []
        for threads in THREADS:
            shape = WalkShape(threads, largest, self.trees.words)
            chunks = chunk_walk(nodes, columns, cutoffs, shape.room(self.device.shared_bytes))
            if chunks is not None:
                clocks = walk_clocks(nodes, chunks, shape, self.device)
                ways.append((clocks, chunks, shape))
        if ways:
            clocks, chunks, shape = min(ways, key=lambda way: way[0].total)
            tables = tabulate_walk(self.trees, cutoffs, nodes, chunks)
            for trees in self._orders(TREES_OF_SLICE):
                kernel = make_walk(self.forest, trees, columns, chunks, shape, tables)
                turns = time_trees(shape.rows, trees, clocks, 1, WALK_TAKEN)
                yield self._batch(kernel, trees, clocks, turns, len(columns), chunks)

    def _deep(self) -> Iterator[Candidate]:
        nodes = self._nodes
        bits = pair_bits(self.forest, nodes, self.dtype)
        if bits is None:
            return
        pairs = place_pairs(nodes)
        shapes = deep_shapes(self.forest.n_features, self.dtype, self.device.shared_bytes)
        size = node_bytes(self.dtype)
        ways = [(deep_clocks(nodes, pairs, s, size, self.device), s) for s in shapes]
        clocks, shape = min(ways, key=lambda way: (way[0].total, way[0].cache))
        tables = tabulate_deep(self.forest, self.trees, nodes, pairs, self.dtype, bits)
        for trees in self._orders(TREES_OF_SLICE):
            kernel = make_deep(self.forest, trees, self.dtype, bits, shape, tables)
            turns = time_trees(shape.rows, trees, clocks, 1, DEEP_TAKEN)
            yield self._with_sums(Candidate(kernel, clocks, (turns,), trees.slices), trees)

    def _orders(self, teams: int) -> Iterator[TreeOrder]:
        """Yield the trees whole, then in slices of more trees than a block takes at once."""
        yield self.trees
        for slices in SLICES:
            if slices == SLICES[0] or slices * teams < 2 * self.forest.n_trees:
                yield self.trees.slice_trees(slices)

    def _batch(
        self,
        kernel: PlannedKernels,
        trees: TreeOrder,
        clocks: Clocks,
        turns: Turns,
        n_columns: int,
        chunks: ColumnChunks,
    ) -> Candidate:
        """Return a form of a kernel that reads codes."""
        binning = time_binning(kernel.plan.launches[0], n_columns)
        whole = clocks.after_binning(n_columns)
        count = len(chunks.end)
        candidate = Candidate(kernel, whole, (binning, turns), trees.slices, count)
        return self._with_sums(candidate, trees)

    def _with_sums(self, form: Candidate, trees: TreeOrder) -> Candidate:
        """Let a form add up what it found, where its kernel does not."""
        if self.adds_vectors:
            kernel = add_vectors(form.kernel, self.forest)
            return replace(form, kernel=kernel, turns=(*form.turns, time_vectors(self.forest)))
        if trees.apart and not self.trees.apart:
            kernel = add_terms(form.kernel, self.trees)
            return replace(form, kernel=kernel, turns=(*form.turns, time_terms(self.trees)))
        return form

    def __str__(self) -> str:
        *few, last = self.forms
        lines = [
            f"up to {n:,} rows, predicted {form.seconds(n, self.device) * 1e6:,.0f} microseconds: "
            f"{form}"
            for n, form in zip(self.limits, few, strict=True)
        ]
        return "\n".join([*lines, f"beyond: {last}" if few else str(last)])


THREADS_OF_VECTORS = 256
ROWS_OF_TERMS = 32
THREADS_OF_TERMS = 32 * 9
"""Rows of a block, so that few rows are spread over many multiprocessors, and its warps."""
CHUNK_OF_TERMS = 128


def add_terms(terms: PlannedKernels, trees: TreeOrder) -> PlannedKernels:
    """Return the kernels that write each tree's term, then the one that adds them in order."""
    tables = {"term_output": trees.of_output, "term_start": trees.start}
    dtype = trees.values.dtype.name
    launch = Launch(
        CudaKernel("terms", (("SUM", NAMES[dtype]),)),
        ("terms", "n", trees.outputs, *tables, "out"),
        Grid(ROWS_OF_TERMS, trees.outputs),
        THREADS_OF_TERMS,
        2 * CHUNK_OF_TERMS * ROWS_OF_TERMS * trees.values.itemsize,
    )
    out = Buffer(dtype, 1, 1, trees.outputs)
    return terms.renamed({"out": "terms"}).then(
        LaunchPlan((launch,), (("out", out),), tuple(tables)), tables
    )


def add_vectors(leaves: PlannedKernels, forest: Forest) -> PlannedKernels:
    """Return the kernels that find leaves, then the one that adds up their vectors."""
    tables = {"vectors": forest.values.data, "vector_start": forest.start.data}
    launch = Launch(
        CudaKernel("vectors", (("SUM", NAMES[forest.accumulate]),)),
        ("leaves", "n", forest.n_trees, forest.n_outputs, *tables, "out"),
        Grid(THREADS_OF_VECTORS, forest.n_outputs),
        THREADS_OF_VECTORS,
        0,
    )
    out = Buffer(forest.accumulate, 1, 1, forest.n_outputs)
    return leaves.renamed({"out": "leaves"}).then(
        LaunchPlan((launch,), (("out", out),), tuple(tables)), tables
    )
