"""Draw the figures of ``trees.py`` as an SVG: for each number of rows in a call a row of panels, a model each, with a bar for each contender.

python benchmarks/plots.py results.json [more.json ...] picture.svg [--rows 1 20000] [--models NAME ...]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

COLORS = {"hbconv tvm": "#c0392b", "hbconv tvm fast": "#e67e22", "hbconv tvm bound": "#f1c40f"}
OTHER, OWN = "#95a5a6", "#d7b7a5"


def main() -> None:
    """Draw."""
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
    draw(figures, models, rows).savefig(chosen.picture, metadata={"Date": None})


def draw(figures: list[dict[str, Any]], models: list[str], rows: list[int]) -> Any:
    """Return the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "hbconv",
            "font.size": 8,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(figure["contender"] for figure in figures))
    size = (1.5 + 2.5 * len(models), 0.6 + (0.5 + 0.19 * len(names)) * len(rows))
    picture, panels = plt.subplots(
        len(rows), len(models), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for line, count in zip(panels, rows, strict=True):
        for panel, model in zip(line, models, strict=True):
            here = {
                figure["contender"]: figure
                for figure in figures
                if (figure["model"], figure["rows"]) == (model, count)
            }
            fill(panel, [here.get(name) for name in names], names)
            panel.set_title(
                f"{model}, {count:,} row{'s' if count > 1 else ''}", fontsize=8, loc="left"
            )
    panels[0][0].invert_yaxis()
    for panel in panels[-1]:
        panel.set_xlabel("microseconds a row")
    return picture


def fill(panel: Any, figures: list[dict[str, Any] | None], names: list[str]) -> None:
    """Draw a bar from the median of each contender, on a scale of powers of ten, with its quartiles."""
    panel.set_xscale("log")
    panel.xaxis.set_major_formatter("{x:g}")
    panel.minorticks_off()
    panel.set_yticks(range(len(names)), names)
    panel.tick_params(axis="y", length=0)
    for place, (name, figure) in enumerate(zip(names, figures, strict=True)):
        if figure is None:
            continue
        lower, middle, upper = (
            figure[key] / figure["rows"] * 1e6 for key in ("lower", "median", "upper")
        )
        panel.barh(
            place,
            middle,
            color=COLORS.get(name, OWN if name.startswith("hbconv") else OTHER),
            height=0.75,
        )
        panel.plot([lower, upper], [place, place], color="#2c3e50", linewidth=1)
        panel.text(upper, place, f" {middle:.3g}", va="center", fontsize=6)
    panel.margins(x=0.2)


if __name__ == "__main__":
    main()
