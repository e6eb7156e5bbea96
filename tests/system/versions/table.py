"""The table of versions: its rows, their environments, and the page of what was measured."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from versions.answer import Answer

__all__ = ["PAGE", "Row", "make_environment", "read_rows", "write_page"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/versions.md"
SHOWN = ("scikit-learn", "numpy", "pandas", "lightgbm", "xgboost", "catboost", "onnxruntime")
NEEDED = ("platformdirs", "pytest")
"""What the battery itself imports."""
NCCL = "nvidia-nccl-cu12 ; sys_platform == 'never'\n"
"""XGBoost asks for 300 MB of GPU code that no row runs."""
HEAD = """# Versions

Versions of libraries with which hbconv answers as they do, measured by `make versions`.
The first row is the oldest that `pyproject.toml` accepts.
Newer versions than those of the last row are accepted too.

Each row is an environment of its own, in which a battery runs:

- the first case of each parser in `tests/conformance/matrix`, on `reference` and `onnx`,
- random pipelines on hostile rows, half of them on `reference` and half on `onnx`.

*Agrees* means within the tolerances of [fidelity](fidelity.md), in float64 and float32.
*Absent* counts what the libraries of that row cannot fit, and modules of parsers whose library is not in it.
"""


@dataclass(frozen=True)
class Row:
    """Libraries of one time.

    Parameters
    ----------
    name, python : str
    packages : tuple of str
        Requirements, each of one version.
    """

    name: str
    python: str
    packages: tuple[str, ...]

    def version(self, package: str) -> str:
        """Return the version of a package."""
        pinned = dict(requirement.split("==") for requirement in self.packages)
        return pinned[package]


def read_rows() -> list[Row]:
    """Read the table."""
    document = tomllib.loads(Path(__file__).with_name("rows.toml").read_text("utf-8"))
    return [Row(row["name"], row["python"], tuple(row["packages"])) for row in document["row"]]


def make_environment(row: Row, folder: Path) -> Path:
    """Install a row where nothing else is, and return its interpreter."""
    place = folder / row.name.replace(" ", "-")
    python = place / "bin/python"
    if python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    overrides = folder / "overrides.txt"
    overrides.write_text(NCCL, "utf-8")
    uv = (sys.executable, "-m", "uv")
    subprocess.run([*uv, "venv", "--quiet", "--python", row.python, str(place)], check=True)
    install = [*uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", str(python)]
    subprocess.run([*install, "--override", str(overrides), *row.packages, *NEEDED], check=True)
    return python


def write_page(measured: Mapping[str, Sequence[Answer]], rows: Sequence[Row]) -> str:
    """Return the page of the rows that were measured."""
    return "\n".join([HEAD, *_table(measured, rows), "", *_exceptions(measured)]) + "\n"


def _table(measured: Mapping[str, Sequence[Answer]], rows: Sequence[Row]) -> Iterator[str]:
    kinds = ("first cases", "pipelines")
    yield f"| Python | {' | '.join(SHOWN)} | {' | '.join(kinds)} |"
    yield "| --- " * (len(SHOWN) + len(kinds) + 1) + "|"
    for row in rows:
        versions = " | ".join(row.version(package) for package in SHOWN)
        answers = measured.get(row.name, ())
        cells = (_count(answers, kind) for kind in ("first case", "pipeline"))
        yield f"| {row.python} | {versions} | {' | '.join(cells)} |"
    yield ""
    yield f"Measured on Linux x86-64, {date.today():%B %Y}."


def _count(answers: Sequence[Answer], kind: str) -> str:
    counts = Counter(answer.verdict for answer in answers if answer.kind == kind)
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) or "not measured"


def _exceptions(measured: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    yield "## Refused or different"
    yield ""
    yield "| row | what | on | | why |"
    yield "| --- | --- | --- | --- | --- |"
    for name, answers in measured.items():
        for answer in answers:
            if answer.verdict in ("refused", "differs"):
                said = answer.detail.replace("|", "/")
                cells = (name, f"`{answer.name}`", answer.backend, answer.verdict, said)
                yield f"| {' | '.join(cells)} |"
