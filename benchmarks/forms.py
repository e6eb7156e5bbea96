"""Measure where one form of an operator beats the other: constants of the code that say "from".

    taskset -c 0 python benchmarks/forms.py [--json FILE]

- runs: a ``take`` copies runs of neighbours, or reads each position (``hbconv/tensor/program.py``),
- tables: codes are compared with each entry, or look it up (``backends/onnx/emit.py``),
- missing: splits that never send NaN to their left, beside splits that may (``onnx/trees.py``).

A figure is a ratio of least processor times: above 1, the first form is the faster one.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from primitives import ROWS, least_seconds
from regret_forests import Shape, train
from timing import machine, versions

from hbconv.array import Array
from hbconv.backends.onnx import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram
from hbconv.tensor.decompositions import compare_small_tables

Figure = dict[str, Any]
ALWAYS, NEVER = 0, float("inf")
"""Mean lengths from which runs are copied."""
RUNS = (1, 2, 4, 8, 16, 32)
LENGTHS = (1, 2, 4, 8)
CODES = 16
"""Columns of codes."""
FORESTS = (Shape(100, 4, None, 28), Shape(100, None, 31, 28), Shape(100, 8, None, 28))
SHARE_MISSING = 0.05


def runs() -> Iterator[Figure]:
    """Compare copies of runs with reads of positions, by number and length of the runs."""
    for backend in ("torch", "onnx"):
        for count in RUNS:
            for length in LENGTHS:
                ratio = copied(backend, count, length)
                yield {"part": "runs", "backend": backend, "runs": count, "length": length} | ratio


def copied(backend: str, count: int, length: int) -> Figure:
    """Time a take of runs that have a gap of one between them."""
    positions = [run * (length + 1) + i for run in range(count) for i in range(length)]
    width = count * (length + 1)

    def program() -> TensorProgram:
        b = Builder()
        x = b.input("x", "float64", width)
        return b.program({"y": b.take(x, positions)})

    def seconds(least: float) -> float:
        with patch("hbconv.tensor.program.LENGTH", least):
            return least_seconds(program(), Target(backend), ROWS)

    return {"ratio": seconds(NEVER) / seconds(ALWAYS), "from": length / count}


def tables() -> Iterator[Figure]:
    """Compare codes with each entry, or look entries up, by the size of the tables."""
    for size in (3, 4, 6, 8):  # with the entry of codes that were never seen
        yield {"part": "tables", "backend": "onnx", "size": size, "ratio": compared(size)}


def compared(size: int) -> float:
    """Time columns of codes whose tables have one number for each code."""
    entries = np.random.default_rng(0).standard_normal((CODES, size))

    def program() -> TensorProgram:
        b = Builder()
        codes = b.input("x", "int32", CODES)
        return b.program({"y": b.lookup_codes(list(entries), codes)})

    def seconds(most: int) -> float:
        form = compare_small_tables(most, of_all_entries=True)
        with patch.dict(BACKEND.rules, lookup_codes=form):
            return least_seconds(program(), Target("onnx"), ROWS)

    return seconds(0) / seconds(size)


def missing() -> Iterator[Figure]:
    """Compare forests that differ in where NaN goes, on rows with and without NaN."""
    for shape in FORESTS:
        for share in (0.0, SHARE_MISSING):
            leaves = asdict(shape)
            yield {
                "part": "missing",
                "forest": leaves,
                "share": share,
                "ratio": asked(shape, share),
            }


def asked(shape: Shape, share: float) -> float:
    """Time a forest whose splits all send NaN left, over the one whose splits do not."""
    forest = train(shape)
    right = np.zeros(forest.n_tests, bool)

    def seconds(left: Any) -> float:
        b = Builder()
        x = b.input("x", shape.dtype, shape.columns)
        own = replace(forest, default_left=Array(left))
        program = b.program({"y": b.op("tree_scores", x, forest=own, strategy="tree_traversal")})
        return least_seconds(program, Target("onnx"), ROWS, share)

    return seconds(~right) / seconds(right)


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    figures = []
    for figure in chain(runs(), tables(), missing()):
        print(*(f"{name} {value}" for name, value in figure.items()), flush=True)
        figures.append(figure)
    if chosen.json:
        facts = {"machine": machine(), "versions": versions(), "figures": figures}
        chosen.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
