"""Emit primitives that move entries: copies, views, and reads at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.passes.outline import first_of_run, positions_taken
from hbconv.backends.tvm.tir.kernel import Kernel, literal, spread
from hbconv.backends.tvm.tir.memory import InScratch, Place

__all__ = ["EMITTERS", "view"]


def view(
    primitive: str, operands: tuple[Place, ...], attributes: Mapping[str, Any]
) -> Place | None:
    """Return the result as a view of an operand's memory; None if it is not a view."""
    if primitive == "reshape":
        return operands[0].view(tuple(attributes["shape"]))
    if primitive == "expand":
        return operands[1]
    return _run(operands[0], operands[1], attributes["axis"]) if primitive == "take" else None


def _run(x: Place, indices: Place, axis: int) -> Place | None:
    """View neighbouring entries of an axis."""
    first = first_of_run(x.shape, indices.numpy(), axis)
    if first is None:
        return None
    inner = x.shape[axis + 1 :]
    shape = (*x.shape[:axis], indices.size, *inner)
    return x.view(shape, first * int(np.prod(inner)))


def take(k: Kernel, out: Place, x: Place, indices: Place, axis: int) -> None:
    """Emit ``take``: copy the entries that a table names."""
    wanted = k.constant(positions_taken(x.shape[axis], indices.numpy()))
    with k.over(out.shape) as index:
        source = k.bind(k.entry(wanted, index[axis]))
        with k.vectors() as row:
            k.store(out, index, row, k.load(x, (*index[:axis], source, *index[axis + 1 :]), row))


def concat(k: Kernel, out: Place, *xs: Place, axis: int) -> None:
    """Emit ``concat``: copy every entry.

    If all operands are in scratch, one loop copies them: many loops would take long to compile.
    """
    scratch = [x for x in xs if isinstance(x, InScratch)]
    if len(scratch) == len(xs):
        # The table of positions is data, so concatenations of one shape share code.
        entries = [x.offset + np.arange(x.size, dtype=np.int32).reshape(x.shape) for x in scratch]
        _copy(k, out.view((out.size,)), np.concatenate(entries, axis).ravel())
        return
    start = 0
    for x in xs:
        with k.over(x.shape) as index, k.vectors() as row:
            target = (*index[:axis], index[axis] + start, *index[axis + 1 :])
            k.store(out, target, row, k.load(x, index, row))
        start += x.shape[axis]


def _copy(k: Kernel, out: Place, entries: npt.NDArray[np.int32]) -> None:
    """Copy the given entries of scratch."""
    places = k.constant(entries)
    scratch = InScratch(out.dtype, (int(entries.max()) + 1,), offset=0)
    with k.over(out.shape) as (i,):
        source = k.bind(k.entry(places, i))
        with k.vectors() as row:
            k.store(out, (i,), row, k.load(scratch, (source,), row))


def lookup(k: Kernel, out: Place, table: Place, index: Place) -> None:
    """Emit ``lookup``: read a table at the position of each row.

    Positions are held inside the table by vectors, since each takes more instructions than a read.
    """
    entries = table.shape[1:]
    width = int(np.prod(entries))
    last = k.bind(k.number(table.shape[0]) - 1)
    with k.temporary("int32", (1,)) as positions, k.over(index.shape) as at:
        with k.vectors() as row:
            k.store(positions, (0,), row, _inside_all(k, k.load(index, at, row), last))
        with k.over(entries) as rest, k.rows() as row:
            inner = tirx.IntImm("int32", 0)
            for extent, i in zip(entries, rest, strict=True):
                inner = inner * extent + i
            position = k.load(positions, (0,), row)
            k.store(out, (*at, *rest), row, k.entry(table, position * width + inner))


def _inside_all(k: Kernel, positions: Any, last: Any) -> Any:
    """Do what ``inside`` does for a vector of positions."""
    zero = literal(0, "int32", k.lanes)
    end = k.bind(spread(last, k.lanes))
    size = k.bind(spread(last + 1, k.lanes))
    wrapped = k.bind(tirx.Select(positions < zero, positions + size, positions))
    below = k.bind(tirx.Select(wrapped < end, wrapped, end))
    return tirx.Select(below > zero, below, zero)


def gather(k: Kernel, out: Place, x: Place, index: Place) -> None:
    """Emit ``gather``: read each row of ``x`` at the position of that row."""
    with k.over(out.shape) as at, k.rows() as row:
        k.store(out, at, row, k.load(x, (inside(k.load(index, at, row), x.shape[0]),), row))


def scatter(k: Kernel, out: Place, tokens: Place, weights: Place, width: int) -> None:
    """Emit ``scatter``: write zeros, then add one weight after the other, row by row."""
    with k.over(out.shape) as at, k.vectors() as row:
        k.store(out, at, row, literal(0, out.dtype, k.lanes))
    with k.over(tokens.shape) as at, k.rows() as row:
        place = k.bind(k.load(tokens, at, row))
        # The token ``width`` names no column: it pads rows of fewer entries.
        with T.If(place < width), T.Then():
            here = (inside(place, width),)
            k.store(out, here, row, k.load(out, here, row) + k.load(weights, at, row))


def inside(position: Any, size: Any) -> Any:
    """Return a position that is inside: negative ones count from the end, others are clamped."""
    # Clamped, since a program may compute any position and kernels read bare memory.
    wrapped = tirx.Select(position < 0, position + size, position)
    return tirx.max(tirx.min(wrapped, size - 1), tirx.IntImm("int32", 0))


EMITTERS: dict[str, Callable[..., None]] = {
    "take": take,
    "concat": concat,
    "lookup": lookup,
    "gather": gather,
    "scatter": scatter,
}
