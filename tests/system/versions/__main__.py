"""Measure each row of the table of versions, and write its page: ``make versions``.

    python -m versions [--row "scikit-learn 1.5"] [--folder build/versions]

Environments and answers stay in the folder, so that a row can be measured again alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from versions.answer import Answer
from versions.table import PAGE, ROOT, Row, make_environment, read_rows, write_page


def measure(row: Row, folder: Path, seeds: int) -> None:
    """Run the battery in the environment of a row, and keep its answers."""
    python = make_environment(row, folder)
    answers = folder / f"{python.parents[1].name}.jsonl"
    rooms = ("", "tests", "tests/system", "tests/support", "tests/conformance", "strategies")
    places = os.pathsep.join(str(ROOT / room) for room in (*rooms, "datasets"))
    environment = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    command = [str(python), "-m", "versions.battery", "--seeds", str(seeds)]
    with answers.with_suffix(".part").open("w") as file:
        subprocess.run(command, cwd=ROOT, env=environment, stdout=file, check=True)
    answers.with_suffix(".part").replace(answers)


def kept(row: Row, folder: Path) -> list[Answer]:
    """Return the answers that were kept of a row; none where it was not measured yet."""
    path = folder / f"{row.name.replace(' ', '-')}.jsonl"
    if not path.exists():
        return []
    return [Answer(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


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
    parser.add_argument("--seeds", type=int, default=80, help="random pipelines (default 80)")
    chosen = parser.parse_args()
    for row in rows:
        if chosen.row is None or row.name in chosen.row:
            print(row.name, flush=True)
            measure(row, chosen.folder, chosen.seeds)
    measured = {row.name: kept(row, chosen.folder) for row in rows}
    PAGE.write_text(write_page(measured, rows), "utf-8")
    differing = [
        answer for answers in measured.values() for answer in answers if answer.verdict == "differs"
    ]
    for answer in differing:
        print(answer, file=sys.stderr)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
