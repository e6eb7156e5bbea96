"""Pictures of large graphs take time in proportion, or are left out."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest

from hbconv.containers import Columns, Concat, Graph, Map, Output, Schema, at_step
from hbconv.picture import layout
from hbconv.picture.scene import make_scene
from hbconv.picture.svg import write_svg
from hbconv.target import Target

SCHEMA = Schema.matrix(2)


def chain(length, *, step="", beside=False):
    """Return a graph of nodes one after another; ``beside``: all of which the last one reads."""
    nodes = [Columns.of(SCHEMA)]
    for number in range(length):
        with at_step(f"{step}{'ab'[number % 2]}" if step else ""):
            nodes.append(Map(nodes[-1], "tanh"))
        _ = nodes[-1].type, nodes[-1].key  # which ask the inputs for theirs
    last = Concat(tuple(nodes)) if beside else nodes[-1]
    return Graph(SCHEMA, {"transform": Output(last)})


def lines_run(work):
    """Count the calls of functions and lines of Python's own kind that some work takes."""
    count = 0

    def tell(*_):
        nonlocal count
        count += 1

    sys.setprofile(tell)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("step", ["", "step_"], ids=["one step", "a step each"])
def test_the_calls_of_a_chain_are_in_proportion(step):
    """Twice the chain took four times the calls: colours, sweeps and depths started anew."""
    scenes = [make_scene(chain(n, step=step), Target("reference")) for n in (60, 120, 240)]
    counts = [lines_run(lambda scene=scene: write_svg(scene, "chain")) for scene in scenes]
    assert all(after < 2.3 * before for before, after in pairwise(counts))


def test_a_sweep_looks_at_each_layer_once(monkeypatch):
    asked = []
    monkeypatch.setattr(layout, "_barycentre", lambda *_: lambda item: asked.append(item) or 0)
    layout._sweep([[i] for i in range(50)], {}, downwards=True)
    assert asked == list(range(50))


def test_a_picture_of_too_many_lines_is_left_out():
    """Each of 400 lines passes by all boxes below it."""
    scene = make_scene(chain(400, beside=True), Target("reference"))
    assert [box.title for box in scene.boxes] == ["no picture"]
    assert "403 boxes, and too many lines to draw" in scene.boxes[0].detail
    assert "no picture" in write_svg(scene, "wide")
    assert len(make_scene(chain(40, beside=True), Target("reference")).boxes) > 40
