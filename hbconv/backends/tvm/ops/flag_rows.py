"""Flag rows with infinite entries, for tiles of entries: a tile is flagged as a whole."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T  # noqa: N812

from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["flag_rows"]


def flag_rows(
    k: Kernel, matrix: Any, first: Any, width: int, place: Place, *, is_full: bool
) -> None:
    """Write one flag for all rows of a tile of entries: whether any of its entries is infinite.

    Parameters
    ----------
    k : Kernel
    matrix : Buffer of shape (n_rows, 1)
        Takes the flags.
    first : int expression
        Position of the tile's first entry in the matrix of entries.
    width : int
        Entries of a row.
    place : Place
        The entries.
    is_full : bool
        Whether all lanes of the tile are live, so that vectors may be read.
    """
    lanes = k.lanes if is_full else 1
    largest = k.register(place.dtype, literal(0, place.dtype, lanes), lanes)
    with k.vectors() if is_full else k.rows() as row:
        size = k.bind(tirx.abs(k.load(place, (0,), row)))
        largest.set(tirx.Select(size > largest.get(), size, largest.get()))
    infinity = literal(float("inf"), place.dtype, 1)
    is_infinite = tirx.EQ(_largest_lane(k, largest.get(), lanes), infinity)
    flag = k.bind(tirx.Select(is_infinite, literal(1, "uint8", 1), literal(0, "uint8", 1)))
    with T.serial(k.rows_live // width) as row:
        T.buffer_store(matrix, flag, [first // width + row, 0])


def _largest_lane(k: Kernel, vector: Any, lanes: int) -> Any:
    """Halve a vector without NaN until one lane is left."""
    while lanes > 1:
        lanes //= 2
        low, high = (
            k.bind(tirx.Shuffle([vector], list(range(start, start + lanes))))
            for start in (0, lanes)
        )
        vector = k.bind(tirx.Select(low > high, low, high))
    return vector
