"""Trees by select on bit planes: every test of every tree for 256 rows at once. The model is data; the code is a few loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.array import Array
from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import blocks
from hbconv.backends.tvm.trees.bins.emit import Columns, write_bins
from hbconv.backends.tvm.trees.bins.tables import Bins
from hbconv.backends.tvm.trees.bitwise.category_planes import write_sets
from hbconv.backends.tvm.trees.bitwise.leaf_splits import cut_trees
from hbconv.backends.tvm.trees.bitwise.planes import (
    BYTES,
    ROWS,
    Planes,
    transposed_bits,
    write_masks,
)
from hbconv.backends.tvm.trees.bitwise.tables import (
    BOTH,
    EITHER,
    FUSED,
    LOPSIDED,
    BitTables,
    Shape,
    make_bit_tables,
    words_of,
)
from hbconv.backends.tvm.trees.bytewise.emit import COLUMNS, Finish
from hbconv.backends.tvm.trees.categories.emit import write_classes
from hbconv.forest import Forest

__all__ = ["BitSelect"]

Vector = Any
Ints = npt.NDArray[np.int64]

PLANES = 1024
"""Planes that memory is laid out for: a multiple, so that models that differ by a few share a kernel."""


class BitSelect:
    """How a forest is evaluated on bit planes.

    Parameters
    ----------
    forest : Forest
    bins : Bins
    group : int
        Trees evaluated together.
    """

    def __init__(self, forest: Forest, bins: Bins, group: int) -> None:
        self.forest, self.bins, self.group, self.number = (
            forest,
            bins,
            group,
            cut_trees(forest).codes(forest.n_leaves),
        )

    def evaluate(self, k: Kernel, x: Place, trees: Ints, finish: Finish) -> None:
        """Bin the rows of a block, decide all tests, then run the program a group of trees at a time; ``finish`` gets the codes of their leaves."""
        bins, tables = self.bins, _tables(self.forest, self.bins, Array(trees), self.group)
        starts, count, plain = (
            k.constant(tables.group_start),
            tables.masks.count + tables.slots,
            len(bins.first),
        )
        with (
            k.temporary(
                "uint8", (-(-(plain + len(bins.sets.groups)) // COLUMNS) * COLUMNS,)
            ) as bytes_,
            k.temporary("uint8", (-(-count // PLANES) * PLANES * BYTES // k.tile,)) as place,
            k.temporary("uint8", (self.group,)) as codes,
            blocks(k) as block,
        ):
            columns, planes = Columns(k, bytes_), Planes(k, place)
            write_bins(k, columns, block, x, bins)
            write_masks(k, columns, block, planes, tables.masks)
            if bins.sets.groups:
                write_classes(k, columns, block, x, bins.sets, plain)
                write_sets(k, columns, block, planes, plain, tables.sets)
            run = _runner(k, planes, tables)
            with k.over((k.number(tables.groups),)) as (group,):
                begin = k.bind(k.entry(starts, group))
                with T.serial(k.entry(starts, group + 1) - begin) as i:
                    run(begin + i)
                _write_codes(k, planes, tables, group * self.group, codes)
                finish(
                    group, block, lambda tree, row: k.load(codes, (0,), _shifted(row, tree * ROWS))
                )


@lru_cache(maxsize=2)
def _tables(forest: Forest, bins: Bins, trees: Array, group: int) -> BitTables:
    """Make the tables once for all methods of a model, which are compiled one after another: one that numbers leaves has a forest of its own."""
    return make_bit_tables(forest, bins, trees.data, group)


def _runner(k: Kernel, planes: Planes, tables: BitTables) -> Callable[[Any], None]:
    """Return what emits a run: the nodes of one shape, one after another."""
    runs, words = k.constant(tables.runs), k.constant(tables.words)

    def run(number: Any) -> None:
        shape, first, count = (k.bind(k.entry(runs, number * 3 + i)) for i in range(3))
        _choose(
            shape,
            list(enumerate(tables.shapes)),
            lambda each: _emit_all(k, planes, words, first, count, each),
        )

    return run


def _choose(number: Any, shapes: list[tuple[int, Shape]], emit: Callable[[Shape], None]) -> None:
    """Do what the number says: compares that LLVM makes a jump of."""
    if not shapes:
        return
    (first, shape), *others = shapes
    with T.If(tirx.EQ(number, first)):
        with T.Then():
            emit(shape)
        if others:
            with T.Else():
                _choose(number, others, emit)


def _emit_all(
    k: Kernel, planes: Planes, words: Place, first: Any, count: Any, shape: Shape
) -> None:
    width = words_of(shape)
    with T.serial(count) as i:
        _emit(
            k,
            planes,
            shape,
            *(k.bind(k.entry(words, first + i * width + word)) for word in range(width)),
        )


def _emit(k: Kernel, planes: Planes, shape: Shape, result: Any, *operands: Any) -> None:
    """Compute a node of which these are the words."""
    if shape == LOPSIDED:
        _join_lopsided(k, planes, result, *operands)
        return
    for i, plane in enumerate(_computed(k, planes, shape, *operands)):
        planes.store(result, plane, i)


def _computed(k: Kernel, planes: Planes, shape: Shape, first: Any, *others: Any) -> list[Vector]:
    """Compute the planes of a node."""
    before = k.bind(planes.load(first))
    if shape in (BOTH, EITHER):
        decided = planes.load(others[0])
        return [before & decided if shape == BOTH else before | decided]
    if shape == FUSED:
        left, right = _part(k, planes, *others[:3]), _part(k, planes, *others[3:])
    else:
        left, right = ([planes.load(side, i) for i in range(int(shape))] for side in others)
    return [*(k.bind(_chosen(k, before, *pair)) for pair in zip(left, right, strict=True)), before]


def _part(k: Kernel, planes: Planes, before: Any, left: Any, right: Any) -> list[Vector]:
    """Compute a side of two planes."""
    decided = k.bind(planes.load(before))
    return [k.bind(_chosen(k, decided, planes.load(left), planes.load(right))), decided]


def _chosen(k: Kernel, before: Vector, left: Vector, right: Vector) -> Vector:
    """Take the left plane's bits of rows before the cut, and the right one's of others."""
    right = k.bind(right)
    return ((left ^ right) & before) ^ right


def _join_lopsided(
    k: Kernel,
    planes: Planes,
    result: Any,
    first: Any,
    left: Any,
    right: Any,
    both: Any,
    left_alone: Any,
    right_alone: Any,
) -> None:
    """Join sides of different numbers of planes: what is missing counts as zeros."""
    before, begin = k.bind(planes.load(first)), k.bind(both * BYTES)
    with T.serial(both) as i:
        at = k.bind(i * BYTES)
        planes.store(
            result + at, _chosen(k, before, planes.load(left + at), planes.load(right + at))
        )
    with T.serial(left_alone) as i:
        at = k.bind(begin + i * BYTES)
        planes.store(result + at, planes.load(left + at) & before)
    with T.serial(right_alone) as i:
        at = k.bind(begin + i * BYTES)
        planes.store(result + at, planes.load(right + at) & ~before)
    planes.store(result + (both + left_alone + right_alone) * BYTES, before)


def _write_codes(
    k: Kernel, planes: Planes, tables: BitTables, first_tree: Any, codes: Place
) -> None:
    """Turn the planes of the codes of a group's trees into bytes."""
    numbers, bits = k.constant(tables.codes), tables.codes.shape[1]
    with T.serial(codes.shape[0]) as tree:
        first = k.bind((first_tree + tree) * bits)
        held = [k.bind(planes.load(k.entry(numbers, first + i))) for i in range(bits)]
        for q, vector in enumerate(transposed_bits(k, held)):
            k.store(codes, (0,), tirx.Ramp(tree * ROWS + q * BYTES, 1, BYTES), vector)


def _shifted(row: Any, by: Any) -> Any:
    """Return a row, or a vector of rows, some rows on."""
    return (
        tirx.Ramp(row.base + by, row.stride, row.lanes) if isinstance(row, tirx.Ramp) else row + by
    )
