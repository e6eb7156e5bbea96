"""Write a scene as SVG: one text, without scripts and without anything from outside.

Names of columns and steps come from users: all text goes through ``_text``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from hbconv.picture.layout import Layout, Point, Spot, lay_out
from hbconv.picture.scene import KINDS, Box, Cluster, Scene
from hbconv.picture.sizes import (
    BOLD,
    DETAIL,
    HEADING,
    INSET,
    MARGIN,
    MOST,
    PADDING,
    SMALL,
    TITLE,
    Size,
    cut,
    width_of,
    written_count,
    written_detail,
    written_share,
    written_title,
)

__all__ = ["write_svg"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
INK, GREY, LINE, FRAME, PAPER = "#1d2433", "#667085", "#98a2b3", "#d7dce5", "#fafbfc"
STYLE = f'font-family="{FONT}" fill="{INK}"'
HALO = f'aria-hidden="true" stroke="{PAPER}" stroke-width="3" stroke-linejoin="round"'
"""Keeps lines off the letters that they pass: it is written below them, for every viewer."""
ROUND = ("input", "output")
LEGEND_LINE = 19.0
LEAST_WIDTH = 330.0
"""Width that the legend may take under a narrow picture: that of a telephone."""


def write_svg(scene: Scene, title: str) -> str:
    """Return the picture of a scene.

    Parameters
    ----------
    scene : Scene
    title : str
        Read out by screen readers.
    """
    layout = lay_out(scene)
    legend, key = _legend(scene, max(layout.size.width, LEAST_WIDTH))
    width = max(layout.size.width, key.width) + 2 * MARGIN
    height = layout.size.height + key.height + 3 * MARGIN
    body = [
        *_frames(scene.clusters, layout.clusters),
        *_lines(scene, layout),
        *_headings(scene.clusters, layout.clusters),
        *(_box(i, *pair) for i, pair in enumerate(zip(scene.boxes, layout.boxes, strict=True))),
        *_types(scene, layout),
    ]
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    at_top = f"{(width - layout.size.width) / 2:.1f} {MARGIN:.1f}"
    at_bottom = f"{(width - key.width) / 2:.1f} {height - MARGIN - key.height:.1f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {STYLE}>',
        f"<title>{_text(title)}</title>",
        '<rect width="100%" height="100%" rx="10" fill="#ffffff"/>',
        f'<g transform="translate({at_top})">',
        *body,
        "</g>",
        f'<g transform="translate({at_bottom})">{legend}</g>',
        "</svg>",
    ]
    return "\n".join(parts)


def _frames(clusters: Sequence[Cluster], spots: Sequence[Spot]) -> Iterator[str]:
    for cluster, spot in zip(clusters, spots, strict=True):
        if cluster.title:
            width, height = spot.size.width, spot.size.height
            yield (
                f'<rect x="{spot.x:.1f}" y="{spot.y:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}" rx="9" fill="{PAPER}" stroke="{FRAME}"/>'
            )


def _headings(clusters: Sequence[Cluster], spots: Sequence[Spot]) -> Iterator[str]:
    """Write the headings of clusters, over the lines that pass them."""
    for cluster, spot in zip(clusters, spots, strict=True):
        if not cluster.title:
            continue
        x, y = spot.x + PADDING, spot.y
        path, title = cut(cluster.path, SMALL, MOST), cut(cluster.title, HEADING, MOST)
        tooltip = f"{cluster.path} › {cluster.title}" if cluster.path else cluster.title
        above = _label(x, y + 14, path, SMALL, GREY) if path else ""
        labels = above + _label(x, y + (28 if path else 17), title, HEADING, "#475067", 600)
        yield f"<g {HALO}>{labels}</g><g><title>{_text(tooltip)}</title>{labels}</g>"


def _lines(scene: Scene, layout: Layout) -> Iterator[str]:
    """Draw the lines; those of one box to many run on one way as far as they can."""
    for points in layout.lines:
        yield f'<path d="{_curve(points)}" fill="none" stroke="{LINE}" stroke-width="1.3"/>'
    for below in sorted({below for _, below in scene.lines}):
        x, y = layout.boxes[below].centre, layout.boxes[below].y
        yield f'<path d="M{x - 3.5:.1f} {y - 5:.1f}h7l-3.5 5z" fill="{LINE}"/>'


def _curve(points: Sequence[Point]) -> str:
    """Return a path that leaves and enters each point vertically."""
    (x, y), *others = points
    path = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        middle = (y + to_y) / 2
        straight = abs(to_x - x) < 0.5 or to_y - y < 1
        path.append(
            f"L{to_x:.1f} {to_y:.1f}"
            if straight
            else f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        )
        x, y = to_x, to_y
    return "".join(path)


def _box(number: int, box: Box, spot: Spot) -> str:
    kind = KINDS[box.kind]
    width, height = spot.size.width, spot.size.height
    answer = box.kind == "output"
    # Never the full colour: dark text must stay legible on it.
    fill = kind.strong if answer else _mix(kind.tint, kind.strong, 0.62 * box.share)
    frame = f'width="{width:.1f}" height="{height:.1f}" rx="{14 if box.kind in ROUND else 7}"'
    stack = (6, 3) if box.count > 1 else ()
    y = 17.5 if box.detail else 18.5
    beside = [text for text in (written_share(box), written_count(box)) if text]
    places = [width - INSET, width - INSET - 9 - BOLD * width_of("".join(beside[:1]), DETAIL)]
    parts = [
        f'<g class="box" data-box="{number}" transform="translate({spot.x:.1f} {spot.y:.1f})">',
        f"<title>{_text(_tooltip(box))}</title>",
        *(
            f'<rect x="{d}" y="{d}" {frame} fill="{kind.tint}" stroke="{kind.strong}"/>'
            for d in stack
        ),
        f'<rect class="frame" {frame} fill="{fill}" stroke="{kind.strong}"/>',
        _label(INSET, y, written_title(box), TITLE, "#ffffff" if answer else INK, 600),
        *(
            _label(x, y, text, DETAIL, INK, 600, "end")
            for x, text in zip(places, beside, strict=False)
        ),
        _label(INSET, 33, written_detail(box), DETAIL, "#4b5468") if box.detail else "",
    ]
    return "".join([*parts, "</g>"])


def _types(scene: Scene, layout: Layout) -> Iterator[str]:
    """Write the type of the values of each box next to the lines that leave it."""
    labels = []
    for box in sorted({above for above, _ in scene.lines}):
        spot = layout.boxes[box]
        stack = 5 if scene.boxes[box].count > 1 else 0
        y = spot.y + spot.size.height + 12 + stack
        labels.append(_label(spot.centre + 5, y, scene.boxes[box].returns, SMALL, GREY))
    yield f"<g {HALO}>{''.join(labels)}</g>{''.join(labels)}"


def _legend(scene: Scene, most: float) -> tuple[str, Size]:
    """Return what the colours of the picture mean, in lines of a width, and how large that is."""
    used = {box.kind for box in scene.boxes}
    entries = [(kind.name, kind) for name, kind in KINDS.items() if name in used]
    parts, x, y, widest = [], 0.0, 0.0, 0.0
    for text, kind in entries:
        width = 16 + width_of(text, DETAIL)
        if x and x + width > most:
            x, y = 0.0, y + LEGEND_LINE
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="11" height="11" rx="3" fill="{kind.tint}" '
            f'stroke="{kind.strong}"/>' + _label(x + 16, y + 9.5, text, DETAIL, GREY)
        )
        x += width + 14
        widest = max(widest, x - 14)
    if any(map(written_share, scene.boxes)):
        y += LEGEND_LINE
        shades = f"shade and %: share of the predicted time of {', '.join(scene.methods)}"
        parts.append(_label(0, y + 9.5, shades, DETAIL, GREY))
        widest = max(widest, width_of(shades, DETAIL))
    return "".join(parts), Size(widest, y + LEGEND_LINE)


def _tooltip(box: Box) -> str:
    return "\n".join(f"{name}: {fact}" for name, fact in box.facts.items())


def _label(
    x: float,
    y: float,
    text: str,
    size: float,
    fill: str,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    attributes = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}"'
    attributes += f' font-weight="{weight}"' if weight != 400 else ""
    attributes += f" text-anchor={quoteattr(anchor)}" if anchor != "start" else ""
    return f"<text {attributes}>{_text(text)}</text>"


def _text(text: str) -> str:
    """Return text as XML holds it: escaped, without characters that XML forbids."""
    return escape("".join(c for c in text if c in "\n\t" or _is_allowed(c)))


def _is_allowed(character: str) -> bool:
    code = ord(character)
    # XML 1.0 forbids these characters even when escaped; of DEL it advises against.
    return code >= 0x20 and not 0xD800 <= code < 0xE000 and code not in (0x7F, 0xFFFE, 0xFFFF)


def _mix(tint: str, strong: str, share: float) -> str:
    """Return a colour between two, in steps of a hundredth."""
    pairs = zip(_channels(tint), _channels(strong), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
