"""``hbconv score`` from parquet to parquet: on a device, on the CPU, and pyarrow alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.gpu.figures import named
from benchmarks.gpu.fitted import DEEP, LINEAR, Fitted, find
from benchmarks.gpu.place import Place
from benchmarks.gpu.processes import python, run_limited
from benchmarks.gpu.record import Row

__all__ = ["run"]

MIDDLE = "lightgbm-31"
MODELS = (LINEAR, MIDDLE, DEEP)
"""From the smallest to the largest: each process takes seconds to start."""
ROWS = 2_000_000
CPU_ROWS = 400_000
COLUMNS = 28
GROUP = 200_000
BATCHES = (65_536, 524_288)
"""Rows of a batch: the default, and for one model as many as fill a device."""
SECONDS = 20


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield rows a second of each model, of the device and of the CPU."""
    with TemporaryDirectory() as folder:
        many, few = Path(folder, "many.parquet"), Path(folder, "few.parquet")
        yield alone(many, write_rows(many, place.rows(ROWS)))
        write_rows(few, place.rows(CPU_ROWS))
        for name in place.some(MODELS):
            yield from named(
                place, name, lambda name=name: scored(find(name, models, place), many, few, place)
            )


def scored(model: Fitted, many: Path, few: Path, place: Place) -> Iterator[Row]:
    """Score many rows on the device, and fewer on all processors."""
    for batch in BATCHES if model.name == MIDDLE else BATCHES[:1]:
        way = f"{place.name}, {batch:,} rows a batch"
        words = ["--devices", place.name, "--backend", "torch", "--batch-rows", str(batch)]
        yield score(model, way, many, words)
    threads = str(os.cpu_count() or 1)
    yield score(model, f"cpu, {threads} threads", few, ["--threads", threads])


def write_rows(path: Path, count: int) -> int:
    """Write rows that nothing compresses."""
    draw = np.random.default_rng(0)
    schema = pa.schema([(f"f{i}", pa.float32()) for i in range(COLUMNS)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, GROUP):
            block = draw.standard_normal((COLUMNS, min(GROUP, count - start)), dtype=np.float32)
            writer.write_table(pa.table(list(block), schema=schema))
    return count


def alone(path: Path, count: int) -> Row:
    """Read all rows, and write a column of as many answers, by pyarrow alone."""
    output = path.with_name("alone.parquet")
    answers = pa.table({"predict": np.random.default_rng(1).standard_normal(count)})
    began = time.perf_counter()
    for _ in pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCHES[0]):
        pass
    pq.write_table(answers, output)
    return of_rows("pyarrow alone", "cpu", count, time.perf_counter() - began)


def score(model: Fitted, way: str, rows: Path, words: list[str]) -> Row:
    """Score a file in a process of its own, as users do."""
    output = rows.with_name("answers.parquet")
    command = ["hbconv.cli", "score", str(model.path), str(rows), "-o", str(output), "--force"]
    ended = run_limited(python(*command, "--quiet", "--json", *words), SECONDS)
    if ended.status != 0:
        return {
            "what": model.name,
            "way": way,
            "failed": ended.said[-400:],
            "seconds": ended.seconds,
        }
    told, _ = json.JSONDecoder().raw_decode(ended.said[ended.said.index("{\n") :])
    started = {"start seconds": told["start_seconds"], "whole seconds": ended.seconds}
    return of_rows(model.name, way, told["rows"], told["seconds"]) | started


def of_rows(name: str, way: str, count: int, seconds: float) -> Row:
    """Return the figure of a file."""
    speed = {"rows a second": round(count / seconds), "microseconds": round(seconds * 1e6, 1)}
    return {"what": name, "rows": count, "way": way, **speed}
