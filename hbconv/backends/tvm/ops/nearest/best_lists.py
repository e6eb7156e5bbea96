"""Short lists of the smallest of many entries, in order, for vectors of rows."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.sorting import before
from hbconv.backends.tvm.tir.kernel import Kernel, Register, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["NARROW", "bits", "clear", "holds", "offer"]

NARROW = 8
"""Rows that an entry is tried in at once: the fewer, the more often it is in none of their lists."""
select = tirx.Select


def clear(k: Kernel, positions: Place, row: Any) -> None:
    """Begin a list: no position is held."""
    with k.over(positions.shape) as slot:
        k.store(positions, slot, row, literal(-1, "int32", NARROW))


def offer(
    k: Kernel, entry: Register, number: Any, values: Place, positions: Place, row: Any
) -> None:
    """Let an entry sink into the lists, in order of the numbers; most are worse than all in them, in every row of a narrow vector."""
    last = (positions.shape[0] - 1,)
    worst, held = k.load(values, last, row), k.load(positions, last, row)
    equal = tirx.EQ(entry.get(), worst) & (number < held)
    with (
        T.If(
            holds(
                tirx.EQ(held, literal(-1, "int32", NARROW))
                | before(values.dtype, entry.get(), worst)
                | equal,
                NARROW,
            )
        ),
        T.Then(),
    ):
        sink(k, entry, number, values, positions, row)


def sink(k: Kernel, entry: Register, first: Any, values: Place, positions: Place, row: Any) -> None:
    """Exchange an entry with each on its way that it stands before, until it is in its place and the last is out; of equals the lower number is first."""
    number = k.register("int32", first, NARROW)
    with k.over(positions.shape) as slot:
        value, held = (k.bind(k.load(place, slot, row)) for place in (values, positions))
        ahead, behind = (
            before(values.dtype, a, b) for a, b in ((entry.get(), value), (value, entry.get()))
        )
        sinks = (
            tirx.EQ(held, literal(-1, "int32", NARROW)) | ahead | ((number.get() < held) & ~behind)
        )
        k.store(values, slot, row, select(sinks, entry.get(), value))
        k.store(positions, slot, row, select(sinks, number.get(), held))
        number.set(select(sinks, held, number.get()))
        entry.set(select(sinks, value, entry.get()))


def bits(condition: Any, lanes: int) -> Any:
    """Return the lanes where a condition holds as the bits of an int."""
    return tirx.Cast(
        "int32", tirx.reinterpret(f"uint{lanes}", tirx.Cast(f"uint1x{lanes}", condition))
    )


def holds(condition: Any, lanes: int) -> Any:
    """Whether a condition holds in some lane."""
    return tirx.NE(bits(condition, lanes), 0)
