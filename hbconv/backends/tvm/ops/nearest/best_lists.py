"""Short ordered lists of the smallest of many entries, for a row or a vector of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.ops.sorting import before
from hbconv.backends.tvm.tir.kernel import Kernel, Register, lanes, literal, spread
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["EMPTY", "NARROW", "bits", "clear", "holds", "offer", "offer_next"]

NARROW = 8
"""Rows that try an entry at once: the fewer, the more often all of them skip it."""
EMPTY = -1
"""The position in a free slot."""
select = tirx.Select


def clear(k: Kernel, positions: Place, row: Any) -> None:
    """Empty the lists."""
    with k.over(positions.shape) as slot:
        k.store(positions, slot, row, literal(EMPTY, "int32", lanes(row)))


def offer(k: Kernel, entry: Any, number: Any, values: Place, positions: Place, row: Any) -> None:
    """Insert an entry into the lists; equal entries are in order of their numbers.

    Most entries are worse than all in the lists of every row, so that is tested first.
    """
    bound_number = k.bind(number)
    empty = literal(EMPTY, "int32", lanes(row))

    def precedes(value: Any, held: Any) -> Any:
        # Not before: so equal entries, and NaN with NaN, are ordered by number as a stable sort
        # does.
        are_level = ~before(values.dtype, value, entry)
        return (
            tirx.EQ(held, empty)
            | before(values.dtype, entry, value)
            | (bound_number < held) & are_level
        )

    last = (positions.shape[0] - 1,)
    better = precedes(k.load(values, last, row), k.load(positions, last, row))
    with T.If(holds(better, lanes(row))), T.Then():
        _insert(k, precedes, entry, bound_number, values, positions, row, positions.shape[0])


def offer_next(
    k: Kernel, entry: Any, number: Any, values: Place, positions: Place, row: Any
) -> None:
    """Insert an entry whose number, the same in all rows, is the next after those offered before.

    The first entries fill the lists, so the others find no free slot, and come after their
    equals: one comparison a slot. Of 200 entries, 21 took a third of the time that ``offer`` does.
    """
    count = positions.shape[0]
    numbers = spread(number, lanes(row))

    def precedes(value: Any, _: Any) -> Any:
        return before(values.dtype, entry, value)

    with T.If(number < count):
        with T.Then():
            moved = _insert(k, precedes, entry, numbers, values, positions, row, number)
            for place, what in zip((values, positions), moved, strict=True):
                k.store(place, (number,), row, what.get())
        with T.Else():
            better = precedes(k.load(values, (count - 1,), row), None)
            with T.If(holds(better, lanes(row))), T.Then():
                _insert(k, precedes, entry, numbers, values, positions, row, count)


def _insert(
    k: Kernel,
    precedes: Callable[[Any, Any], Any],
    entry: Any,
    number: Any,
    values: Place,
    positions: Place,
    row: Any,
    count: Any,
) -> tuple[Register, Register]:
    """Put an entry before the first of ``count`` slots that it precedes, and move the others.

    Slots are in order, so it precedes all behind that one: what moves is not compared. Returns
    the value and the position that drop out.
    """
    moved = k.register(values.dtype, entry, lanes(row)), k.register("int32", number, lanes(row))
    with T.serial(count) as slot:
        held = [k.bind(k.load(place, (slot,), row)) for place in (values, positions)]
        moves = precedes(*held)
        for place, what, old, new in zip(
            (values, positions), moved, held, (entry, number), strict=True
        ):
            k.store(place, (slot,), row, select(moves, what.get(), old))
            what.set(select(moves, old, new))
    return moved


def bits(condition: Any, count: int) -> Any:
    """Return the lanes in which a condition holds as the bits of an int."""
    return tirx.Cast(
        # A mask in one integer makes the test of all lanes a single jump.
        "int32",
        tirx.reinterpret(f"uint{count}", tirx.Cast(f"uint1x{count}", condition)),
    )


def holds(condition: Any, count: int) -> Any:
    """Whether a condition holds in some lane."""
    return condition if count == 1 else tirx.NE(bits(condition, count), 0)
