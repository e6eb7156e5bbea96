"""Write the columns of bytes that splits compare: of thresholds, of category sets, of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, code_within
from hbconv.backends.tvm.tir.memory import Place
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bins.emit import write_bins
from hbconv.backends.tvm.trees.bins.tables import LEFT_BYTE, RIGHT_BYTE, Bins
from hbconv.backends.tvm.trees.byte_columns import ByteColumns
from hbconv.trees.category_sets import CategorySets

__all__ = ["decide_sets", "write_classes", "write_decisions", "write_split_columns"]


def write_split_columns(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, bins: Bins
) -> None:
    """Write the bytes of a block: of thresholds, then of sets, then of the classes they read."""
    write_bins(k, columns, block, x, bins)
    if bins.sets.groups:
        first = len(bins.first)
        write_classes(k, columns, block, x, bins.sets, first + bins.sets.count)
        write_decisions(k, columns, block, bins.sets, first)


def write_classes(
    k: Kernel, columns: ByteColumns, block: Block, x: Place, sets: CategorySets, first: int
) -> None:
    """Write the class of each code: a column for each group of sets, from column ``first`` on."""
    feature = k.constant(sets.feature)
    start = k.constant(sets.code_start)
    class_of = k.constant(sets.class_of)
    with k.temporary("int32", (1,)) as entries, k.over((k.number(len(sets.groups)),)) as (group,):
        source = k.bind(k.entry(feature, group))
        begin = k.bind(k.entry(start, group))
        last_code = tirx.Cast(x.dtype, k.entry(start, group + 1) - begin - 1)
        last = k.bind(tirx.Broadcast(last_code, k.lanes))
        with block.vectors() as row:
            value = k.bind(k.load(x, (source,), block.in_tile(row)))
            code = code_within(k, value, last, x.dtype, k.lanes)
            k.store(entries, (0,), row, code + tirx.Broadcast(begin, k.lanes))
        with block.rows() as row:
            column = k.number(first) + group
            class_ = k.entry(class_of, k.load(entries, (0,), row))
            columns.store(block, column, row, class_)


def write_decisions(
    k: Kernel, columns: ByteColumns, block: Block, sets: CategorySets, first: int
) -> None:
    """Write what each set decides: a column for each set, from column ``first`` on.

    The columns of the classes follow those of the sets.
    """
    decisions, begin = (k.constant(t) for t in sets.by_class(LEFT_BYTE, RIGHT_BYTE))
    start = k.constant(sets.start)
    classes = k.number(first + sets.count)
    with k.over((k.number(len(sets.groups)),)) as (group,):
        first_set = k.bind(k.entry(start, group))
        first_entry = k.bind(k.entry(begin, group))
        count = k.bind(k.entry(start, group + 1) - first_set)
        class_column = k.bind(columns.begin(block, classes + group))
        with T.serial(count) as i, block.rows() as row:
            column = k.number(first) + first_set + i
            class_ = tirx.Cast("int32", columns.load(class_column, row))
            decision = k.entry(decisions, first_entry + i + class_ * count)
            columns.store(block, column, row, decision)


def decide_sets(
    k: Kernel,
    x: Place,
    row: Any,
    sets: CategorySets,
    sides: tuple[int, int],
    store: Callable[[Any, Any], None],
) -> None:
    """Decide all sets for one row.

    Calls ``store(set, byte)`` for each, where the byte is the first of ``sides`` if the row goes
    left, and the second if it goes right.
    """
    decisions, begin = (k.constant(t) for t in sets.by_class(*sides))
    feature = k.constant(sets.feature)
    code_start = k.constant(sets.code_start)
    class_of = k.constant(sets.class_of)
    start = k.constant(sets.start)
    last = k.constant((np.diff(sets.code_start) - 1).astype(x.dtype))
    with k.over((len(sets.groups),)) as (group,):
        value = k.load(x, (k.entry(feature, group),), row)
        code = code_within(k, value, k.bind(k.entry(last, group)), x.dtype)
        class_ = k.bind(tirx.Cast("int32", k.entry(class_of, k.entry(code_start, group) + code)))
        first = k.bind(k.entry(start, group))
        count = k.bind(k.entry(start, group + 1) - first)
        entry = k.bind(k.entry(begin, group) + class_ * count)
        with T.serial(count) as i:
            store(first + i, k.entry(decisions, entry + i))
