"""The layout of a scene: clusters in bands from top to bottom, and the lines between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hbconv.picture.inside import Inside, Point, Spot, lay_out_inside
from hbconv.picture.layered import Line, order, place
from hbconv.picture.scene import Scene
from hbconv.picture.sizes import BAND_GAP, CLUSTER_GAP, Size, size_of_box, size_of_header

__all__ = ["Layout", "lay_out"]

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
        return [start, *_moved(inner[upper].ways[a, b], clusters[upper]), end]
    leaving = _moved(inner[upper].ways[a, -1], clusters[upper])
    entering = _moved(inner[lower].ways.get((a, b), []), clusters[lower])
    top = clusters[lower].y
    between = [p for p in passed.get(a, ()) if p[1] < top]
    foot = (leaving[-1][0] if leaving else start[0], floors[clusters[upper].y])
    return [start, *leaving, foot, *between, *entering, end]


def _moved(points: Sequence[Point], corner: Spot) -> list[Point]:
    return [(x + corner.x, y + corner.y) for x, y in points]
