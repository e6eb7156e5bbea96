"""Emit category sets on bit planes: a plane for each class of codes, then one for each set."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel
from hbconv.backends.tvm.tir.row_blocks import Block
from hbconv.backends.tvm.trees.bitwise.masks import PLANE_WORD
from hbconv.backends.tvm.trees.bitwise.planes import Planes, byte_vectors, transposed_bits
from hbconv.backends.tvm.trees.bitwise.set_tables import WORDS_PER_STEP, SetTables
from hbconv.backends.tvm.trees.byte_columns import ByteColumns

__all__ = ["write_sets"]


def write_sets(
    k: Kernel, columns: ByteColumns, block: Block, planes: Planes, first: int, tables: SetTables
) -> None:
    """Decide all sets, from the columns of classes, which begin with column ``first``."""
    bits = k.constant(tables.bits)
    words = k.constant(tables.words)
    steps = k.constant(tables.step_start)
    with k.over((k.number(len(tables.bits)),)) as (group,):
        column = k.number(first) + group
        group_bits = k.entry(bits, group)
        classes = k.number(tables.classes)
        begin = k.bind(columns.begin(block, column))
        rows = byte_vectors(k, columns, begin)
        _write_class_planes(k, planes, rows, group_bits, classes)
        first_step = k.bind(k.entry(steps, group))
        with T.serial(k.entry(steps, group + 1) - first_step) as i:
            result, *terms = (
                k.bind(k.entry(words, (first_step + i) * WORDS_PER_STEP + word))
                for word in range(WORDS_PER_STEP)
            )
            plane = planes.load(terms[0])
            for term in terms[1:]:
                plane = plane ^ planes.load(term)
            planes.store(result, plane)


def _write_class_planes(
    k: Kernel, planes: Planes, rows: list[Any], n_bits: Any, classes: Any
) -> None:
    """Write a plane for each class of the rows' codes, from where ``classes`` says.

    Bit after bit: the planes of the classes without it, then those of the classes with it.
    """
    with k.temporary("uint8", (1,)) as place:
        kept = Planes(k, place)
        first = k.bind(classes)
        for i, plane in enumerate(transposed_bits(k, rows)):
            kept.store(i * PLANE_WORD, plane)
        planes.store(first, planes.ones)
        with T.serial(n_bits) as bit:
            is_set = k.bind(kept.load(bit * PLANE_WORD))
            top = k.bind(tirx.shift_left(tirx.IntImm("int32", PLANE_WORD), bit))
            with T.serial(tirx.shift_left(tirx.IntImm("int32", 1), bit)) as number:
                at = k.bind(first + number * PLANE_WORD)
                plane = k.bind(planes.load(at))
                planes.store(at, plane & ~is_set)
                planes.store(at + top, plane & is_set)
