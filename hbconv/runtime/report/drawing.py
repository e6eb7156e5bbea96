"""Draw the graphs of a model, as text that stands in a page of its own or in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from hbconv.containers import Node
from hbconv.names import unknown
from hbconv.optimize.trace import Applied
from hbconv.picture.scene import Scene, make_scene
from hbconv.picture.svg import write_svg
from hbconv.pipeline import Planned
from hbconv.runtime.report.names_shown import shown_lines

__all__ = ["draw_graph", "embed", "scene_of"]

STAGES = ("optimized", "parsed")
"""Stages that have a picture."""


def draw_graph(planned: Planned, stage: str = "optimized", applied: Sequence[Applied] = ()) -> str:
    """Return the picture of a graph, as SVG.

    Raises
    ------
    OptionError
        There is no picture of that stage.
    """
    if stage not in STAGES:
        raise unknown("stage", stage, STAGES)
    title = f"{planned.parsed.traits.estimator or 'graph'}, {stage}"
    return write_svg(scene_of(planned, stage, applied), title)


def scene_of(planned: Planned, stage: str, applied: Sequence[Applied] = ()) -> Scene:
    """Return what a picture shows; boxes tell the rules that made or replaced their nodes."""
    parsed = stage == "parsed"
    remarks: dict[Node, str] = {}
    for rewrite in applied:
        for before, after in rewrite.replacements.items():
            node = before if parsed else after
            remarks[node] = f"{'replaced' if parsed else 'made'} by {rewrite.rule.name}"
    return make_scene(planned.typed if parsed else planned.graph, planned.target, remarks)


def embed(told: str, picture: str) -> str:
    """Return a picture and a text above it for a notebook; wide pictures scroll."""
    text = shown_lines(told)
    return (
        '<div style="overflow-x:auto;max-width:100%">'
        f'<pre style="margin:0 0 8px;white-space:pre-wrap">{text}</pre>{picture}</div>'
    )
