"""Category sets on bit planes: a plane for each class of codes, and each set as another one with a few classes more or less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.emit import Columns
from hbconv.backends.tvm.trees.bitwise.planes import BYTES, ONES, Planes, transposed_bits
from hbconv.backends.tvm.trees.categories.tables import CategorySets, Group

__all__ = ["SetTables", "make_set_tables", "write_sets"]

TERMS = 3
"""Classes that one step adds to a set or takes from it."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SetTables:
    """Sets as a program over planes.

    Parameters
    ----------
    bits : int32 (n_groups,)
        How many tell the classes of a group apart.
    words : int32 (n_steps, 2 + TERMS)
        Where the result's plane begins, then what is combined by exclusive or: a plane that has been written, and planes of classes.
    step_start : int32 (n_groups + 1,)
        First step of each group.
    classes : int
        Where the planes of a group's classes begin, which take the place of those of the group before.
    """

    bits: npt.NDArray[np.int32]
    words: npt.NDArray[np.int32]
    step_start: npt.NDArray[np.int32]
    classes: int

    @property
    def most(self) -> int:
        """Planes of classes that memory is needed for."""
        return 1 << int(self.bits.max(initial=0)) if len(self.bits) else 0


def make_set_tables(sets: CategorySets, first: int) -> SetTables:
    """Write the program of sets whose planes are those from ``first`` on; plane 0 is zeros, and classes come after the sets."""
    classes = first + sets.count
    steps = [
        _steps(group, int(start) + first, classes)
        for group, start in zip(sets.groups, sets.start[:-1], strict=True)
    ]
    return SetTables(
        bits=np.array([(len(group.goes_left) - 1).bit_length() for group in sets.groups], np.int32),
        words=(np.concatenate([np.zeros((0, 2 + TERMS), np.int64), *steps]) * BYTES).astype(
            np.int32
        ),
        step_start=np.cumsum([0, *map(len, steps)], dtype=np.int32),
        classes=classes * BYTES,
    )


def _steps(group: Group, first: int, classes: int) -> Ints:
    """Write the steps of a group: each set begins as the one that is told from it by the fewest classes."""
    order, nearest = _spanned(group.goes_left)
    held = np.concatenate([group.goes_left, np.zeros((len(group.goes_left), 1), bool)], axis=1)
    rows, terms = np.nonzero((held[:, order] ^ held[:, nearest]).T)
    count = np.bincount(rows, minlength=len(order))
    turn = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    needed = np.maximum(1, -(-count // TERMS))
    begin = np.cumsum(needed) - needed
    words = np.zeros((int(needed.sum()), 2 + TERMS), np.int64)
    words[:, :2] = np.repeat(first + order, needed)[:, None]
    words[begin, 1] = np.where(nearest < len(order), first + nearest, 0)
    words[begin[rows] + turn // TERMS, 2 + turn % TERMS] = classes + terms
    return words


def _spanned(goes_left: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Return an order of the sets, and for each the one before it that it differs from least; the number of sets for the empty one (Prim, 1957)."""
    size = goes_left.sum(axis=0)
    held, count = goes_left.astype(np.float32), goes_left.shape[1]
    apart = size[:, None] + size - 2 * (held.T @ held).astype(np.int64)
    distance, nearest, waiting = (
        size.astype(np.float64),
        np.full(count, count),
        np.ones(count, bool),
    )
    order = np.empty(count, np.int64)
    for turn in range(count):
        order[turn] = added = int(np.argmin(distance))
        waiting[added], distance[added] = False, np.inf
        closer = waiting & (apart[added] < distance)
        distance[closer], nearest[closer] = apart[added][closer], added
    return order, nearest[order]


def write_sets(
    k: Kernel, columns: Columns, block: Block, planes: Planes, first: int, tables: SetTables
) -> None:
    """Decide all sets, from the columns of classes, which begin with the one given."""
    bits, words, steps = (
        k.constant(tables.bits),
        k.constant(tables.words),
        k.constant(tables.step_start),
    )
    with k.over((k.number(len(tables.bits)),)) as (group,):
        _write_classes(
            k,
            columns,
            block,
            planes,
            k.number(first) + group,
            k.entry(bits, group),
            k.number(tables.classes),
        )
        begin = k.bind(k.entry(steps, group))
        with T.serial(k.entry(steps, group + 1) - begin) as i:
            result, *terms = (
                k.bind(k.entry(words, (begin + i) * (2 + TERMS) + word))
                for word in range(2 + TERMS)
            )
            plane = planes.load(terms[0])
            for term in terms[1:]:
                plane = plane ^ planes.load(term)
            planes.store(result, plane)


def _write_classes(
    k: Kernel, columns: Columns, block: Block, planes: Planes, column: Any, bits: Any, first: Any
) -> None:
    """Write a plane for each class: bit after bit, those of the classes without it, then of those with it."""
    begin = k.bind(columns.begin(block, column))
    rows = [k.bind(columns.load(begin, tirx.Ramp(BYTES * q, 1, BYTES))) for q in range(8)]
    with k.temporary("uint8", (1,)) as place:
        kept, first = Planes(k, place), k.bind(first)
        for i, plane in enumerate(transposed_bits(k, rows)):
            kept.store(i * BYTES, plane)
        planes.store(first, ONES)
        with T.serial(bits) as bit:
            is_set, top = (
                k.bind(kept.load(bit * BYTES)),
                k.bind(tirx.shift_left(tirx.IntImm("int32", BYTES), bit)),
            )
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as number:
                at = k.bind(first + number * BYTES)
                plane = k.bind(planes.load(at))
                planes.store(at, plane & ~is_set)
                planes.store(at + top, plane & is_set)
