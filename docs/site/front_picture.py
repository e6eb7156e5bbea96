"""Draw the picture of the front page, from the figures of ``benchmarks/trees.py``, and its badges.

python docs/site/front_picture.py
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

FIGURES = Path(__file__).parents[1] / "figures"
PICTURE = FIGURES / "front.svg"
BADGES = FIGURES / "badges.svg"
MODEL = "lightgbm-31"
NAMES = {
    "source": "LightGBM",
    "onnxruntime": "ONNX Runtime",
    "onedal": "oneDAL",
    "lleaves": "lleaves",
    "hbconv tvm": "hbconv",
}
PANELS = ((1, "One row", 1e6, "µs"), (20_000, "20,000 rows, each", 1e9 / 20_000, "ns"))
"""Rows, title, and what makes a figure of seconds of the unit."""

WIDTH = 400
LEFT = 112
BAR = 180
LINE = 24
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.title, .own { font-weight: 600 }
rect { fill: #8c959f }
rect.own { fill: #1a7f37 }
rect.ground { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  rect { fill: #6e7681 }
  rect.own { fill: #3fb950 }
  rect.ground { fill: #0d1117 }
}
"""


def draw() -> str:
    """Return the picture: two panels of five names, the fastest first."""
    figures = json.loads((FIGURES / "trees.json").read_text(encoding="utf-8"))["figures"]
    # The ground is the picture's own: a page may be dark where the system is light.
    parts = [
        f"<style>{STYLE}</style>",
        '<rect class="ground" width="100%" height="100%" rx="6"/>',
        '<g transform="translate(8 4)">',
    ]
    top = 0
    for rows, title, factor, unit in PANELS:
        least = {
            name: factor
            * min(
                f["median"]
                for f in figures
                if (f["model"], f["rows"]) == (MODEL, rows)
                and f["contender"] in (contender, f"{contender} float32")
            )
            for contender, name in NAMES.items()
        }
        parts.append(f'<text class="title" x="0" y="{top + 18}">{title}</text>')
        top += LINE
        most = max(least.values())
        for name, value in sorted(least.items(), key=lambda item: item[1]):
            figure = f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
            parts += _bar(name, f"{figure} {unit}", value / most, top)
            top += LINE
        top += 12
    parts.append("</g>")
    about = "Times of 500 LightGBM trees: hbconv beside LightGBM and other runtimes"
    return _document(about, WIDTH, top, parts)


def draw_badges() -> str:
    """Return what the project's own metadata says, as badges side by side."""
    project = tomllib.loads((FIGURES.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    (stage,) = (c.rpartition(" - ")[2] for c in project["classifiers"] if "Status" in c)
    badges = {
        "version": project["version"],
        "status": stage.lower(),
        "Python": project["requires-python"].replace(">=", "") + "+",
        "licence": project["license"],
    }
    parts = ["<style>text { font: 11px system-ui, sans-serif; fill: #fff }</style>"]
    left = 0
    for name, value in badges.items():
        first, second = (12 + 6.6 * len(text) for text in (name, value))
        parts += [
            f'<rect x="{left:.0f}" width="{first:.0f}" height="20" fill="#4b5563"/>',
            f'<rect x="{left + first:.0f}" width="{second:.0f}" height="20" fill="#1a7f37"/>',
            f'<text x="{left + first / 2:.0f}" y="14" text-anchor="middle">{name}</text>',
            f'<text x="{left + first + second / 2:.0f}" y="14" text-anchor="middle">{value}</text>',
        ]
        left += int(first + second) + 6
    return _document("; ".join(map(" ".join, badges.items())), left - 6, 20, parts)


def _document(about: str, width: int, height: int, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">'
    )
    return "\n".join([head, f"<title>{about}</title>", *parts, "</svg>", ""])


def _bar(name: str, figure: str, share: float, top: int) -> list[str]:
    own = ' class="own"' if name == "hbconv" else ""
    width = max(share * BAR, 1.5)
    return [
        f'<text{own} x="{LEFT - 8}" y="{top + 16}" text-anchor="end">{name}</text>',
        f'<rect{own} x="{LEFT}" y="{top + 4}" width="{width:.1f}" height="16"/>',
        f'<text{own} x="{LEFT + width + 6:.1f}" y="{top + 16}">{figure}</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    BADGES.write_text(draw_badges(), encoding="utf-8")
