"""Draw the figures of ``trees.py``: a row of panels for each batch size, a panel for each model.

    python benchmarks/plots.py results.json [more.json ...] picture.svg [--rows 1 20000]
        [--models NAME ...]

The suffix of the picture chooses the format: ``.svg`` or ``.png``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

LABELS = {
    "source": "source library",
    "onnxruntime": "ONNX Runtime",
    "onnxruntime float32": "ONNX Runtime",
    "onedal": "oneDAL",
    "lleaves": "lleaves",
    "lleaves float32": "lleaves",
    "snapml": "Snap ML",
    "ydf": "YDF",
    "hbconv tvm": "hbconv",
    "hbconv tvm fast": "hbconv, float32 sums",
    "hbconv tvm bound": "hbconv, bind()",
    "hbconv torchscript": "hbconv as TorchScript",
}
"""Names of contenders, in the order of the bars; of several with one name the fastest counts."""

TITLES = {
    "lightgbm-8": "8 leaves a tree",
    "lightgbm-31": "31 leaves a tree",
    "lightgbm-d8": "200 leaves a tree",
}
OWN = "#0b6e4f"
OWN_SOFT = "#9cc5b2"
PEER = "#c3c9d0"
INK = "#24292f"
SOFT_INK = "#6e7781"

Figure = dict[str, Any]


def main() -> None:
    """Read the figures, and draw them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--models", nargs="+")
    chosen = parser.parse_args()
    figures = [
        figure
        for path in chosen.results
        for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]
    ]
    models = chosen.models or list(dict.fromkeys(figure["model"] for figure in figures))
    rows = chosen.rows or sorted({figure["rows"] for figure in figures})
    draw(figures, models, rows).savefig(chosen.picture, dpi=150, metadata=metadata(chosen.picture))


def metadata(picture: Path) -> dict[str, None]:
    """Leave the date out of an SVG, so that equal figures give an equal file."""
    return {"Date": None} if picture.suffix == ".svg" else {}


def draw(figures: list[Figure], models: list[str], rows: list[int]) -> Any:
    """Return the picture."""
    plt = pyplot()
    names = ordered({label(figure) for figure in figures})
    size = (1.6 + 2.7 * len(models), 0.2 + (0.75 + 0.22 * len(names)) * len(rows))
    picture, panels = plt.subplots(
        len(rows), len(models), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    picture.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    for line, count in zip(panels, rows, strict=True):
        for panel, model in zip(line, models, strict=True):
            fill(panel, fastest(figures, model, count), names)
            panel.set_title(TITLES.get(model, model), fontsize=9, loc="left", color=INK)
        what = "one row a call" if count == 1 else f"{count:,} rows a call, time of a row"
        line[0].annotate(
            what,
            (0, 1),
            (-100, 24),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=10,
            fontweight="bold",
            color=INK,
        )
    panels[0][0].invert_yaxis()
    return picture


def pyplot() -> Any:
    """Return matplotlib's drawing module; text stays text, and equal figures give equal files."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "hbconv",
            "font.family": ["Helvetica", "Arial", "DejaVu Sans", "sans-serif"],
            "font.size": 8,
        }
    )
    import logging

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib import pyplot as plt

    return plt


def label(figure: Figure) -> str:
    """Return the name of a figure's contender."""
    if figure["contender"] == "source" and figure["model"].startswith("lightgbm"):
        return "LightGBM"
    return LABELS.get(figure["contender"], figure["contender"])


def ordered(names: set[str]) -> list[str]:
    """Sort names: source libraries, the peers, then those that say hbconv, as in ``LABELS``.

    Examples
    --------
    >>> ordered({"hbconv", "treelite", "LightGBM", "oneDAL"})
    ['LightGBM', 'oneDAL', 'treelite', 'hbconv']
    """
    known = ["LightGBM", *LABELS.values()]
    rank = {name: position for position, name in reversed(list(enumerate(known)))}
    unknown = rank["lleaves"]
    return sorted(names, key=lambda name: (rank.get(name, unknown), name))


def fastest(figures: list[Figure], model: str, count: int) -> dict[str, Figure]:
    """Return the fastest figure of each name, for one model and number of rows."""
    found: dict[str, Figure] = {}
    for figure in figures:
        if (figure["model"], figure["rows"]) != (model, count):
            continue
        known = found.get(label(figure), figure)
        found[label(figure)] = min(known, figure, key=lambda one: one["median"])
    return found


def fill(panel: Any, found: dict[str, Figure], names: list[str]) -> None:
    """Draw a bar for the median of each contender, from zero, with its time in words."""
    panel.set_yticks(range(len(names)), names, color=INK)
    panel.tick_params(axis="both", length=0)
    panel.set_xticks([])
    panel.spines[:].set_visible(False)
    panel.axvline(0, color=SOFT_INK, linewidth=0.6)
    for place, name in enumerate(names):
        if name not in found:
            panel.text(0, place, "  no figure", va="center", fontsize=7, color=SOFT_INK)
            continue
        seconds = found[name]["median"] / found[name]["rows"]
        panel.barh(place, seconds, color=color(name), height=0.68)
        weight = "bold" if name == "hbconv" else "normal"
        panel.text(
            seconds,
            place,
            f"  {words(seconds)}",
            va="center",
            fontsize=7.5,
            color=INK,
            fontweight=weight,
        )
    panel.margins(x=0.28, y=0.02)
    panel.set_xlim(left=0)


def color(name: str) -> str:
    """Return the colour of a contender's bar."""
    if name == "hbconv":
        return OWN
    return OWN_SOFT if name.startswith("hbconv") else PEER


def words(seconds: float) -> str:
    """Print a time with its unit.

    Examples
    --------
    >>> words(3.58e-7), words(4.6e-5)
    ('358 ns', '46.0 µs')
    """
    if seconds < 1e-6:
        return f"{seconds * 1e9:.0f} ns"
    return f"{seconds * 1e6:.{1 if seconds < 1e-4 else 0}f} µs"


if __name__ == "__main__":
    main()
