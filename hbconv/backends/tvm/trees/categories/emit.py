"""Emit what category sets read: the classes of a block's codes, and what all sets say to one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, code_within
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.emit import Columns
from hbconv.backends.tvm.trees.bins.tables import BIAS
from hbconv.backends.tvm.trees.categories.tables import CategorySets

__all__ = ["say", "write_classes", "write_said"]


def write_classes(
    k: Kernel, columns: Columns, block: Block, x: Place, sets: CategorySets, first: int
) -> None:
    """Look the classes of codes up, to the columns from ``first`` on: one for each group."""
    feature, start, class_of = (
        k.constant(t) for t in (sets.feature, sets.code_start, sets.class_of)
    )
    with k.temporary("int32", (1,)) as place, k.over((k.number(len(sets.groups)),)) as (group,):
        source, begin = k.bind(k.entry(feature, group)), k.bind(k.entry(start, group))
        last = k.bind(
            tirx.Broadcast(tirx.Cast(x.dtype, k.entry(start, group + 1) - begin - 1), k.lanes)
        )
        with block.vectors() as row:
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            k.store(
                place,
                (0,),
                row,
                code_within(k, value, last, x.dtype, k.lanes) + tirx.Broadcast(begin, k.lanes),
            )
        with block.rows() as row:
            columns.store(
                block, k.number(first) + group, row, k.entry(class_of, k.load(place, (0,), row))
            )


def write_said(k: Kernel, columns: Columns, block: Block, sets: CategorySets, first: int) -> None:
    """Look up what each set says to the classes, to the columns from ``first`` on; those of the classes follow them."""
    said, begin = (k.constant(t) for t in sets.by_class(0 ^ BIAS, 255 ^ BIAS))
    start, classes = k.constant(sets.start), k.number(first + sets.count)
    with k.over((k.number(len(sets.groups)),)) as (group,):
        first_set, first_entry = k.bind(k.entry(start, group)), k.bind(k.entry(begin, group))
        count, class_column = (
            k.bind(k.entry(start, group + 1) - first_set),
            k.bind(columns.begin(block, classes + group)),
        )
        with T.serial(count) as i, block.rows() as row:
            entry = first_entry + i + tirx.Cast("int32", columns.load(class_column, row)) * count
            columns.store(block, k.number(first) + first_set + i, row, k.entry(said, entry))


def say(
    k: Kernel,
    x: Place,
    row: Any,
    sets: CategorySets,
    left: int,
    right: int,
    store: Callable[[Any, Any], None],
) -> None:
    """Have what each set says to a row, in bytes, given to ``store(set, byte)``."""
    said, begin = (k.constant(t) for t in sets.by_class(left, right))
    feature, code_start, class_of, start = (
        k.constant(t) for t in (sets.feature, sets.code_start, sets.class_of, sets.start)
    )
    last = k.constant((np.diff(sets.code_start) - 1).astype(x.dtype))
    with k.over((len(sets.groups),)) as (group,):
        code = code_within(
            k, k.load(x, (k.entry(feature, group),), row), k.bind(k.entry(last, group)), x.dtype
        )
        class_ = k.bind(tirx.Cast("int32", k.entry(class_of, k.entry(code_start, group) + code)))
        first = k.bind(k.entry(start, group))
        count = k.bind(k.entry(start, group + 1) - first)
        entry = k.bind(k.entry(begin, group) + class_ * count)
        with T.serial(count) as i:
            store(first + i, k.entry(said, entry + i))
