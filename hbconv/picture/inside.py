"""The layout inside one cluster: its boxes in layers, and the ways of lines through them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hbconv.picture.layered import Line, order, place
from hbconv.picture.sizes import BOX_GAP, LAYER_GAP, PADDING, Size

__all__ = ["Inside", "Spot", "lay_out_inside"]

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
        Points that lines pass on their way inside: by both boxes, with -1 for what lies outside.
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
    dummies = iter(range(-2, -(10**9), -1))

    def chain(pair: tuple[int, int], first: int, last: int, ends: list[int]) -> None:
        made = [next(dummies) for _ in range(first, last)]
        for row, item in zip(range(first, last), made, strict=True):
            layers[row].append(item)
        chains[pair] = made
        track = [*ends[:1], *made, *ends[1:]] if len(ends) > 1 else [*ends, *made]
        drawn.extend(Line(a, b, weight=4.0) for a, b in pairwise(track))

    for before, behind in lines:
        if before in here and behind in here:
            chain((before, behind), depth[before] + 1, depth[behind], [before, behind])
        elif before in here and (before, -1) not in chains:
            chain((before, -1), depth[before] + 1, len(layers), [before])
        elif behind in here and before not in here:
            chain((before, behind), 0, depth[behind], [])
            made = chains[before, behind]
            if made:
                drawn.append(Line(made[-1], behind, weight=4.0))
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
