"""Score a parquet file into another, beside what pyarrow alone takes to read and write as much.

    taskset -c 0,1 python benchmarks/scoring.py --json scoring.json

By turns, each in a process of its own: pyarrow reads the rows and writes a column of answers that
are there already, and ``hbconv score`` reads, answers and writes them. Both write the same values,
which are compared. The rows are drawn, so nothing in them compresses.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from timing import machine, versions

import hbconv

COLUMNS = [f"f{i}" for i in range(28)]
BATCH = 65_536
GROUP = 500_000
ALONE = """
import pyarrow as pa, pyarrow.parquet as pq, sys
rows, answers, output = sys.argv[1:]
found = pq.ParquetFile(answers).iter_batches({batch})
with pq.ParquetWriter(output, pq.read_schema(answers)) as writer:
    for batch in pq.ParquetFile(rows, pre_buffer=False).iter_batches({batch}):
        writer.write_batch(next(found))
"""
OURS = "from hbconv.cli import main; import sys; sys.exit(main(['score', *sys.argv[1:], '--json']))"
WRAP = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
out = subprocess.run([sys.executable, '-c', *sys.argv[1:]], capture_output=True, text=True)
seconds = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
assert out.returncode == 0, out.stderr + out.stdout
print(json.dumps({'seconds': seconds, 'processor': used.ru_utime + used.ru_stime,
                  'peak_mb': used.ru_maxrss / 1024, 'said': out.stdout}))
"""


def main() -> None:
    """Make rows and models, and let both take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(Path(folder), *model, options) for model in models(options, Path(folder))]
    if options.json:
        record = {"machine": machine(), "versions": versions(), "rows": options.rows}
        options.json.write_text(json.dumps({**record, "models": found}, indent=1))


def models(options: argparse.Namespace, folder: Path) -> list[tuple[str, Any]]:
    """Write the rows, and fit models to the first of them."""
    draw = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    with pq.ParquetWriter(folder / "rows.parquet", schema) as writer:
        for start in range(0, options.rows, GROUP):
            count = min(GROUP, options.rows - start)
            block = draw.standard_normal((len(COLUMNS), count), dtype=np.float32)
            writer.write_table(pa.table(list(block), schema=schema))
    x = next(pq.ParquetFile(folder / "rows.parquet").iter_batches(BATCH)).to_pandas()
    y = x.f0 + x.f1 * x.f2 > 0
    trees = lightgbm.LGBMClassifier(n_estimators=100, num_leaves=31, n_jobs=1, verbose=-1)
    return [("logistic regression", LogisticRegression().fit(x, y)), ("100 trees", trees.fit(x, y))]


def measure(folder: Path, name: str, source: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Compare the answers, then let both take turns."""
    model = folder / "model.hbc"
    hbconv.convert(source).save(model)
    rows, answers, output = (folder / f"{n}.parquet" for n in ("rows", "answers", "output"))
    ours = [OURS, str(model), str(rows), "--methods", "predict_proba", "--quiet", "--force", "-o"]
    alone = [ALONE.format(batch=BATCH), str(rows), str(answers), str(output)]
    run([*ours, str(answers)])
    compare(source, rows, answers)
    turns: dict[str, list[dict[str, Any]]] = {"pyarrow alone": [], "hbconv score": []}
    for _ in range(options.turns):
        turns["pyarrow alone"].append(run(alone))
        turns["hbconv score"].append(run([*ours, str(output)]))
    assert pq.read_table(output).equals(pq.read_table(answers))
    return report(name, turns, options.rows)


def run(command: list[str]) -> dict[str, Any]:
    """Run a script in a process of its own; its parent reads what it used."""
    wrapped = [sys.executable, "-c", WRAP, *command]
    return json.loads(subprocess.run(wrapped, check=True, capture_output=True, text=True).stdout)


def compare(source: Any, rows: Path, answers: Path) -> None:
    """Require the source's answers to the first rows."""
    x, found = (next(pq.ParquetFile(path).iter_batches(BATCH)) for path in (rows, answers))
    expected = source.predict_proba(x.to_pandas())
    np.testing.assert_allclose(found.to_pandas().to_numpy(), expected, rtol=1e-4, atol=1e-6)


def report(name: str, turns: dict[str, list[dict[str, Any]]], rows: int) -> dict[str, Any]:
    """Print the medians, and return all turns."""
    middle = {
        who: {
            key: statistics.median(turn[key] for turn in held) for key in held[0] if key != "said"
        }
        for who, held in turns.items()
    }
    told = [json.loads(turn["said"]) for turn in turns["hbconv score"]]
    share = middle["pyarrow alone"]["seconds"] / middle["hbconv score"]["seconds"]
    for who, one in middle.items():
        print(
            f"{name:22} {who:14} {one['seconds']:6.2f} s {rows / one['seconds']:12,.0f} rows/s "
            f"{one['processor']:6.2f} s of processors {one['peak_mb']:6.0f} MB"
        )
    start = statistics.median(turn["start_seconds"] for turn in told)
    print(f"{name:22} {share:.0%} of pyarrow alone; start {start:.2f} s of it")
    return {"model": name, "median": middle, "share": share, "start_seconds": start, "turns": turns}


if __name__ == "__main__":
    main()
