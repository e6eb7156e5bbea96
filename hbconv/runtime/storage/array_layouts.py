"""Arrays that a file need not hold, since they are others in another layout.

Kernels read matrices in panels: some rows side by side, column by column. So a file would hold the
points of neighbours, or the weights of a product, once in the graph and once for each loop. Such an
array is written as a recipe: which array it is, in panels of how many rows, times a power of two,
in which dtype. Behind the rows come a few more: padding, or some of the last rows again. Points in
blocks of neighbours stand in an order that is stored besides.

A recipe counts only if it gives the very bytes. Recipes read arrays that are stored, no others.
"""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import StoreError
from hbconv.runtime.storage.narrow import has_room

__all__ = [
    "ArrayLayout",
    "drop_layouts",
    "find_layout",
    "find_order",
    "have_room",
    "lay_out",
    "read_layouts",
    "restore_layouts",
]

Numbers = npt.NDArray[Any]

DTYPES = ("float32", "float64")
LEAST_BYTES = 1 << 12
"""Bytes from which a layout is looked for: a recipe takes a few hundred."""
MOST_TAIL = 1 << 10
"""Rows that may be other than those of the source: what fills the last panel."""
MOST_TIMES = 8
"""Powers of two that a source may be multiplied by: products are scaled by -2."""
SAMPLE = 64
"""Entries that are compared first."""
MOST_WIDTH = 1 << 12
"""Columns, and rows of a panel, up to which those of a constant are looked for."""
MOST_TRIED = 16
"""Pairs of a width and a panel that are tried for a constant: data that repeats has many."""
MOST_SOURCES = 16
"""Sources that are tried: many arrays begin with zero."""
LINE = 64
"""Bytes of a cache line, which constants fill."""
LEAST_ORDER = 1 << 10
"""Rows of an order that is tried."""
MOST_ORDERS = 4
"""Orders that are tried for an array."""


@dataclass(frozen=True)
class ArrayLayout:
    """How an array is made of another one.

    Parameters
    ----------
    source : str
        Name of the array that is stored.
    tensor : str
        Name of the array in its member; none where it stands among those of the graph.
    dtype : str
    shape : tuple of int
    width : int
        Columns of the matrix that both hold.
    panels : tuple of int
        Rows of a panel of the source, and of the array: 1 is row by row.
    times : float
        Factor, a power of two.
    tail : tuple of int
        The rows of the source behind the first ones, which are in order; -1 is a row of ``fill``.
    first : int
        Rows before the tail.
    fill : str
        As Python writes a float.
    order : str
        Name of a stored array of ints: which rows of the source the first ones are. Without it,
        they are in order.
    """

    source: str
    tensor: str
    dtype: str
    shape: tuple[int, ...]
    width: int
    panels: tuple[int, int]
    times: float
    first: int
    tail: tuple[int, ...]
    fill: str
    order: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


Layouts = dict[str, ArrayLayout]


def drop_layouts(
    arrays: Mapping[str, Numbers], members: Mapping[str, bytes]
) -> tuple[dict[str, Numbers], dict[str, bytes], Layouts]:
    """Return the arrays of the graph and the members that must be stored, and recipes of others.

    Members that are one tensor may be dropped. Large arrays are sources of small ones.
    """
    alone = {name: _one_tensor(data) for name, data in members.items()}
    tensors = {name: found for name, found in alone.items() if found is not None}
    named = [(name, "", array) for name, array in arrays.items()]
    named += [(name, *found) for name, found in tensors.items()]
    # Members may be read from arrays of the graph, and these from none of the members.
    named.sort(key=lambda entry: (bool(entry[1]), -entry[2].nbytes))
    # Few arrays have the first entry in common: of 200 matrices, all pairs took 54 s.
    sources: dict[float, dict[str, Numbers]] = defaultdict(dict)
    layouts: Layouts = {}
    for name, tensor, array in named:
        alike = sources[_first_digits(array)]
        found = find_layout(array, alike)
        if found is None:
            alike[name] = array
        else:
            layouts[name] = replace(found, tensor=tensor)
    layouts |= _reordered(
        [entry for entry in named if entry[0] not in layouts],
        {layout.source for layout in layouts.values()},
    )
    return (
        {name: array for name, array in arrays.items() if name not in layouts},
        {name: data for name, data in members.items() if name not in layouts},
        layouts,
    )


