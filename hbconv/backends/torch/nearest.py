"""The nearest constant points and ordered sums, on torch.

Points of few columns are cut into boxes at their medians, as the leaves of a k-d tree are
(J. L. Bentley, "Multidimensional binary search trees used for associative searching", 1975). No
point of a box is nearer than its faces. So the points of the nearest boxes decide, unless the
last of the k found lies beyond the next box. Points of more columns are bounded by a product
(``distance_bounds``), and those of the least bounds decide in the same way.

Ordered sums add one term after another, on the CPU and on devices; torch's own take any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from hbconv.backends.torch.jit import script
from hbconv.backends.torch.launches import pairwise_on_device, takes_launches
from hbconv.tensor.distance_bounds import LARGEST, MARGIN, find_bounds, find_share

__all__ = [
    "add_in_turn",
    "adds_on_cpu",
    "cumsum",
    "forms_for",
    "nearest",
    "ordered_logsumexp",
    "ordered_sum",
    "prepare_donors",
    "prepare_points",
    "topk",
    "topk_donors",
]

_Array = npt.NDArray[Any]

BOUNDED = 6
"""Operands of points that have bounds."""

MAX_NARROW_FEATURES = 15
"""Features up to which a device's own kernel finds distances faster than a product bounds them."""

MAX_BOXED_FEATURES = 4
"""Features up to which boxes leave out most points.

Among 10,000 points of 5 and 6, 1,000 rows took 57 and 104 us each by boxes, and 17 and 15 by bounds
(Zen 4, busy).
"""

SIZE = 32
"""Points of a box."""

RUN = 64
"""Distances of which the least is found at once."""

LEAST_RUNS = 8
"""Runs for each neighbour from which on they are worth it: `topk` of 100,000 takes 40 times as long
for five neighbours, on a CPU."""

BLOCK_BOUNDS = 1 << 20
"""Bounds of a block of rows.

Among 10,000 points of 4 to 6 columns, 1,000 rows at once took 37 to 38 us each, and by blocks of
100 or 256 rows 13 to 15 (Zen 4, busy).
"""

MANY = 128
"""Boxes that are searched for rows that few do not settle."""


def topk(x: Tensor, k: int) -> Tensor:
    """Find the positions of the k smallest, ties in order, NaN last.

    ``torch.topk`` takes any of equals, so it only finds the k-th value. This is several times as
    fast as sorting all entries:

    1. Find the k-th value.
    2. Choose the entries below it, and the first of those equal to it.
    3. Sort the chosen, by value and then by position.
    """
    last = torch.topk(x, k, dim=1, largest=False)[0].amax(dim=1, keepdim=True)  # 1
    missing = x.isnan()  # 2
    below = (x < last) | (last.isnan() & ~missing)
    equal = (x == last) | (last.isnan() & missing)
    chosen = below | (
        equal & (equal.cumsum(1, dtype=torch.int32) <= k - below.sum(1, keepdim=True))
    )
    places = torch.arange(x.shape[1], device=x.device)  # 3
    positions = torch.topk(torch.where(chosen, places, x.shape[1]), k, dim=1, largest=False)[0]
    return _in_order(x.gather(1, positions), positions)


