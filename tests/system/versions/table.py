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

from debian import make_python
from versions.answer import BACKENDS, Answer

__all__ = ["PAGE", "Row", "make_environment", "read_rows", "write_page"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/versions.md"
SHOWN = (
    *("scikit-learn", "numpy", "pandas", "lightgbm", "xgboost", "catboost", "onnxruntime"),
    "apache-tvm",
)
NEEDED = ("hypothesis", "platformdirs", "pytest", "safetensors")
"""What the battery and hbconv itself import, of any version unless the row names one."""
NCCL = "".join(f"nvidia-nccl-{cuda} ; sys_platform == 'never'\n" for cuda in ("cu12", "cu13"))
"""XGBoost asks for 300 MB of GPU code that no row runs."""
HEAD = """# Versions

Versions of libraries with which hbconv answers as they do, measured by `make versions`.
The first row is the oldest that `pyproject.toml` accepts.
Newer versions than those of the last row are accepted too.

Each row is an environment of its own, in which a battery runs:

- the first case of each parser in `tests/conformance/matrix`, on `reference`, `onnx` and `tvm`,
- each primitive on `onnx`, over inputs made to hurt,
- random pipelines on hostile rows, a third of them on each of these backends.

*Agrees* means within the tolerances of [fidelity](fidelity.md), in float64 and float32; or both refuse.
*Absent* counts what the libraries of that row cannot fit, and modules of parsers whose library is not in it.
A count below those of other rows is of a run that was cut short.
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

    @property
    def folder(self) -> str:
        """Name of its environment."""
        return self.name.replace(" ", "-")

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
    place = folder / row.folder
    python = place / "bin/python"
    if python.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    overrides = folder / "overrides.txt"
    overrides.write_text(NCCL, "utf-8")
    uv = (sys.executable, "-m", "uv")
    venv = (*uv, "venv", "--quiet", "--clear", str(place), "--python")
    # uv has the interpreter, or downloads it where it can.
    if subprocess.run([*venv, row.python], check=False).returncode:
        debians = make_python(row.python, folder / f"debian-{row.python}")
        subprocess.run([*venv, str(debians)], check=True)
    install = [*uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", str(python)]
    subprocess.run([*install, "--override", str(overrides), *row.packages, *NEEDED], check=True)
    return python


def write_page(measured: Mapping[str, Sequence[Answer]], rows: Sequence[Row]) -> str:
    """Return the page of the rows that were measured."""
    parts = (_versions(rows), _counts(measured, rows), _exceptions(measured))
    return "\n".join([HEAD, *(line for part in parts for line in (*part, ""))])


def _versions(rows: Sequence[Row]) -> Iterator[str]:
    yield from _head("row", "Python", *SHOWN)
    for row in rows:
        yield _line(row.name, row.python, *map(row.version, SHOWN))


def _counts(measured: Mapping[str, Sequence[Answer]], rows: Sequence[Row]) -> Iterator[str]:
    yield from _head(
        *("row", "absent", *(f"on `{name}`" for name in BACKENDS), "primitives", "pipelines")
    )
    for row in rows:
        answers = measured.get(row.name, ())
        cases, primitives, pipelines = (
            [answer for answer in answers if answer.kind == kind]
            for kind in ("first case", "primitive", "pipeline")
        )
        absent = sum(answer.verdict == "absent" for answer in cases) if cases else ""
        on = (_count([a for a in cases if a.backend == name]) for name in BACKENDS)
        yield _line(row.name, str(absent), *on, _count(primitives), _count(pipelines))
    yield ""
    yield f"Measured on Linux x86-64, {date.today():%B %Y}."


def _count(answers: Sequence[Answer]) -> str:
    counts = Counter(answer.verdict for answer in answers)
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) or "not measured"


def _exceptions(measured: Mapping[str, Sequence[Answer]]) -> Iterator[str]:
    """Name what does not agree: a line for all rows in which it ends alike."""
    found: dict[Answer, list[str]] = {}
    for name, answers in measured.items():
        for answer in answers:
            if answer.verdict in ("refused", "differs"):
                found.setdefault(answer, []).append(name)
    yield "## Refused or different"
    yield ""
    if not found:
        yield "Nothing is."
        return
    yield from _head("what", "on", "", "why", "rows")
    for answer, names in found.items():
        said = answer.detail.replace("|", "/")
        yield _line(f"`{answer.name}`", answer.backend, answer.verdict, said, ", ".join(names))


def _head(*titles: str) -> Iterator[str]:
    yield _line(*titles)
    yield "| --- " * len(titles) + "|"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
