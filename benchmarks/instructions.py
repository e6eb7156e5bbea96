"""Count the instructions of a call of one row, by valgrind's callgrind.

    python benchmarks/instructions.py [--trees 100] [--columns 28] [--calls bound call]
        [--json FILE]

Unlike times, they are alike on a busy machine: a change of a tenth of a microsecond shows. A fresh
process loads a saved model of boosted trees, and instructions are counted while it makes 1,000
calls. Valgrind knows no AVX-512, so code for x86-64-v3 is counted.
"""

from __future__ import annotations

import os

os.environ["HBCONV_MACHINE"] = "x86-64-v3"

import argparse
import re
import subprocess
import sys
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from results import figure, save
from sklearn.ensemble import HistGradientBoostingClassifier

import hbconv

CALLS = 1000
MAKES = {
    "bound": "model.bind('predict_proba', rows=1, dtype='float64')",
    "call": "model.predict_proba",
}
"""What makes the function that is called, by the name of its figure."""
CHILD = """if True:
    import os, subprocess, sys
    sys.modules['torch'] = None  # what imports it would take minutes under valgrind
    import numpy as np
    import hbconv
    model = hbconv.load(sys.argv[1], trusted=True)
    call = eval(sys.argv[2])
    row = np.load(sys.argv[3])
    def count(state):
        control = ['callgrind_control', '-i', state, str(os.getpid())]
        subprocess.run(control, check=True, stdout=subprocess.DEVNULL)
    call(row)
    count('on')
    for _ in range(int(sys.argv[4])):
        call(row)
    count('off')
"""


def main() -> None:
    """Fit a model, and count each kind of call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--calls", nargs="+", choices=MAKES, default=list(MAKES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if which("valgrind") is None:
        sys.exit("valgrind is not installed; Debian's package is valgrind.")
    name = f"{chosen.trees} boosted trees, {chosen.columns} columns"
    figures: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        row = saved(Path(folder), chosen.trees, chosen.columns)
        for call in chosen.calls:
            found = counted(row, MAKES[call]) / CALLS
            figures.append(figure(name, 1, call, [found]))
            print(f"{name}, {call}: {found:,.0f} instructions", flush=True)
    save(figures, chosen)


def saved(folder: Path, trees: int, columns: int) -> Path:
    """Save a model and one row, and return the file of the row."""
    x = np.random.default_rng(0).standard_normal((5000, columns))
    source = HistGradientBoostingClassifier(max_iter=trees, early_stopping=False)
    model = hbconv.convert(source.fit(x, x[:, 0] * x[:, 1] > 0), sample=x[:1])
    model.bind("predict_proba", rows=1, dtype="float64")  # compiles its program too
    model.save(folder / "model.hbc")
    np.save(folder / "row.npy", x[:1])
    return folder / "row.npy"


def counted(row: Path, make: str) -> int:
    """Return the instructions of ``CALLS`` calls; to switch counting on and off takes few."""
    command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
    command += ["--callgrind-out-file=/dev/null", sys.executable, "-c", CHILD]
    command += [str(row.with_name("model.hbc")), make, str(row), str(CALLS)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", told.stderr)
    if told.returncode or not found:
        sys.exit(f"valgrind failed: {told.stderr[-2000:]}")
    return int(found[1])


if __name__ == "__main__":
    main()
