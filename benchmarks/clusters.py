"""Time ``hbconv score`` on clusters of this machine, beside the plain command.

    taskset -c 0,1 python benchmarks/clusters.py --json clusters.json

By turns, each in a process of its own and into a folder of its own: the plain command with one
thread and with two, and ``--on`` for each engine that is installed, of two workers each. Rows a
second are of the job alone; starting up is told apart. The answers of all are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from timing import machine, versions

import hbconv

COLUMNS = [f"f{i}" for i in range(10)]
SCORE = (
    "from hbconv.cli import main; import sys; sys.exit(main(['score', *sys.argv[1:], '--json']))"
)
PLAIN = {"plain": [], "plain, 2 threads": ["--threads", "2"]}
ON = {"dask": "dask", "ray": "ray:local", "pyspark": "spark:local[2]"}


def main() -> None:
    """Make rows and a model, and let all take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    installed = {name: ["--on", on] for name, on in ON.items() if find_spec(name)}
    contenders = PLAIN | installed
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), options.rows, options.files)
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
        for turn in range(options.turns):
            for name, flags in contenders.items():
                output = f"{folder}/{name.split()[0]}{len(flags)}-{turn}/"
                found[name].append(score(folder, output, flags))
                compare(Path(folder), Path(output))
                best = max(found[name], key=lambda told: told["rows_per_second"])
                print(
                    f"{name:18} {best['rows_per_second']:10,} rows/s  "
                    f"start {best['start_seconds']:5.1f} s"
                )
    if options.json:
        record = {"machine": machine(), "versions": versions(), "rows": options.rows}
        options.json.write_text(json.dumps({**record, "found": found}, indent=1))


def make_files(folder: Path, rows: int, files: int) -> None:
    """Write a model of 100 trees, with its program, and rows in files of one size."""
    draw = np.random.default_rng(0)
    (folder / "in").mkdir()
    for number in range(files):
        values = draw.normal(size=(rows // files, len(COLUMNS)))
        frame = pd.DataFrame(values, columns=COLUMNS)
        frame.to_parquet(folder / f"in/{number:03}.parquet", index=False)
    fitted = frame.head(20_000)
    labels = fitted.f0 + fitted.f1 * fitted.f2 > 0
    source = HistGradientBoostingClassifier(max_iter=100, random_state=0).fit(fitted, labels)
    hbconv.convert(source, sample=frame.head(3)).save(folder / "m.hbc")


def score(folder: str, output: str, flags: list[str]) -> dict[str, Any]:
    """Run the command, and return what it tells."""
    argv = [f"{folder}/m.hbc", f"{folder}/in", "-o", output, "--trusted", "--quiet", *flags]
    ran = subprocess.run(
        [sys.executable, "-c", SCORE, *argv],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index("{") :])
    return told


def compare(folder: Path, output: Path) -> None:
    """Compare answers with those of the first plain run."""
    first = pq.read_table(folder / "plain0-0")
    assert pq.read_table(output).equals(first), f"{output} has other answers."


if __name__ == "__main__":
    main()
