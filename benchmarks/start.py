"""Time a fresh process that loads a saved model and answers one row, and its memory (Linux).

    python benchmarks/start.py                       # in the environment that converts
    python benchmarks/start.py --python light/bin/python   # the process runs in another one

``light`` may hold numpy, safetensors and hbconv alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv

SOURCES = {
    "scaler and logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "random forest of 50 trees": RandomForestClassifier(50, random_state=0),
    "100 boosted trees": HistGradientBoostingClassifier(),
}
NUMPY = "import numpy"
ANSWER = "import hbconv, numpy; hbconv.load({!r}, trusted=True).predict_proba(numpy.load({!r}))"
MEASURED = """
import json, time
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([time.process_time(), int(peak) / 1024]))
"""


def main() -> None:
    """Print a line of Markdown for each model, and one for numpy alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter of the process")
    parser.add_argument("--runs", type=int, default=10, help="processes; the best one counts")
    options = parser.parse_args()
    x, y = load_breast_cancer(return_X_y=True)
    print("| process | seconds | processor seconds | MB |\n| --- | --- | --- | --- |")
    with TemporaryDirectory() as folder:
        row = str(Path(folder, "row.npy"))
        np.save(row, x[:1])
        show("`import numpy` alone", NUMPY, options)
        for name, source in SOURCES.items():
            path = str(Path(folder, "model.hbc"))
            hbconv.convert(source.fit(x, y), "tvm", sample=x[:2]).save(path)
            show(name, ANSWER.format(path, row), options)


def show(name: str, code: str, options: argparse.Namespace) -> None:
    """Print the least time and memory of some processes."""
    runs = [measured(options.python, code) for _ in range(options.runs)]
    wall, cpu, memory = (min(column) for column in zip(*runs, strict=True))
    print(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} |", flush=True)


def measured(python: str, code: str) -> tuple[float, float, float]:
    """Return seconds, processor seconds and megabytes of one process."""
    began = time.perf_counter()
    ran = subprocess.run([python, "-c", code + MEASURED], capture_output=True, check=True)
    return time.perf_counter() - began, *json.loads(ran.stdout)


if __name__ == "__main__":
    main()