def topk_donors(squares: Tensor, x: Tensor, lacks: Tensor, k: int) -> Tensor:
    """Find the points of the k smallest squares for each column that a row misses.

    ``lacks`` is what ``prepare_donors`` makes of the points. Devices would wait for the host's look
    at the rows that miss a column, and compilers do not know how many they are.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        found: Tensor = _scripted(_rank_donors)(squares, x, lacks, k, True)
        return found
    looks = not (torch.compiler.is_compiling() or is_functorch_wrapped_tensor(x))
    return _rank_donors(squares, x, lacks, k, looks)


def _rank_donors(squares: Tensor, x: Tensor, lacks: Tensor, k: int, looks: bool) -> Tensor:
    """Rank column by column; ``looks`` leaves out the rows that have it, on the CPU."""
    found = []
    for column, lack in enumerate(lacks.unbind(0)):
        missing = x[:, column].isnan()
        if looks and x.is_cpu:
            first = torch.zeros((x.shape[0], k), dtype=torch.int64)
            rows = torch.nonzero(missing).view(-1)
            if rows.shape[0] > 0:
                counted = squares[rows].masked_fill_(lack, torch.nan)
                first.index_copy_(0, rows, topk(counted, k))
        else:
            first = topk(squares.masked_fill(lack, torch.nan), k) * missing.unsqueeze(1)
        found.append(first)
    return torch.stack(found, 1)


def prepare_donors(points: _Array, k: int) -> tuple[_Array]:  # noqa: ARG001
    """Say for each column which points lack it: (columns, points)."""
    return (np.ascontiguousarray(np.isnan(points).T),)


def _smallest(runs: Tensor, k: int) -> Tensor:
    """Find what ``topk`` finds in runs one after another: (rows, runs, length).

    The k smallest lie in the k runs of the least minima: k values come before those of any other
    run, ties in order. Rows with infinite values, whose distances may be NaN, have no order.
    """
    length = runs.shape[2]
    chosen = torch.sort(topk(runs.amin(2), k), dim=1)[0]
    inside = runs.gather(1, chosen.unsqueeze(2).expand(-1, -1, length))
    at = topk(inside.flatten(1), k)
    run = chosen.gather(1, torch.div(at, length, rounding_mode="floor"))
    return run * length + at % length


def nearest(x: Tensor, *points: Tensor, k: int) -> Tensor:
    """Find the positions of the k nearest points; ``points`` are those of ``prepare_points``.

    A graph of a device and a compiler take no part of the rows whose size they do not know: there
    all points of few columns are searched, and the candidates of wide ones decide alone.
    TorchScript chooses when it runs.
    """
    bounded = len(points) == BOUNDED
    if takes_launches(x) and not (bounded and x.shape[1] > MAX_NARROW_FEATURES):
        each = points[0].flatten(0, -2)
        return _find_among(pairwise_on_device(x, each, "square", 2.0), points[0], k)
    traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    compiled = torch.compiler.is_compiling()
    if len(points) == 1 or (compiled and not (bounded and x.shape[1] > MAX_NARROW_FEATURES)):
        return _search_all(x, points[0], k)
    search: Callable[..., Tensor] = _search_blocks if bounded else _search
    if traced:
        search = _scripted(search)
    if bounded:
        settles = x.is_cpu and not compiled
        return search(x, *points, k, k + MARGIN, settles, BLOCK_BOUNDS if settles else 0)
    return search(x, *points, k, MANY)


def prepare_points(points: _Array, k: int) -> tuple[_Array, ...]:
    """Prepare points for a search of the k nearest.

    - Many of few columns for boxes: the points, those of each box (boxes, columns, SIZE) and their
      positions, the least and largest of each column (columns, boxes).
    - Many others for bounds: the points; centre, weights and norms of ``DistanceBounds``; the share
      of squares, and the largest number of a row, that these are for.
    - Others as they are.

    Many points come in runs: (runs, RUN, columns) and (runs, RUN) for (points, columns) and
    (points,). Points at infinity fill up the last one.
    """
    n_points, n_columns = points.shape
    boxed = n_columns <= MAX_BOXED_FEATURES and n_points > 2 * _few(n_columns) * SIZE
    # A box bounds distances by differences, and inf - inf is NaN.
    if boxed and np.isfinite(points).all():
        return _in_boxes(points, k)
    bounds = find_bounds(points, k)
    if bounds is None:
        return (_in_runs(points, k, np.inf),)
    weights = _in_runs(bounds.weights.T, k, 0.0).reshape(-1, n_columns).T
    norms = _in_runs(bounds.norms, k, np.inf)
    share = find_share(n_columns, norms.dtype.name)
    limits = np.array(share), np.array(LARGEST[norms.dtype.name])
    in_runs = _in_runs(points, k, np.inf)
    return in_runs, bounds.centre, np.ascontiguousarray(weights), norms, *limits


def _in_boxes(points: _Array, k: int) -> tuple[_Array, ...]:
    n_columns = points.shape[1]
    places = _boxes(points, np.arange(len(points)))
    # Points at infinity fill boxes up: they come after all others, and k real ones are found first.
    held = np.full((len(places), n_columns, SIZE), np.inf, points.dtype)
    positions = np.zeros((len(places), SIZE), np.int64)
    for box, chosen in enumerate(places):
        held[box, :, : len(chosen)] = points[chosen].T
        positions[box, : len(chosen)] = chosen
    low = np.stack([points[chosen].min(axis=0) for chosen in places], axis=1)
    high = np.stack([points[chosen].max(axis=0) for chosen in places], axis=1)
    return _in_runs(points, k, np.inf), held, positions, low, high


def _in_runs(points: _Array, k: int, fill: float) -> _Array:
    """Cut many points into runs, the last of which is filled up."""
    if len(points) < LEAST_RUNS * k * RUN:
        return points
    widths = [(0, -len(points) % RUN), *[(0, 0)] * (points.ndim - 1)]
    filled = np.pad(points, widths, constant_values=fill)
    return filled.reshape(-1, RUN, *points.shape[1:])


def _few(n_columns: int) -> int:
    """Return how many boxes are searched for all rows: so many meet in a corner, within bounds."""
    return min(32, max(8, 1 << n_columns))


def _boxes(points: _Array, chosen: npt.NDArray[np.intp]) -> list[npt.NDArray[np.intp]]:
    """Cut the chosen points into boxes of SIZE, each time along the longest side."""
    if len(chosen) <= SIZE:
        return [chosen]
    held = points[chosen]
    # Cuts along the longest side keep boxes round, so that a row is near to few of them.
    longest = np.argmax(held.max(axis=0) - held.min(axis=0))
    ordered = chosen[np.argsort(held[:, longest], kind="stable")]
    middle = -(-len(chosen) // SIZE) // 2 * SIZE
    return _boxes(points, ordered[:middle]) + _boxes(points, ordered[middle:])


def _search(
    x: Tensor,
    points: Tensor,
    held: Tensor,
    places: Tensor,
    low: Tensor,
    high: Tensor,
    k: int,
    many: int,
) -> Tensor:
    """Search a few boxes for all rows, many for those that are not settled, else all points."""
    few = _few(x.shape[1])
    # Devices would wait for the host's look at the rows that are not settled.
    if not x.is_cpu or k >= few * held.shape[2]:
        return _search_all(x, points, k)
    beyond = _squares_to_boxes(x, low, high)
    nearest_points, settled = _search_boxes(x, beyond, held, places, k, few)
    rest = torch.nonzero(~settled).view(-1)
    if rest.shape[0] > 0 and low.shape[1] > 2 * many:
        again, settled = _search_boxes(x[rest], beyond[rest], held, places, k, many)
        nearest_points.index_copy_(0, rest, again)
        rest = rest[~settled]
    if rest.shape[0] > 0:
        nearest_points.index_copy_(0, rest, _search_all(x[rest], points, k))
    return nearest_points


def _search_boxes(
    x: Tensor, beyond: Tensor, held: Tensor, places: Tensor, k: int, count: int
) -> tuple[Tensor, Tensor]:
    """Search the nearest boxes, and say for which rows no other point can be as near.

    Where the next of the points found is as near as the last, their order is not known.
    """
    # One box more: no point that is left out is nearer than that box.
    squares, boxes = torch.topk(beyond, count + 1, dim=1, largest=False)
    inside = held[boxes[:, :count]]
    total = torch.square(inside[:, :, 0] - x[:, 0, None, None])
    for column in range(1, x.shape[1]):
        total += torch.square(inside[:, :, column] - x[:, column, None, None])
    # One point more shows whether the last of the k is tied.
    values, where = torch.topk(total.flatten(1), k + 1, dim=1, largest=False)
    last = values[:, k - 1]
    settled = (last < squares[:, count]) & (last < values[:, k])
    at = where[:, :k]
    size = held.shape[2]
    box = boxes.gather(1, torch.div(at, size, rounding_mode="floor"))
    # By position first: the stable sort by value then keeps ties in the order of the points.
    positions, order = torch.sort(places[box, at % size], dim=1)
    return _in_order(values[:, :k].gather(1, order), positions), settled


def _in_order(values: Tensor, positions: Tensor) -> Tensor:
    """Sort ascending positions by their values; ties keep their order."""
    order = torch.sort(values, stable=True, dim=1, descending=False)[1]
    return positions.gather(1, order)


def _squares_to_boxes(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Square the distances to boxes, in the steps of distances to points: none is larger."""
    total = x.new_zeros((x.shape[0], low.shape[1]))
    for column in range(x.shape[1]):
        value = x[:, column, None]
        apart = torch.maximum(low[column] - value, value - high[column])
        total += torch.square(apart.clamp_min(0))
    return total


