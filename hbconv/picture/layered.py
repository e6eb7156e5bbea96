"""Layered drawing: order the items of each layer so that few lines cross, then place them.

The order is found by sweeps of barycentres (Sugiyama, Tagawa and Toda, 1981). Each sweep of
``place`` is a least-squares fit to the neighbours that keeps the order and the gaps, by pooling
adjacent violators (Ayer et al., 1955).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Line", "count_crossings", "order", "place"]

SWEEPS = 12
"""Times that the layers are visited, downwards and upwards by turns."""

PIXEL = 1e-5
"""What a pixel counts where places are compared: less than a neighbour, more than nothing."""

Layers = list[list[int]]
Port = tuple[int, float]
"""Place of an item in its layer, and where a line meets it, from its centre."""


@dataclass(frozen=True)
class Line:
    """A line between items of two adjacent layers.

    Parameters
    ----------
    upper, lower : int
        The items.
    leaves_at, enters_at : float
        Where it leaves the upper item and enters the lower one, from their centres.
    weight : float
        How much it wants to be straight.
    """

    upper: int
    lower: int
    leaves_at: float = 0.0
    enters_at: float = 0.0
    weight: float = 1.0


def order(layers: Layers, lines: Sequence[Line]) -> Layers:
    """Return the layers, each in the order in which the fewest lines cross of those tried.

    Examples
    --------
    >>> order([[0, 1], [2, 3]], [Line(0, 3), Line(1, 2)])
    [[0, 1], [3, 2]]
    """
    above, below = _neighbours(lines)
    best = [list(layer) for layer in layers]
    fewest = count_crossings(best, lines)
    tried = [list(layer) for layer in layers]
    for sweep in range(SWEEPS if fewest else 0):
        downwards = sweep % 2 == 0
        _sweep(tried, above if downwards else below, downwards=downwards)
        crossings = count_crossings(tried, lines)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in tried], crossings
    return best


def count_crossings(layers: Layers, lines: Sequence[Line]) -> int:
    """Count the pairs of lines that cross.

    Examples
    --------
    >>> count_crossings([[0, 1], [2, 3]], [Line(0, 3), Line(1, 2)])
    1
    """
    place_of = _places(layers)
    starts = defaultdict(list)
    for line in lines:
        layer, upper = place_of[line.upper]
        lower = place_of[line.lower][1]
        starts[layer].append(((upper, line.leaves_at), (lower, line.enters_at)))
    return sum(_inversions(sorted(pairs)) for pairs in starts.values())


def place(
    layers: Layers, widths: Mapping[int, float], lines: Sequence[Line], gap: float
) -> dict[int, float]:
    """Return the centre of each item, so that lines are as straight as the order allows.

    Parameters
    ----------
    layers : list of list of int
        Items in their order.
    widths : mapping of int to float
    lines : sequence of Line
    gap : float
        Between neighbours, at least.

    Examples
    --------
    >>> place([[0, 1], [2]], {0: 10, 1: 10, 2: 10}, [Line(0, 2), Line(1, 2)], 10)
    {0: -10.0, 1: 10.0, 2: 0.0}
    """
    centres = {item: x for layer in layers for item, x in _packed(layer, widths, gap)}
    wanted_above, wanted_below = _wishes(lines)
    for sweep in range(SWEEPS):
        if sweep % 2 == 0:
            _place_all(layers, centres, widths, gap, wanted_above)
        else:
            _place_all(layers[::-1], centres, widths, gap, wanted_below)
    both: dict[int, list[Wish]] = defaultdict(list)
    for wishes in (wanted_above, wanted_below):
        for item, found in wishes.items():
            both[item] += found
    _place_all(layers, centres, widths, gap, both)
    return centres


Wish = tuple[int, float, float]
"""A neighbour, how far from its centre the item wants to be, and how much."""


def _wishes(lines: Iterable[Line]) -> tuple[dict[int, list[Wish]], dict[int, list[Wish]]]:
    """Return what the lines above each item ask for, and those below."""
    above, below = defaultdict(list), defaultdict(list)
    for line in lines:
        shift = line.leaves_at - line.enters_at
        above[line.lower].append((line.upper, shift, line.weight))
        below[line.upper].append((line.lower, -shift, line.weight))
    return above, below


def _place_all(
    layers: Layers,
    centres: dict[int, float],
    widths: Mapping[int, float],
    gap: float,
    wishes: Mapping[int, list[Wish]],
) -> None:
    for layer in layers:
        wanted = []
        for item in layer:
            asked = [(centres[n] + shift, weight) for n, shift, weight in wishes.get(item, ())]
            total = sum(weight for _, weight in asked)
            mean = sum(x * w for x, w in asked) / total if asked else centres[item]
            wanted.append((mean, total or 0.01))
        centres.update(zip(layer, _fitted(layer, wanted, widths, gap), strict=True))


def _fitted(
    layer: list[int], wanted: list[tuple[float, float]], widths: Mapping[int, float], gap: float
) -> list[float]:
    """Return the centres nearest to those wanted, in this order and with these gaps.

    1. Take off what lies to the left of each item: the rest must only not fall.
    2. Pool neighbours that do, each pool at its weighted mean.
    3. Put on again what was taken off.
    """
    offsets = [x for _, x in _packed(layer, widths, gap)]
    pools: list[tuple[float, float, int]] = []
    for (x, weight), offset in zip(wanted, offsets, strict=True):
        mean, total, count = x - offset, weight, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (before * heavy + mean * total) / (heavy + total)
            total, count = heavy + total, many + count
        pools.append((mean, total, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]


def _packed(layer: list[int], widths: Mapping[int, float], gap: float) -> list[tuple[int, float]]:
    """Return the items side by side, around zero."""
    total = sum(widths[item] for item in layer) + gap * (len(layer) - 1)
    left = -total / 2
    found = []
    for item in layer:
        found.append((item, left + widths[item] / 2))
        left += widths[item] + gap
    return found


Neighbours = Mapping[int, Sequence[tuple[int, float]]]
"""Of each item: an item of another layer, and where the line meets that, from its centre."""


def _neighbours(lines: Iterable[Line]) -> tuple[Neighbours, Neighbours]:
    above, below = defaultdict(list), defaultdict(list)
    for line in lines:
        above[line.lower].append((line.upper, line.leaves_at))
        below[line.upper].append((line.lower, line.enters_at))
    return above, below


def _sweep(layers: Layers, neighbours: Neighbours, *, downwards: bool) -> None:
    """Sort each layer by the mean place of the neighbours in the layer before."""
    place_of = {item: i for layer in layers for i, item in enumerate(layer)}
    for layer in layers if downwards else reversed(layers):
        layer.sort(key=_barycentre(neighbours, place_of))
        place_of.update((item, i) for i, item in enumerate(layer))


def _barycentre(neighbours: Neighbours, place_of: Mapping[int, int]) -> Callable[[int], float]:
    def mean(item: int) -> float:
        near = neighbours.get(item, ())
        places = [place_of[n] + at * PIXEL for n, at in near]
        return sum(places) / len(places) if places else place_of[item]

    return mean


def _places(layers: Layers) -> dict[int, tuple[int, int]]:
    return {item: (n, i) for n, layer in enumerate(layers) for i, item in enumerate(layer)}


def _inversions(pairs: list[tuple[Port, Port]]) -> int:
    seen: list[Port] = []
    found = 0
    for _, lower in pairs:
        found += len(seen) - bisect_right(seen, lower)
        insort(seen, lower)
    return found
