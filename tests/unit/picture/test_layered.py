"""Items in layers: few lines cross, and places keep order and gaps."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.picture.layout import Line, count_crossings, order, place

GAP = 7.0


@st.composite
def drawings(draw):
    """Some layers of items, with lines between neighbouring layers."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    items = iter(range(sum(sizes)))
    layers = [[next(items) for _ in range(size)] for size in sizes]
    ends = [(a, b) for up, down in pairwise(layers) for a in up for b in down]
    chosen = draw(st.lists(st.sampled_from(ends), unique=True, max_size=12)) if ends else []
    shift = st.floats(-20, 20)
    return layers, [Line(a, b, draw(shift), draw(shift)) for a, b in chosen]


def crossings_by_pairs(layers, lines):
    place_of = {item: (n, i) for n, layer in enumerate(layers) for i, item in enumerate(layer)}

    def cross(one, other):
        if place_of[one.upper][0] != place_of[other.upper][0]:
            return False
        above = (place_of[one.upper], one.leaves_at), (place_of[other.upper], other.leaves_at)
        below = (place_of[one.lower], one.enters_at), (place_of[other.lower], other.enters_at)
        return (
            (above[0] < above[1]) != (below[0] < below[1])
            and below[0] != below[1]
            and (above[0] != above[1])
        )

    return sum(cross(a, b) for a, b in combinations(lines, 2))


@given(drawings())
@settings(deadline=None)
def test_crossings_are_counted_as_pairs_are(drawing):
    layers, lines = drawing
    assert count_crossings(layers, lines) == crossings_by_pairs(layers, lines)


@given(drawings())
@settings(deadline=None)
def test_the_order_keeps_the_items_and_crosses_no_more(drawing):
    layers, lines = drawing
    ordered = order(layers, lines)
    assert [sorted(layer) for layer in ordered] == [sorted(layer) for layer in layers]
    assert count_crossings(ordered, lines) <= count_crossings(layers, lines)


def test_a_drawing_without_crossings_is_found():
    layers = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    lines = [Line(a, b) for a, b in [(0, 5), (1, 3), (2, 4), (5, 7), (3, 8), (4, 6)]]
    assert count_crossings(layers, lines) > 0
    assert count_crossings(order(layers, lines), lines) == 0


def test_lines_into_one_item_cross_by_where_they_enter():
    layers = [[0, 1], [2]]
    lines = [Line(0, 2, enters_at=10.0), Line(1, 2, enters_at=-10.0)]
    assert count_crossings(layers, lines) == 1
    assert order(layers, lines)[0] == [1, 0]


@given(drawings())
@settings(deadline=None)
def test_places_keep_order_and_gaps(drawing):
    layers, lines = drawing
    widths = {item: 10.0 + item for layer in layers for item in layer}
    centres = place(layers, widths, lines, GAP)
    for layer in layers:
        for left, right in pairwise(layer):
            room = centres[right] - centres[left] - (widths[left] + widths[right]) / 2
            assert room >= GAP - 1e-6


def test_a_chain_is_straight():
    layers = [[0], [1, 9], [2]]
    lines = [Line(0, 1, leaves_at=30.0), Line(1, 2, enters_at=5.0)]
    centres = place(layers, dict.fromkeys((0, 1, 2, 9), 10.0), lines, GAP)
    assert abs(centres[0] + 30.0 - centres[1]) < 1e-6
    assert abs(centres[1] - centres[2] - 5.0) < 1e-6
