"""Time the adapters of engines beside scikit-learn's own predict inside the same engine.

    taskset -c 0,1 python benchmarks/engines.py --json engines.json

By turns, in one process, on the same rows in the engine's own form:

- scikit-learn by a function that the engine calls with pandas frames or numpy columns,
- hbconv by its adapter,
- hbconv alone: ``model.predict`` of the engine's rows as Arrow, where no engine runs.

Overhead is what the adapter takes beyond hbconv alone, as a share of scikit-learn's time in the
engine. It may be below zero where an engine scores batches in several threads.
Labels of all contenders are compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from timing import interleaved, machine, spread, versions

import hbconv
import hbconv.engines.pandas
import hbconv.engines.polars
from hbconv.engines.dask import score_frames
from hbconv.engines.duckdb import create_function

COLUMNS = [f"f{i}" for i in range(28)]
ARGUMENTS = ", ".join(COLUMNS)
Contenders = dict[str, Callable[[Any], Any]]


def main() -> None:
    """Fit two models, and time them in each engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=4, help="for each contender")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(options.rows, len(COLUMNS))), columns=COLUMNS)
    labels = (frame.f0 + frame.f1 * frame.f2 > 0).astype(int)
    sources = {
        "logistic regression": LogisticRegression(),
        "100 trees": HistGradientBoostingClassifier(max_iter=100, random_state=0),
    }
    found = [
        measure(name, engine, source.fit(frame.head(20_000), labels.head(20_000)), frame, options)
        for name, source in sources.items()
        for engine in ENGINES
    ]
    if options.json:
        record = {"machine": machine(), "versions": versions(), "rows": options.rows}
        options.json.write_text(json.dumps({**record, "found": found}, indent=1))


def measure(
    name: str, engine: str, source: Any, frame: pd.DataFrame, options: argparse.Namespace
) -> dict[str, Any]:
    """Time the contenders of an engine by turns, after comparing their labels."""
    model = hbconv.convert(source, sample=frame.head(3))
    score = hbconv.Scorer(model, "predict")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    inside = ENGINES[engine](frame, source, model)
    alone = (lambda _: model.predict(frame)) if engine in FRAMES else (lambda _: score(table))
    calls = {**inside, "hbconv alone": alone}
    expected = source.predict(frame)
    for call in inside.values():
        np.testing.assert_array_equal(np.asarray(call(None)).ravel(), expected)
    times = {who: spread(held) for who, held in interleaved(calls, None, options.seconds).items()}
    sklearn, ours, bare = (times[who]["median"] for who in (*inside, "hbconv alone"))
    overhead = (ours - bare) / sklearn
    print(
        f"{name:20} {engine:8} scikit-learn {sklearn * 1e3:8.1f} ms  hbconv {ours * 1e3:8.1f} ms  "
        f"alone {bare * 1e3:8.1f} ms  overhead {overhead:+.1%} of scikit-learn's time"
    )
    return {"model": name, "engine": engine, "times": times, "overhead": overhead}


def in_pandas(frame: pd.DataFrame, source: Any, model: Any) -> Contenders:
    """Time the accessor."""
    return {
        "scikit-learn": lambda _: source.predict(frame),
        "hbconv": lambda _: frame.hbconv.predict(model),
    }


def in_polars(frame: pd.DataFrame, source: Any, model: Any) -> Contenders:
    """Time expressions, both elementwise."""
    rows = pl.from_pandas(frame)

    def predict(column: pl.Series) -> pl.Series:
        return pl.Series(source.predict(column.struct.unnest().to_pandas()))

    columns = pl.struct(COLUMNS)
    theirs = columns.map_batches(predict, return_dtype=pl.Int64, is_elementwise=True)
    ours = columns.hbconv.predict(model)
    return {
        "scikit-learn": lambda _: rows.select(theirs).to_series().to_numpy(),
        "hbconv": lambda _: rows.select(ours).to_series().to_numpy(),
    }


def in_duckdb(frame: pd.DataFrame, source: Any, model: Any) -> Contenders:
    """Time functions of SQL over Arrow columns of a table in memory."""
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")

    def theirs(*columns: Any) -> Any:
        rows = pd.DataFrame({n: c.to_numpy() for n, c in zip(COLUMNS, columns, strict=True)})
        return pa.array(source.predict(rows))

    scope: dict[str, Any] = {"theirs": theirs}
    exec(f"def counted({ARGUMENTS}): return theirs({ARGUMENTS})", scope)
    doubles = ["DOUBLE"] * len(COLUMNS)
    connection.create_function("theirs", scope["counted"], doubles, "BIGINT", type="arrow")
    create_function(connection, "ours", model)
    ask = "SELECT {}(" + ARGUMENTS + ") AS y FROM t"
    return {
        "scikit-learn": lambda _: connection.sql(ask.format("theirs")).df().y,
        "hbconv": lambda _: connection.sql(ask.format("ours")).df().y,
    }


def in_dask(frame: pd.DataFrame, source: Any, model: Any) -> Contenders:
    """Time partitions in threads of this process."""
    import dask.dataframe as dd

    rows = dd.from_pandas(frame, npartitions=4).persist(scheduler="threads")

    def predict(part: pd.DataFrame) -> pd.Series:
        return pd.Series(source.predict(part) if len(part) else [], index=part.index, dtype=int)

    theirs = rows.map_partitions(predict, meta=(None, int))
    ours = score_frames(rows, model, "predict")
    return {
        "scikit-learn": lambda _: theirs.compute(scheduler="threads"),
        "hbconv": lambda _: ours.compute(scheduler="threads"),
    }


ENGINES = {"pandas": in_pandas, "polars": in_polars, "duckdb": in_duckdb, "dask": in_dask}
FRAMES = {"pandas", "dask"}
"""Engines whose rows are pandas frames; the others' are Arrow columns."""

if __name__ == "__main__":
    main()
