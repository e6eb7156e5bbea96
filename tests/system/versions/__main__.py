"""Measure each row of the table of versions, and write its page: ``make versions``.

    python -m versions [--row "scikit-learn 1.5"] [--folder build/versions] [-- --only RBFSampler]

Environments, answers and compiled code stay in the folder. So a row can be measured again alone. What
follows ``--`` is for ``versions.battery``, which then asks a part: its answers take the place of those
that are kept. uv finds the Python of a row, or downloads it; where it cannot, that of Debian's newest
suite is unpacked, which needs apt.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from versions.answer import Answer
from versions.table import PAGE, ROOT, Row, make_environment, read_rows, write_page


def measure(row: Row, folder: Path, options: Sequence[str]) -> None:
    """Run the battery in the environment of a row, and keep its answers."""
    python = make_environment(row, folder)
    answers = folder / f"{row.folder}.jsonl"
    rooms = ("", "tests", "tests/system", "tests/support", "tests/conformance", "strategies")
    places = os.pathsep.join(str(ROOT / room) for room in (*rooms, "datasets"))
    environment = os.environ | {
        "PYTHONPATH": places,
        "OMP_NUM_THREADS": "1",
        # Rows differ in few programs: what one has compiled, the next ones take.
        "HBCONV_CACHE": str(folder.resolve() / "kernels"),
    }
    command = [str(python), "-m", "versions.battery", *options]
    part = answers.with_suffix(".part")
    with part.open("w") as file:
        subprocess.run(command, cwd=ROOT, env=environment, stdout=file, check=True)
    # A part takes the place of what is kept of it.
    asked = [*(kept(answers) if options else []), *kept(part)]
    latest = {(answer.kind, answer.name, answer.backend): answer for answer in asked}
    part.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in latest.values()), "utf-8")
    part.replace(answers)


def kept(path: Path) -> list[Answer]:
    """Return the answers in a file; none where there is none."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Answer(**json.loads(line)) for line in lines]


def main() -> int:
    """Measure, write the page, and fail where an answer differs."""
    rows = read_rows()
    parser = argparse.ArgumentParser(prog="versions", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--row",
        nargs="*",
        choices=[row.name for row in rows],
        help="default: all; none: write the page",
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build/versions")
    parser.add_argument("options", nargs="*", help="of versions.battery, behind --")
    chosen = parser.parse_args()
    for row in rows:
        if chosen.row is None or row.name in chosen.row:
            print(row.name, flush=True)
            measure(row, chosen.folder, chosen.options)
    measured = {row.name: kept(chosen.folder / f"{row.folder}.jsonl") for row in rows}
    PAGE.write_text(write_page(measured, rows), "utf-8")
    differing = [
        answer for answers in measured.values() for answer in answers if answer.verdict == "differs"
    ]
    for answer in differing:
        print(answer, file=sys.stderr)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
