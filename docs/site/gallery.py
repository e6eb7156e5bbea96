"""Run the pages of the gallery: write what they print, and the figures that they save.

python docs/site/gallery.py [PAGE ...]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

DOCS = Path(__file__).parents[1]
FIGURES = DOCS / "figures/gallery"
BLOCK = re.compile(r"^```(python|text) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hbconv",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def main() -> None:
    """Run all pages, or those that are named."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("pages", nargs="*", type=Path)
    pages = options.parse_args().pages or sorted((DOCS / "gallery").glob("*.md"))
    mpl.use("agg")
    mpl.rcParams.update(STYLE)
    FIGURES.mkdir(exist_ok=True)
    for page in pages:
        whole = page.resolve()
        with TemporaryDirectory() as folder, contextlib.chdir(folder):
            whole.write_text(run(whole.read_text(encoding="utf-8")), encoding="utf-8")
            for figure in Path().glob("*.svg"):
                shutil.move(figure, FIGURES / figure.name)


def run(text: str) -> str:
    """Return a page with what its blocks print, but where it says that something varies."""
    names: dict[str, object] = {}
    printed = ""

    def replaced(found: re.Match[str]) -> str:
        nonlocal printed
        language, note, inside = found.groups()
        if language == "python" and not note.startswith("sketch"):
            with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(inside, names)  # noqa: S102  (the page's own example)
            printed = out.getvalue()
        if note == "prints" and "..." not in inside:
            return f"```text prints\n{printed}```"
        return found[0]

    return BLOCK.sub(replaced, text)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