def restore_layouts(
    layouts: Layouts, arrays: Mapping[str, Numbers], members: Mapping[str, bytes], size: int
) -> tuple[dict[str, Numbers], dict[str, bytes]]:
    """Return the arrays and the members of a file of so many bytes, with those of recipes.

    Raises
    ------
    StoreError
        A recipe reads what is not there, or all take far more memory than the file.
    """
    from safetensors.numpy import save

    if not have_room(layouts, size):
        raise StoreError("The model file holds recipes that take far more memory than it.")
    whole, written = dict(arrays), dict(members)

    def stored(source: str, layout: ArrayLayout) -> Numbers:
        if source in arrays:
            return arrays[source]
        found = _one_tensor(members.get(source, b""))
        if found is None or not layout.tensor:
            raise StoreError(
                f"The model file lacks the array {source:.99}, which others are made of."
            )
        return found[1]

    for name, layout in layouts.items():
        order = stored(layout.order, layout) if layout.order else None
        array = lay_out(layout, stored(layout.source, layout), order)
        if layout.tensor:
            written[name] = save({layout.tensor: array})
        else:
            whole[name] = array
    return whole, written


def have_room(layouts: Layouts, size: int) -> bool:
    """Whether a file of so many bytes may have these recipes."""
    return has_room(sum(layout.nbytes for layout in layouts.values()), size)


def _one_tensor(data: bytes) -> tuple[str, Numbers] | None:
    """Return the only tensor of a member of safetensors; None of other members."""
    from safetensors.numpy import load, save

    if len(data) < LEAST_BYTES or not _may_be_tensors(data):
        return None
    tensors = load(data)
    if len(tensors) != 1 or save(tensors) != data:
        return None
    ((name, array),) = tensors.items()
    return name, array


def _may_be_tensors(data: bytes) -> bool:
    """Whether bytes begin as safetensors do: the length of a header, and JSON."""
    (length,) = struct.unpack_from("<Q", data)
    return length < len(data) and data[8:9] == b"{"


def _reordered(named: Sequence[tuple[str, str, Numbers]], sources: set[str]) -> Layouts:
    """Return recipes of members that hold the rows of another array in an order that is stored.

    Arrays that other recipes read stay.
    """
    others = {name: array for name, _, array in named}
    orders = {name: array for name, array in others.items() if _is_order(array)}
    layouts: Layouts = {}
    for name, tensor, array in named if orders else ():
        if name in sources or not tensor:
            continue
        del others[name]
        found = find_order(array, others, orders)
        if found is None:
            others[name] = array
        else:
            layouts[name] = replace(found, tensor=tensor)
            sources.add(found.source)
    return layouts


def _is_order(array: Numbers) -> bool:
    """Whether an array may tell which rows of another one its own are."""
    if array.dtype.kind != "i" or array.ndim != 1 or len(array) < LEAST_ORDER:
        return False
    return bool(array.min() >= 0 and array.max() < len(array))


