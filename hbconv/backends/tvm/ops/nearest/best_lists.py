"""Short ordered lists of the smallest of many entries, for a row or a vector of rows."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.sorting import before
from hbconv.backends.tvm.tir.kernel import Kernel, Register, lanes, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["NARROW", "bits", "clear", "holds", "offer"]

NARROW = 8
"""Rows that try an entry at once: the fewer, the more often all of them skip it."""
EMPTY = -1
"""The position in a free slot."""
select = tirx.Select


def clear(k: Kernel, positions: Place, row: Any) -> None:
    """Empty the lists."""
    with k.over(positions.shape) as slot:
        k.store(positions, slot, row, literal(EMPTY, "int32", lanes(row)))


def offer(
    k: Kernel, entry: Register, number: Any, values: Place, positions: Place, row: Any
) -> None:
    """Insert an entry into the lists; equal entries are in order of their numbers.

    Most entries are worse than all in the lists of every row, so that is tested first.
    """
    last = (positions.shape[0] - 1,)
    worst = k.load(values, last, row)
    held = k.load(positions, last, row)
    is_free = tirx.EQ(held, literal(EMPTY, "int32", lanes(row)))
    equal = tirx.EQ(entry.get(), worst) & (number < held)
    better = is_free | before(values.dtype, entry.get(), worst) | equal
    with T.If(holds(better, lanes(row))), T.Then():
        sink(k, entry, number, values, positions, row)


def sink(k: Kernel, entry: Register, first: Any, values: Place, positions: Place, row: Any) -> None:
    """Exchange an entry with each one that it stands before, down to the last, which drops out."""
    number = k.register("int32", first, lanes(row))
    with k.over(positions.shape) as slot:
        value, held = (k.bind(k.load(place, slot, row)) for place in (values, positions))
        ahead = before(values.dtype, entry.get(), value)
        behind = before(values.dtype, value, entry.get())
        is_free = tirx.EQ(held, literal(EMPTY, "int32", lanes(row)))
        sinks = is_free | ahead | ((number.get() < held) & ~behind)
        k.store(values, slot, row, select(sinks, entry.get(), value))
        k.store(positions, slot, row, select(sinks, number.get(), held))
        number.set(select(sinks, held, number.get()))
        entry.set(select(sinks, value, entry.get()))


def bits(condition: Any, count: int) -> Any:
    """Return the lanes in which a condition holds as the bits of an int."""
    return tirx.Cast(
        "int32", tirx.reinterpret(f"uint{count}", tirx.Cast(f"uint1x{count}", condition))
    )


def holds(condition: Any, count: int) -> Any:
    """Whether a condition holds in some lane."""
    return condition if count == 1 else tirx.NE(bits(condition, count), 0)