def _search_all(x: Tensor, points: Tensor, k: int) -> Tensor:
    """Search all points, column by column: no temporary is larger than the distances."""
    each = points.flatten(0, -2)
    total = x.new_zeros((x.shape[0], each.shape[0]))
    for column in range(each.shape[1]):
        total += torch.square(x[:, column, None] - each[:, column])
    return _find_among(total, points, k)


def _find_among(total: Tensor, points: Tensor, k: int) -> Tensor:
    """Find the k smallest of the distances to all points, which may come in runs."""
    if points.dim() == 2:
        return topk(total, k)
    return _smallest(total.reshape(-1, points.shape[0], points.shape[1]), k)


@cache
def _scripted(search: Any) -> Any:
    """Return a search with its choices, which a trace keeps."""
    return script(search)


def _search_blocks(
    x: Tensor,
    points: Tensor,
    centre: Tensor,
    weights: Tensor,
    norms: Tensor,
    share: Tensor,
    largest: Tensor,
    k: int,
    count: int,
    settles: bool,
    most: int,
) -> Tensor:
    """Search for as many rows at once as have ``most`` bounds, on the CPU; for all if it is 0."""
    rows = max(64, most // norms.numel())
    if most == 0 or not x.is_cpu or x.shape[0] <= rows:
        return _search_bounded(x, points, centre, weights, norms, share, largest, k, count, settles)
    found = [
        _search_bounded(block, points, centre, weights, norms, share, largest, k, count, settles)
        for block in torch.split(x, rows)
    ]
    return torch.cat(found)


def _search_bounded(
    x: Tensor,
    points: Tensor,
    centre: Tensor,
    weights: Tensor,
    norms: Tensor,
    share: Tensor,
    largest: Tensor,
    k: int,
    count: int,
    settles: bool,
) -> Tensor:
    """Search the points of the least bounds, and all points for rows that these do not settle.

    1. Rows that have no bounds are read as zeros.
    2. The candidates are those of the least bounds, in the order of the points.
    3. The last of the k is below the bound of every point that is no candidate.
    """
    inside = x.abs() <= largest  # 1
    known = torch.where(inside, x, torch.zeros_like(x))
    apart = known - centre
    bounds = torch.addmm(norms.flatten(), apart.to(norms.dtype), weights)
    settles = settles and x.is_cpu
    candidates = _candidates(bounds, norms, count, settles)  # 2
    each = points.flatten(0, -2)
    of_candidates = each.index_select(0, candidates.flatten()).reshape(-1, count, x.shape[1])
    squares = _sum_on_any(torch.square(of_candidates - known.unsqueeze(1)), 2)
    order = torch.sort(squares, stable=True, dim=1, descending=False)[1][:, :k]
    found = candidates.gather(1, order)
    if not settles:
        return found
    last = squares.gather(1, order[:, k - 1 :])  # 3
    others = bounds.gather(1, candidates).amax(1, keepdim=True)
    others = others + torch.square(apart).sum(1, keepdim=True) * share
    rest = torch.nonzero(~((last < others) & inside.all(1, keepdim=True)).view(-1)).view(-1)
    if rest.shape[0] > 0:
        found.index_copy_(0, rest, _search_all(x[rest], points, k))
    return found


def _candidates(bounds: Tensor, norms: Tensor, count: int, settles: bool) -> Tensor:
    """Return the positions of the least bounds, ascending: any of equals where others settle."""
    if norms.dim() == 1:
        chosen = torch.topk(bounds, count, 1, False, False)[1] if settles else topk(bounds, count)
        return torch.sort(chosen, dim=1)[0]
    # A view here kept the number of rows of a TorchScript module's first calls (torch 2.13).
    runs = bounds.reshape(-1, norms.shape[0], norms.shape[1])
    if not settles:
        return torch.sort(_smallest(runs, count), dim=1)[0]
    least = torch.topk(runs.amin(2), count, 1, False, False)[1].unsqueeze(2)
    inside = runs.gather(1, least.expand(-1, -1, norms.shape[1])).flatten(1)
    at = torch.topk(inside, count, 1, False, False)[1]
    run = least.squeeze(2).gather(1, torch.div(at, norms.shape[1], rounding_mode="floor"))
    return torch.sort(run * norms.shape[1] + at % norms.shape[1], dim=1)[0]


_FOR_DEVICES: ContextVar[bool] = ContextVar("for_devices", default=False)


@contextmanager
def forms_for(device: str) -> Iterator[None]:
    """Let what is traced inside add as a device must, though it is traced on the CPU."""
    token = _FOR_DEVICES.set(device.partition(":")[0] != "cpu")
    try:
        yield
    finally:
        _FOR_DEVICES.reset(token)


def adds_on_cpu(x: Tensor) -> bool:
    """Whether terms are added in the forms that only the CPU takes in order.

    ``torch.compile`` cannot read a context variable, and compiles for the device of its rows.
    """
    compiled = torch.compiler.is_dynamo_compiling()
    return x.is_cpu and (compiled or not _FOR_DEVICES.get())


def ordered_sum(x: Tensor, dim: int) -> Tensor:
    """Add one term after another, in a single call.

    ``sum`` adds pairs, and a loop is a call for each term. On the CPU the result is the sequential
    sum to the last bit:

    1. ``cumsum`` adds float64 terms along each row.
    2. ``index_add`` adds float32 terms by column: ``cumsum`` would hold their sums in double.
    3. On other devices, ``add_in_turn`` does.

    Only a compiler may reorder float32 terms. TorchScript chooses when it runs.
    """
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        total: Tensor = _script_choice(_sum_on_any)(x, dim)
        return total
    return _sum_on_cpu(x, dim) if adds_on_cpu(x) else _sum_on_device(x, dim)


def _sum_on_any(x: Tensor, dim: int) -> Tensor:
    return _sum_on_cpu(x, dim) if x.is_cpu else _sum_on_device(x, dim)


def _sum_on_cpu(x: Tensor, dim: int) -> Tensor:
    if x.dtype == torch.float64:
        return x.cumsum(dim).select(dim, -1)
    terms = x.movedim(dim, 0).contiguous()
    first = torch.zeros(terms.size(0), dtype=torch.int64, device=x.device)
    return torch.zeros_like(terms[:1]).index_add(0, first, terms)[0]


def _sum_on_device(x: Tensor, dim: int) -> Tensor:
    terms = x.movedim(dim, 0)
    return add_in_turn(terms.flatten(1)).reshape(terms.shape[1:])


def add_in_turn(terms: Tensor) -> Tensor:
    """Add the rows of a matrix one after another, on a device."""
    return _scan_in_turn(terms)[-1]


def _scan_in_turn(terms: Tensor) -> Tensor:
    """Return the sum up to each row of a matrix, one term after another, on a device.

    ``cumsum`` goes down the leading dimension, where one thread of the device adds for each column.
    It would scan a single column in parallel, so the first column comes twice.
    """
    return torch.cat([terms, terms[:, :1]], 1).cumsum(0)[:, :-1]


def cumsum(x: Tensor, dim: int) -> Tensor:
    """Return the sums along an axis, one term after another."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        sums: Tensor = _script_choice(_scan_on_any)(x, dim)
        return sums
    return _scan_on_cpu(x, dim) if adds_on_cpu(x) else _scan_on_device(x, dim)


def _scan_on_any(x: Tensor, dim: int) -> Tensor:
    return _scan_on_cpu(x, dim) if x.is_cpu else _scan_on_device(x, dim)


def _scan_on_cpu(x: Tensor, dim: int) -> Tensor:
    # cumsum would hold sums of float32 in double.
    if x.dtype != torch.float32 or x.shape[dim] == 0:
        return x.cumsum(dim)
    terms = x.unbind(dim)
    sums = [terms[0]]
    for term in terms[1:]:
        sums.append(sums[-1] + term)
    return torch.stack(sums, dim)


def _scan_on_device(x: Tensor, dim: int) -> Tensor:
    terms = x.movedim(dim, 0)
    return _scan_in_turn(terms.flatten(1)).reshape(terms.shape).movedim(0, dim)


@cache
def _script_choice(function: Any) -> Any:
    """Return a function that chooses by the device when it runs, which a trace keeps so."""
    return script(function)


def ordered_logsumexp(x: Tensor, dim: int) -> Tensor:
    """Compute ``log(sum(exp(x)))``, one term after another."""
    return reduce(torch.logaddexp, x.unbind(dim))
