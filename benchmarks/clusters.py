"""Time ``hbconv score`` on clusters of this machine, beside the plain command and scikit-learn.

    taskset -c 0,1 python benchmarks/clusters.py --json clusters.json

By turns, each in a process of its own and into a folder of its own:

- the plain command with one thread and with two, and ``--on`` for each engine that is installed, of
  two workers each,
- the adapters of Spark and Ray Data, and scikit-learn in a pandas UDF and in ``map_batches``, from
  parquet to parquet in a job of the engine's own. Their first run is of one file.

Rows a second are those behind the start. The command tells it, and of a job of the engine's own it
is the time of another run of one file. Every contender must answer each row once, as the first one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
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
Job = Callable[[str, str], None]
"""Answers a file of rows, or a folder of them, by an engine, into a folder."""


def main() -> None:
    """Make rows and a model, and let all take turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--commands", action="store_true", help="leave the engines' own jobs out")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", nargs=3, metavar=("NAME", "FOLDER", "OUTPUT"))
    options = parser.parse_args()
    if options.inside:
        run_inside(*options.inside)
        return
    commands = PLAIN | {f"--on {name}": ["--on", on] for name, on in ON.items() if find_spec(name)}
    inside = [name for name in INSIDE if find_spec(name.split(",")[0]) and not options.commands]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in (*commands, *inside)}
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), options.rows, options.files)
        for turn in range(options.turns):
            for number, (name, told) in enumerate(found.items()):
                output = f"{folder}/out{number}-{turn}"
                job = (
                    command(folder, output, commands[name])
                    if name in commands
                    else [__file__, "--inside", name, folder, output]
                )
                told.append(ask(job))
                compare(Path(folder), Path(output), options.rows)
                best = max(told, key=lambda one: one["rows_per_second"])
                print(
                    f"{name:22} {best['rows_per_second']:10,} rows/s  "
                    f"start {best['start_seconds']:5.1f} s",
                    flush=True,
                )
    if options.json:
        record = {"machine": machine(), "versions": versions(), "rows": options.rows}
        options.json.write_text(json.dumps({**record, "found": found}, indent=1))


def make_files(folder: Path, rows: int, files: int) -> None:
    """Write a model of 100 trees, with its program, and rows with keys in files of one size."""
    draw = np.random.default_rng(0)
    (folder / "in").mkdir()
    for number in range(files):
        values = draw.normal(size=(rows // files, len(COLUMNS)))
        frame = pd.DataFrame(values, columns=COLUMNS)
        first = number * (rows // files)
        keyed = frame.assign(id=np.arange(first, first + len(frame)))
        keyed.to_parquet(folder / f"in/{number:03}.parquet", index=False)
    fitted = frame.head(20_000)
    labels = fitted.f0 + fitted.f1 * fitted.f2 > 0
    source = HistGradientBoostingClassifier(max_iter=100, random_state=0).fit(fitted, labels)
    hbconv.convert(source, sample=frame.head(3)).save(folder / "m.hbc")
    joblib.dump(source, folder / "m.joblib")


def command(folder: str, output: str, flags: list[str]) -> list[str]:
    """Return the command of ``hbconv score``."""
    argv = [f"{folder}/m.hbc", f"{folder}/in", "-o", f"{output}/", "--keep", "id"]
    return ["-c", SCORE, *argv, "--trusted", "--quiet", *flags]


def ask(job: list[str]) -> dict[str, Any]:
    """Run a job, and return what it tells."""
    ran = subprocess.run(
        [sys.executable, *job],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index("{") :])
    return told


def compare(folder: Path, output: Path, rows: int) -> None:
    """Require that each key is there once, with the answer of the first plain run."""
    first = pq.read_table(folder / "out0-0")
    assert first["id"].equals(pa.chunked_array([pa.array(range(rows))])), "Rows are lost."
    found = pq.read_table(output).sort_by("id").select(first.column_names)
    assert found.equals(first.cast(found.schema)), f"{output} has other answers."


def run_inside(name: str, folder: str, output: str) -> None:
    """Run a job of an engine's own over the first file, twice, then over all; tell the times."""
    began = time.perf_counter()
    first, *others = sorted(Path(folder, "in").iterdir())
    job = INSIDE[name](folder)
    job(str(first), f"{output}-first")
    times = [time.perf_counter()]
    for rows_of, place in ((first, f"{output}-one"), (first.parent, output)):
        job(str(rows_of), place)
        times.append(time.perf_counter())
    one, whole = np.diff(times)
    rows = sum(pq.read_metadata(file).num_rows for file in others)
    start = times[0] - began + one
    told = {"rows_per_second": round(rows / (whole - one)), "start_seconds": round(start, 3)}
    print(json.dumps(told | {"seconds": round(whole, 3)}))


def spark_session() -> Any:
    """Begin a session of two workers."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    return SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()


def spark_hbconv(folder: str) -> Job:
    """Answer by the adapter."""
    from hbconv.engines.spark import score_rows

    spark = spark_session()
    scorer = hbconv.Scorer(f"{folder}/m.hbc", "predict", ["id"], trusted=True)
    return lambda rows, place: score_rows(spark.read.parquet(rows), scorer).write.parquet(place)


def spark_sklearn(folder: str) -> Job:
    """Answer by a pandas UDF, which loads the model once in a task."""
    from pyspark.sql.functions import pandas_udf, struct

    spark = spark_session()
    held: list[Any] = []

    def predict(rows: pd.DataFrame) -> pd.Series:
        if not held:
            held.append(joblib.load(f"{folder}/m.joblib"))
        return pd.Series(held[0].predict(rows))

    # Spark reads the kind of a function from its annotations, which are texts in this file.
    predict.__annotations__ = {"rows": pd.DataFrame, "return": pd.Series}
    leaves = pandas_udf(predict, "boolean")(struct(*COLUMNS)).alias("predict")
    return lambda rows, place: spark.read.parquet(rows).select("id", leaves).write.parquet(place)


def ray_data() -> Any:
    """Start Ray with two CPUs."""
    import ray

    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray.data


def ray_hbconv(folder: str) -> Job:
    """Answer by the adapter."""
    from hbconv.engines.ray import score_dataset

    data = ray_data()
    scorer = hbconv.Scorer(f"{folder}/m.hbc", "predict", ["id"], trusted=True)
    return lambda rows, place: score_dataset(
        data.read_parquet(rows), scorer, actors=2, num_cpus=0.5
    ).write_parquet(place)


class Classifier:
    """Answers batches of pandas frames by scikit-learn; an actor loads the model once."""

    def __init__(self, path: str) -> None:
        self.model = joblib.load(path)

    def __call__(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Answer a batch."""
        return pd.DataFrame({"id": rows.id, "predict": self.model.predict(rows[COLUMNS])})


def ray_sklearn(folder: str) -> Job:
    """Answer by actors, with batches of the size that the adapter asks for."""
    data = ray_data()
    return lambda rows, place: (
        data.read_parquet(rows)
        .map_batches(
            Classifier,
            fn_constructor_args=(f"{folder}/m.joblib",),
            batch_format="pandas",
            batch_size=65_536,
            num_cpus=0.5,
            compute=data.ActorPoolStrategy(size=2),
        )
        .write_parquet(place)
    )


INSIDE: dict[str, Callable[[str], Job]] = {
    "pyspark, hbconv": spark_hbconv,
    "pyspark, scikit-learn": spark_sklearn,
    "ray, hbconv": ray_hbconv,
    "ray, scikit-learn": ray_sklearn,
}
"""Jobs of the engines' own, whose name begins with that of a package."""

if __name__ == "__main__":
    main()
