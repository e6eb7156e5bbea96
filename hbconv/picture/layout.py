"""The layout of a scene: clusters in bands from top to bottom, boxes in layers inside each.

Both are drawn in layers: order the items of each layer so that few lines cross, then place them.
The order is found by sweeps of barycentres (Sugiyama, Tagawa and Toda, 1981). Each sweep of
``place`` is a least-squares fit to the neighbours that keeps the order and the gaps, by pooling
adjacent violators (Ayer et al., 1955).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hbconv.picture.scene import Scene
from hbconv.picture.sizes import (
    BAND_GAP,
    BOX_GAP,
    CLUSTER_GAP,
    LAYER_GAP,
    PADDING,
    Size,
    size_of_box,
    size_of_header,
)

__all__ = ["Layout", "Line", "Spot", "count_crossings", "lay_out", "order", "place"]

DUMMY = 8.0
"""Width of a way that a line takes through a band."""


@dataclass(frozen=True)
class Layout:
    """Where everything is, from the left upper corner of the picture.

    Parameters
    ----------
    size : Size
    boxes, clusters : tuple of Spot
    lines : tuple of list of Point
        Points that each line of the scene passes, from the bottom of a box to the top of another.
    """

    size: Size
    boxes: tuple[Spot, ...]
    clusters: tuple[Spot, ...]
    lines: tuple[list[Point], ...]


@dataclass(frozen=True)
class _Bands:
    """Clusters and ways in layers, where each cluster is an item and ways are items behind them."""

    layers: list[list[int]]
    ways: Mapping[tuple[int, int], int]
    """Item that the lines from a box pass in a band, by box and band."""
    drawn: list[Line]


def lay_out(scene: Scene) -> Layout:
    """Lay out a scene: each cluster by itself, then the clusters among each other."""
    sizes = {i: size_of_box(box) for i, box in enumerate(scene.boxes)}
    home = {box: c for c, cluster in enumerate(scene.clusters) for box in cluster.boxes}
    touching: list[list[tuple[int, int]]] = [[] for _ in scene.clusters]
    for a, b in scene.lines:
        for c in {home[a], home[b]}:
            touching[c].append((a, b))
    inner = [
        lay_out_inside(cluster.boxes, sizes, lines, size_of_header(cluster))
        for cluster, lines in zip(scene.clusters, touching, strict=True)
    ]
    bands = _bands(scene, inner, home)
    widths = dict.fromkeys((item for layer in bands.layers for item in layer), DUMMY)
    widths |= {c: inside.size.width for c, inside in enumerate(inner)}
    layers = order(bands.layers, bands.drawn)
    centres = place(layers, widths, bands.drawn, CLUSTER_GAP)
    left = min(centres[item] - widths[item] / 2 for item in centres)
    right = max(centres[item] + widths[item] / 2 for item in centres)
    tops, heights, bottom = _tops(layers, inner)
    row = {item: n for n, layer in enumerate(layers) for item in layer}
    corners = [
        (centres[c] - left - inside.size.width / 2, tops[row[c]]) for c, inside in enumerate(inner)
    ]
    passed: dict[int, list[Point]] = defaultdict(list)
    for (box, _), item in sorted(bands.ways.items()):
        x, top = centres[item] - left, tops[row[item]]
        passed[box] += [(x, top), (x, top + heights[row[item]])]
    clusters = tuple(Spot(*corner, i.size) for corner, i in zip(corners, inner, strict=True))
    boxes = tuple(inner[home[b]].spots[b].moved(*corners[home[b]]) for b in range(len(sizes)))
    floors: dict[float, float] = defaultdict(float)
    for spot in clusters:
        floors[spot.y] = max(floors[spot.y], spot.y + spot.size.height)
    lines = tuple(_way(a, b, home, inner, clusters, boxes, passed, floors) for a, b in scene.lines)
    return Layout(Size(right - left, bottom), boxes, clusters, lines)


def _bands(scene: Scene, inner: Sequence[Inside], home: Mapping[int, int]) -> _Bands:
    """Put each cluster into the band of its rank, and keep a way open through the bands between.

    All lines from one box share it.
    """
    ranks = sorted({cluster.rank for cluster in scene.clusters})
    number = {rank: i for i, rank in enumerate(ranks)}
    band = {c: number[cluster.rank] for c, cluster in enumerate(scene.clusters)}
    layers: list[list[int]] = [[] for _ in ranks]
    for c in band:
        layers[band[c]].append(c)
    ways: dict[tuple[int, int], int] = {}
    drawn: dict[tuple[int, int, float, float], Line] = {}
    for a, b in scene.lines:
        upper, lower = home[a], home[b]
        if upper == lower:
            continue
        last, leaves_at = upper, inner[upper].exit(a) - inner[upper].size.width / 2
        for passing in range(band[upper] + 1, band[lower]):
            if (a, passing) not in ways:
                ways[a, passing] = len(inner) + len(ways)
                layers[passing].append(ways[a, passing])
            item = ways[a, passing]
            # A bend in a long way costs more than one at a box; the weight was not tuned.
            drawn[last, item, leaves_at, 0.0] = Line(last, item, leaves_at, 0.0, 4.0)
            last, leaves_at = item, 0.0
        enters_at = inner[lower].entry(a, b) - inner[lower].size.width / 2
        drawn[last, lower, leaves_at, enters_at] = Line(last, lower, leaves_at, enters_at)
    return _Bands(layers, ways, list(drawn.values()))


def _tops(
    layers: Sequence[Sequence[int]], inner: Sequence[Inside]
) -> tuple[list[float], list[float], float]:
    """Return top and height of each band, and the bottom of the last."""
    tops, heights, top = [], [], 0.0
    for layer in layers:
        heights.append(max(inner[item].size.height for item in layer if item < len(inner)))
        tops.append(top)
        top += heights[-1] + BAND_GAP
    return tops, heights, top - BAND_GAP


def _way(
    a: int,
    b: int,
    home: Mapping[int, int],
    inner: Sequence[Inside],
    clusters: Sequence[Spot],
    boxes: Sequence[Spot],
    passed: Mapping[int, list[Point]],
    floors: Mapping[float, float],
) -> list[Point]:
    """Return the points of the line from one box to another."""
    start = (boxes[a].centre, boxes[a].y + boxes[a].size.height)
    end = (boxes[b].centre, boxes[b].y)
    upper, lower = home[a], home[b]
    if upper == lower:
        return [start, *_move(inner[upper].ways[a, b], clusters[upper]), end]
    leaving = _move(inner[upper].ways[a, -1], clusters[upper])
    entering = _move(inner[lower].ways.get((a, b), []), clusters[lower])
    top = clusters[lower].y
    between = [p for p in passed.get(a, ()) if p[1] < top]
    foot = (leaving[-1][0] if leaving else start[0], floors[clusters[upper].y])
    return [start, *leaving, foot, *between, *entering, end]


def _move(points: Sequence[Point], corner: Spot) -> list[Point]:
    return [(x + corner.x, y + corner.y) for x, y in points]


Point = tuple[float, float]


@dataclass(frozen=True)
class Spot:
    """The rectangle of a box, from the left upper corner of its cluster or picture."""

    x: float
    y: float
    size: Size

    @property
    def centre(self) -> float:
        """Middle between left and right."""
        return self.x + self.size.width / 2

    def moved(self, x: float, y: float) -> Spot:
        """Return the spot elsewhere."""
        return Spot(self.x + x, self.y + y, self.size)


@dataclass(frozen=True)
class Inside:
    """A cluster that is laid out.

    Parameters
    ----------
    size : Size
    spots : mapping of int to Spot
        By box.
    ways : mapping of (int, int) to list of Point
        Points that lines pass on their way inside: by both boxes, with -1 for what is outside.
        A line from outside comes in at the first of its points, or at its box where it has none.
    """

    size: Size
    spots: Mapping[int, Spot]
    ways: Mapping[tuple[int, int], list[Point]]

    def entry(self, before: int, box: int) -> float:
        """Return where a line from a box outside comes in, from the left edge."""
        way = self.ways.get((before, box))
        return way[0][0] if way else self.spots[box].centre

    def exit(self, box: int) -> float:
        """Return where the lines from a box leave, from the left edge."""
        way = self.ways.get((box, -1))
        return way[-1][0] if way else self.spots[box].centre


def lay_out_inside(
    boxes: Sequence[int],
    sizes: Mapping[int, Size],
    lines: Sequence[tuple[int, int]],
    header: Size,
) -> Inside:
    """Lay out the boxes of one cluster.

    Parameters
    ----------
    boxes : sequence of int
        Inputs first.
    sizes : mapping of int to Size
    lines : sequence of pairs of int
        All that begin or end here.
    header : Size
        Room for the heading; of height 0 for a cluster without a frame.
    """
    layers, chains, drawn = _layers_of(boxes, lines)
    widths = {item: sizes[item].width if item in sizes else 6.0 for row in layers for item in row}
    ordered = order(layers, drawn)
    centres = place(ordered, widths, drawn, BOX_GAP)
    padding = PADDING if header.height else 0.0
    left = min(centres[item] - widths[item] / 2 for row in ordered for item in row)
    right = max(centres[item] + widths[item] / 2 for row in ordered for item in row)
    width = max(right - left + 2 * padding, header.width)
    shift = (width - (right - left)) / 2 - left
    tops, heights, bottom = _rows(ordered, sizes, header.height + padding)
    level = {item: row for row, items in enumerate(ordered) for item in items}
    spots = {}
    for box in boxes:
        slack = (heights[level[box]] - sizes[box].height) / 2
        x = centres[box] + shift - sizes[box].width / 2
        spots[box] = Spot(x, tops[level[box]] + slack, sizes[box])

    def point(item: int) -> list[Point]:
        x, row = centres[item] + shift, level[item]
        return [(x, tops[row]), (x, tops[row] + heights[row])]

    ways = {pair: [p for item in chain for p in point(item)] for pair, chain in chains.items()}
    return Inside(Size(width, bottom + padding), spots, ways)


def _layers_of(
    boxes: Sequence[int], lines: Sequence[tuple[int, int]]
) -> tuple[list[list[int]], dict[tuple[int, int], list[int]], list[Line]]:
    """Return layers of boxes and of the dummies that hold ways open, and lines between neighbours.

    Dummies are negative. The lines that leave a box for outside share one chain of them.
    """
    here = set(boxes)
    before_of = defaultdict(list)
    for a, b in lines:
        if a in here:
            before_of[b].append(a)
    depth: dict[int, int] = {}
    for box in boxes:
        depth[box] = 1 + max((depth[a] for a in before_of[box]), default=-1)
    layers: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    for box in boxes:
        layers[depth[box]].append(box)
    chains: dict[tuple[int, int], list[int]] = {}
    drawn: list[Line] = []
    # -1 is taken: it means what is outside.
    dummies = iter(range(-2, -(10**9), -1))

    def chain(pair: tuple[int, int], first: int, last: int, ends: list[int]) -> None:
        items = [next(dummies) for _ in range(first, last)]
        for row, item in zip(range(first, last), items, strict=True):
            layers[row].append(item)
        chains[pair] = items
        track = [*ends[:1], *items, *ends[1:]] if len(ends) > 1 else [*ends, *items]
        drawn.extend(Line(a, b, weight=4.0) for a, b in pairwise(track))

    for before, behind in lines:
        if before in here and behind in here:
            chain((before, behind), depth[before] + 1, depth[behind], [before, behind])
        elif before in here and (before, -1) not in chains:
            chain((before, -1), depth[before] + 1, len(layers), [before])
        elif behind in here and before not in here:
            chain((before, behind), 0, depth[behind], [])
            items = chains[before, behind]
            if items:
                drawn.append(Line(items[-1], behind, weight=4.0))
    return layers, chains, drawn


def _rows(
    layers: Sequence[Sequence[int]], sizes: Mapping[int, Size], top: float
) -> tuple[list[float], list[float], float]:
    """Return top and height of each layer, and the bottom of the last."""
    tops, heights = [], []
    for layer in layers:
        heights.append(max((sizes[item].height for item in layer if item in sizes), default=0.0))
        tops.append(top)
        top += heights[-1] + LAYER_GAP
    return tops, heights, top - LAYER_GAP


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
    # A sweep may add crossings, so the best order of all is kept.
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
    centres = {item: x for layer in layers for item, x in _pack(layer, widths, gap)}
    wanted_above, wanted_below = _wishes(lines)
    for sweep in range(SWEEPS):
        if sweep % 2 == 0:
            _place_all(layers, centres, widths, gap, wanted_above)
        else:
            _place_all(layers[::-1], centres, widths, gap, wanted_below)
    # The last sweep follows both sides; each one before followed only one.
    both: dict[int, list[Wish]] = defaultdict(list)
    for wishes in (wanted_above, wanted_below):
        for item, wanted in wishes.items():
            both[item] += wanted
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
            # An item that no line asks for keeps its place, but gives way to all others.
            wanted.append((mean, total or 0.01))
        centres.update(zip(layer, _fit_centres(layer, wanted, widths, gap), strict=True))


def _fit_centres(
    layer: list[int], wanted: list[tuple[float, float]], widths: Mapping[int, float], gap: float
) -> list[float]:
    """Return the centres nearest to those wanted, in this order and with these gaps.

    1. Take off what is to the left of each item: the rest must only not fall.
    2. Pool neighbours that do, each pool at its weighted mean.
    3. Put on again what was taken off.
    """
    offsets = [x for _, x in _pack(layer, widths, gap)]
    pools: list[tuple[float, float, int]] = []
    for (x, weight), offset in zip(wanted, offsets, strict=True):
        mean, total, count = x - offset, weight, 1
        # Neighbours that overlap move as one from here on, at their weighted mean.
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (before * heavy + mean * total) / (heavy + total)
            total, count = heavy + total, many + count
        pools.append((mean, total, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]


def _pack(layer: list[int], widths: Mapping[int, float], gap: float) -> list[tuple[int, float]]:
    """Return the items side by side, around zero."""
    total = sum(widths[item] for item in layer) + gap * (len(layer) - 1)
    left = -total / 2
    centres = []
    for item in layer:
        centres.append((item, left + widths[item] / 2))
        left += widths[item] + gap
    return centres


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
    count = 0
    # Lines sorted by their upper ends cross where the lower ends are out of order.
    for _, lower in pairs:
        count += len(seen) - bisect_right(seen, lower)
        insort(seen, lower)
    return count