def lay_out(layout: ArrayLayout, source: Numbers, order: Numbers | None = None) -> Numbers:
    """Write the array.

    Raises
    ------
    ValueError, IndexError
        The source has another size, or the order names rows that it lacks.
    """
    panel, own = layout.panels
    tail = np.array(layout.tail, np.int64)
    # Nothing but the rows wanted is read: many recipes may name one large source.
    rows = _whole_panels(source, layout.width, panel)
    if order is None:
        whole = layout.first // panel
        part = rows[whole : whole + 1, : layout.first % panel]
        first = [rows[:whole].reshape(-1, layout.width), part.reshape(-1, layout.width)]
    else:
        numbers = order[: layout.first]
        first = [rows[numbers // panel, numbers % panel]]
    matrix = np.concatenate([*first, rows[tail // panel, tail % panel]])
    # A cast may overflow, as it did when the array was made.
    with np.errstate(all="ignore"):
        matrix = (matrix * source.dtype.type(layout.times)).astype(layout.dtype)
    matrix[layout.first :][tail < 0] = float(layout.fill)
    return _panels(matrix, own).reshape(layout.shape)


def read_layouts(documents: Mapping[str, Any]) -> Layouts:
    """Read the recipes of a file, which may be anyone's.

    Raises
    ------
    StoreError
        One is no recipe.
    """
    return {name: _read_layout(document) for name, document in documents.items()}


def _read_layout(document: Any) -> ArrayLayout:
    try:
        fields: dict[str, Any] = {
            name: tuple(value) if type(value) is list else value for name, value in document.items()
        }
        layout = ArrayLayout(**fields)
        sizes = (*layout.shape, layout.width, *layout.panels, layout.first)
        sound = (
            type(layout.source) is str
            and type(layout.tensor) is str
            and layout.dtype in DTYPES
            and all(type(size) is int and size >= 0 for size in sizes)
            and min(layout.width, *layout.panels) > 0
            and type(layout.times) is float
            and all(type(row) is int and row >= -1 for row in layout.tail)
            and type(layout.fill) is str
            and type(layout.order) is str
            and (layout.first + len(layout.tail)) * layout.width == math.prod(layout.shape)
        )
    except (TypeError, AttributeError) as error:
        raise StoreError("The model file holds a recipe of an array that is none.") from error
    if not sound:
        raise StoreError("The model file holds a recipe of an array that is none.")
    return layout


def find_layout(array: Numbers, sources: Mapping[str, Numbers]) -> ArrayLayout | None:
    """Return the recipe of an array; None where no source gives its very bytes."""
    if array.dtype.name not in DTYPES or array.nbytes < LEAST_BYTES:
        return None
    usable = ((n, source) for n, source in sources.items() if source.dtype.name in DTYPES)
    for name, source in islice(usable, MOST_SOURCES):
        for width, panels, times in _candidates(source, array.ravel()):
            found = _match(name, source, array, width, panels, times)
            if found is not None:
                return found
    return None


def find_order(
    array: Numbers, sources: Mapping[str, Numbers], orders: Mapping[str, Numbers]
) -> ArrayLayout | None:
    """Return the recipe of an array whose rows stand in one of some orders; None without one."""
    if array.dtype.name not in DTYPES or array.nbytes < LEAST_BYTES:
        return None
    fitting = [(n, order) for n, order in orders.items() if array.size % len(order) == 0]
    if not fitting:
        return None
    usable = {name: a for name, a in sources.items() if a.dtype.name in DTYPES}
    for (number, order), (name, source) in product(islice(fitting, MOST_ORDERS), usable.items()):
        for width, panels in _of_order(source.ravel(), array.ravel(), order):
            times = _factor(source.ravel(), array.ravel(), width, panels, order)
            if times is None:
                continue
            found = _match(name, source, array, width, panels, times, order)
            if found is not None:
                return replace(found, order=number)
    return None


def _first_digits(array: Numbers) -> float:
    """Return what all layouts of an array have in common: the digits of its first entry.

    Each begins with it, times a power of two, in float32 or more.
    """
    if not array.size or array.dtype.name not in DTYPES:
        return -2.0
    with np.errstate(all="ignore"):
        digits = abs(float(np.frexp(array.flat[0].astype(np.float32))[0]))
    # NaN is no key: it does not equal itself.
    return -1.0 if math.isnan(digits) else digits


def _rows(flat: Numbers, width: int, panel: int) -> Numbers:
    """Return the matrix that panels hold."""
    return _whole_panels(flat, width, panel).reshape(-1, width)


def _whole_panels(flat: Numbers, width: int, panel: int) -> Numbers:
    """Return the panels that are whole, the rows of each one after another."""
    size = flat.size // (width * panel) * width * panel
    return flat.reshape(-1)[:size].reshape(-1, width, panel).transpose(0, 2, 1)


def _panels(matrix: Numbers, panel: int) -> Numbers:
    """Return the panels of a matrix, one after another."""
    return matrix.reshape(-1, panel, matrix.shape[1]).transpose(0, 2, 1).ravel()


def _candidates(source: Numbers, flat: Numbers) -> Iterator[tuple[int, tuple[int, int], float]]:
    """Yield widths, panels and factors for which some entries agree."""
    if source.ndim == 2:
        pairs = _of_matrix(source.shape[0], source.shape[1], flat.size)
    else:
        pairs = _of_constant(source.ravel(), flat)
    for width, panels in pairs:
        times = _factor(source.ravel(), flat, width, panels)
        if times is not None:
            yield width, panels, times


def _of_matrix(rows: int, columns: int, size: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield widths and panels of a matrix, and of what it is transposed."""
    for width, count, panel in ((columns, rows, 1), (rows, columns, columns)):
        n_rows = size // width if width else 0
        if width and not size % width and count - MOST_TAIL <= n_rows <= 2 * count + MOST_TAIL:
            # Of a single column, all panels are alike.
            most = min(n_rows, MOST_WIDTH) if width > 1 else 1
            own = np.arange(1, most + 1)
            yield from ((width, (panel, each)) for each in own[n_rows % own == 0].tolist())
            if n_rows > most:
                yield width, (panel, n_rows)


def _of_constant(source: Numbers, flat: Numbers) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield widths and panels of two constants of the same rows.

    Both begin with the first entries of the same rows, as many as the lower panels have. There the
    lower panel goes on with the second column, and the higher one with its next row.
    """
    panel = _first_apart(source, flat)
    if panel is None:
        yield 1, (1, 1)
        return
    if not panel:
        return
    for low, high in ((source, flat), (flat, source)):
        widths = np.arange(1, min(MOST_WIDTH, (low.size - 1) // panel) + 1)
        widths = widths[(low.size % (widths * panel) == 0) & (low[widths * panel] == high[panel])]
        others = np.flatnonzero(high[: MOST_WIDTH + 1] == low[panel])
        others = others[others > panel]
        pairs = (
            (width, other)
            for width in widths.tolist()
            for other in others[high.size % (width * others) == 0].tolist()
        )
        for width, other in islice(pairs, MOST_TRIED):
            yield width, (panel, other) if low is source else (other, panel)


def _of_order(
    source: Numbers, flat: Numbers, order: Numbers
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield widths and panels of rows in an order, where the first entry is that of the source."""
    width = flat.size // len(order)
    digits, first = _first_digits(flat), int(order[0])
    panels = np.arange(1, MOST_WIDTH + 1)
    n_rows = source.size // (width * panels) * panels
    # Zeros fill the last cache line of a constant.
    whole = (source.nbytes - n_rows * width * source.itemsize < LINE) & (order.max() < n_rows)
    own = panels[len(order) % panels == 0].tolist()
    for panel in panels[whole].tolist():
        place = first // panel * panel * width + first % panel
        if _first_digits(source[place : place + 1]) == digits:
            yield from ((width, (panel, each)) for each in own)


def _first_apart(x: Numbers, y: Numbers) -> int | None:
    """Return the first place at which two arrays differ; None where one begins as the other."""
    least = min(x.size, y.size)
    # Most arrays differ at once, and large ones take time to compare.
    for end in (min(least, MOST_WIDTH), least):
        apart = np.flatnonzero(x[:end] != y[:end])
        if len(apart):
            return int(apart[0])
    return None


def _factor(
    source: Numbers,
    flat: Numbers,
    width: int,
    panels: tuple[int, int],
    order: Numbers | None = None,
) -> float | None:
    """Return the factor for which some entries agree; None where they do not."""
    count = (min(source.size, flat.size) if order is None else flat.size) // width
    row = np.linspace(0, max(0, count - MOST_TAIL - 1), SAMPLE).astype(np.int64)
    column = np.arange(SAMPLE) * 7 % width
    of_source, of_flat = (
        rows // panel * panel * width + column * panel + rows % panel
        for rows, panel in zip((row if order is None else order[row], row), panels, strict=True)
    )
    if of_source.max() >= source.size or of_flat.max() >= flat.size:
        return None
    x, y = source[of_source], flat[of_flat]
    with np.errstate(all="ignore"):
        ratios = np.divide(y, x, dtype=np.float64)
        ratios = ratios[np.isfinite(ratios) & (ratios != 0)]
        times = 1.0
        if len(ratios):
            times = math.copysign(2.0 ** round(math.log2(abs(ratios[0]))), ratios[0])
        same = (x * x.dtype.type(times)).astype(y.dtype)
    agree = np.array_equal(same, y, equal_nan=True)
    return times if agree and abs(math.log2(abs(times))) <= MOST_TIMES else None


def _match(
    name: str,
    source: Numbers,
    array: Numbers,
    width: int,
    panels: tuple[int, int],
    times: float,
    order: Numbers | None = None,
) -> ArrayLayout | None:
    """Return the recipe if it gives the very bytes.

    1. Find the rows that are equal from the first one on.
    2. Find each row behind them among the last ones of the source, or take it for padding.
    """
    with np.errstate(all="ignore"):
        rows = (_rows(source, width, panels[0]) * source.dtype.type(times)).astype(array.dtype)
    if order is not None:
        rows = rows[order]
    own = _rows(array, width, panels[1])
    least = min(len(rows), len(own))
    word = f"u{array.itemsize}"
    equal = (rows[:least].view(word) == own[:least].view(word)).all(axis=1)
    first = least if equal.all() else int(equal.argmin())  # 1
    if len(own) - first > MOST_TAIL:
        return None
    known = {rows[i].tobytes(): i for i in range(max(0, len(rows) - MOST_TAIL), len(rows))}  # 2
    tail = tuple(known.get(row.tobytes(), -1) for row in own[first:])
    padding = own[first:][np.array(tail, np.int64) < 0]
    fill = repr(float(padding[0, 0])) if padding.size else "0.0"
    layout = ArrayLayout(
        name, "", array.dtype.name, array.shape, width, panels, times, first, tail, fill
    )
    return layout if lay_out(layout, source, order).tobytes() == array.tobytes() else None
