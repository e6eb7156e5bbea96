"""Resolve every extra on each platform and Python, with wheels alone: ``make resolve``.

    python tests/system/resolve.py [--write docs/installing.md]

A resolver finds versions that fit together and have a wheel for the platform; nothing is installed.
All extras are resolved together first. What fits all fits each, so only where that fails they are
resolved one by one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "pyproject.toml"
PLATFORMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux AArch64": "aarch64-manylinux_2_28",
    "macOS arm64": "aarch64-apple-darwin",
    "Windows x86-64": "x86_64-pc-windows-msvc",
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
OF_DEVELOPERS = ("dev", "docs", "peers", "release", "test")
"""Extras that no user installs."""
FROM_SOURCE = "pyspark"
"""Has no wheel anywhere: it is Python alone, and is built where it is installed."""
MACOS = "14.0"
"""The oldest macOS for which ONNX Runtime has wheels."""
FIRST, LAST = "<!-- Written by make resolve. -->\n", "<!-- End of the platforms. -->\n"


def extras() -> list[str]:
    """Return the extras of users."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in OF_DEVELOPERS]


def resolves(platform: str, python: str, names: Sequence[str]) -> bool:
    """Tell whether extras can be had together."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"),
        *("--only-binary", ":all:", "--no-binary", FROM_SOURCE),
        *("--python-platform", PLATFORMS[platform], "--python-version", python),
        *(part for name in names for part in ("--extra", name)),
        *(str(PROJECT), "--output-file", os.devnull),
    ]
    environment = os.environ | {"MACOSX_DEPLOYMENT_TARGET": MACOS}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{platform}, Python {python}, {', '.join(names)}: {done.stderr}", file=sys.stderr)
    return done.returncode == 0


def unresolved(platform: str, python: str) -> list[str]:
    """Return the extras that cannot be had."""
    names = extras()
    if resolves(platform, python, names):
        return []
    return [name for name in names if not resolves(platform, python, [name])]


def table(found: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """Yield the lines of the table, a row for each platform."""
    yield f"| platform | {' | '.join(f'Python {python}' for python in PYTHONS)} |"
    yield "| --- |" + " --- |" * len(PYTHONS)
    for platform in PLATFORMS:
        cells = (_cell(found[platform, python]) for python in PYTHONS)
        yield f"| {platform} | {' | '.join(cells)} |"


def _cell(missing: list[str]) -> str:
    return f"all but {', '.join(f'`{name}`' for name in missing)}" if missing else "all"


def main() -> int:
    """Print the table, and fail where an extra cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="PAGE", help="page that holds the table")
    chosen = parser.parse_args()
    found = {(p, python): unresolved(p, python) for p in PLATFORMS for python in PYTHONS}
    lines = [*table(found)]
    print("\n".join(lines))
    if chosen.write:
        before, _, rest = chosen.write.read_text("utf-8").partition(FIRST)
        after = rest.partition(LAST)[2]
        text = "".join(f"{line}\n" for line in lines)
        chosen.write.write_text(f"{before}{FIRST}\n{text}\n{LAST}{after}", "utf-8")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
