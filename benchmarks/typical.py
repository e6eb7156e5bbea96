"""Time what users predict with, beside everything that they could take instead of hbconv.

    nice -n -5 taskset -c 0 python benchmarks/typical.py [--models words ...] [--rows 1 100]
        [--backends tvm torch] [--threads 1] [--folder DIR] [--json FILE] [--write docs]

Twenty workloads of ``typical_models.py``, on all contenders that read them, by turns in one
process. Answers are compared with the source's before anything is timed, and the program ends with
1 where an exact answer of hbconv is another. Figures are the least processor time of a call, from
rows as users hold them to the answer; of several threads it is the wall's time.

``--write docs`` stores the figures, their picture and their page there. Fitting all takes five
minutes, so keep the models by ``--folder``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import logging
import math
import subprocess
import sys
import warnings
from collections.abc import Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from comparing import compare, options
from peers import Call
from results import facts, parse_options, save
from threadpoolctl import threadpool_limits
from timing import least_processor_seconds, least_wall_seconds, many
from typical_models import BOOSTED, DISTANCES, FORESTS, TABLES, TEXTS, WORKLOADS, Workload
from typical_page import write

from hbconv.backends.tvm import BACKEND
from hbconv.target import Target
from hbconv.tensor import Builder

BACKENDS = ("tvm", "tvm fast", "torch", "torchscript", "onnx")
ROWS = (1, 100, 10_000, 200_000)
LARGEST_DIFFERENCE = {"float32": 2e-5, "float64": 5e-9}
"""Difference to the source that an exact answer may have, relative to values above one.

docs/fidelity.md promises 1e-10 of the largest input, which is below 50 here.
"""
READING_SECONDS = 1e-3
"""Seconds of a reading of the clock, which takes up to 5 microseconds itself."""
LEAST_TURNS = 3
SHORT = ("forest-regression", "lightgbm", "frame-logistic", "frame-onehot", "svc", "words")

KIND_PEERS = {
    FORESTS: ("treelite", "sklearnex"),
    BOOSTED: ("onedal", "treelite", "lignum", "lignum compiled", "snapml", "onnxmltools"),
    TABLES: ("skl2onnx", "torch by hand"),
    DISTANCES: ("skl2onnx", "sklearnex", "faiss", "hnswlib", "torch by hand"),
    TEXTS: ("skl2onnx",),
}
"""Peers that may read the workloads of a kind.

Others take minutes: lleaves and tl2cgen to compile 1,000 trees, which ``trees.py`` lets them do;
oneDAL's converter, YDF's reader and skl2onnx for forests of two million nodes.
"""


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, WORKLOADS, list(WORKLOADS), ["source", *_all_peers()], ROWS)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=["tvm"])
    parser.add_argument("--write", type=Path, help="the folder of the docs")
    parser.set_defaults(seconds=0.25, longest=4.0, compile_limit=200.0)
    chosen = parse_options(parser, models=list(SHORT), rows=[1, 100, 10_000], seconds=0.1)
    warnings.simplefilter("ignore")
    logging.getLogger("hbconv").setLevel(logging.ERROR)
    threadpool_limits(chosen.threads)  # numpy was imported before the command line was read
    load = round(os.getloadavg()[0], 1)
    state = {"commit": _commit(), "date": date.today().isoformat(), "load": load}
    figures: list[dict[str, Any]] = []
    for name in chosen.models:
        figures += _measured(WORKLOADS[name], chosen)
        save(figures, chosen)
    state["limits"] = _limits(chosen)
    if chosen.write:
        write(chosen.write, state | facts(figures, chosen))
    sys.exit(bool(_other_answers(figures)))


def _all_peers() -> list[str]:
    """Return the peers of any kind of workload."""
    return list(dict.fromkeys(name for names in KIND_PEERS.values() for name in names))


def _measured(workload: Workload, chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Time the contenders that may read a workload."""
    own = [f"hbconv {backend}" for backend in chosen.backends]
    names = ["source", *own, *KIND_PEERS[workload.kind]]
    rows = {min(count, workload.most_rows) for count in chosen.rows}
    asked = {*chosen.peers, *own}
    narrowed = {"peers": [name for name in names if name in asked], "rows": rows}
    times = partial(_least_times, threads=chosen.threads)
    return compare([workload], argparse.Namespace(**vars(chosen) | narrowed), times)


def _least_times(
    calls: Mapping[str, Call], rows: Any, seconds: float, threads: int
) -> dict[str, dict[str, float]]:
    """Return the least seconds of a call of each; short calls are repeated for a reading."""
    counts = {name: _calls_of_a_reading(call, rows) for name, call in calls.items()}
    readings = {name: many(call, rows, counts[name]) for name, call in calls.items()}
    least = least_processor_seconds if threads == 1 else least_wall_seconds
    found = least(readings, seconds * len(calls), LEAST_TURNS)
    return {name: {"median": found[name] / counts[name]} for name in calls}


def _calls_of_a_reading(call: Call, rows: Any) -> int:
    """Return how many calls take as long as a reading.

    Other programs would make a call look long by the wall's clock, and its reading short.
    """
    (found,) = least_processor_seconds({"call": partial(call, rows)}, 0.0, least=1).values()
    return max(1, math.ceil(READING_SECONDS / found))


def _limits(chosen: argparse.Namespace) -> dict[str, Any]:
    """Return the seconds of a product and of an exponential, and how many a row takes."""
    a = np.random.default_rng(0).normal(size=(768, 768))
    b = Builder()
    # Of one column a row is read at no cost, and a tile of its terms stays in the cache.
    terms = b.input("x", "float64", 1) * b.constant(np.linspace(-9.0, 0.0, 64))
    program = b.program({"y": b.op("reduce_sum", b.op("exp", terms), axis=0)})
    kernel = BACKEND.compile(program, Target())
    rows = np.linspace(0.1, 1.0, 10_000)[:, None]
    calls = {"product": lambda: a @ a, "exponential": lambda: kernel.run({"x": rows})}
    counts = {"product": a.shape[0] ** 3, "exponential": 64 * len(rows)}
    least = least_processor_seconds(calls, 2.0)
    work = {
        name: WORKLOADS[name].work(WORKLOADS[name].fitted(chosen.folder).model)
        for name in chosen.models
        if WORKLOADS[name].work
    }
    return {"work": work, **{name: least[name] / counts[name] for name in calls}}


def _other_answers(figures: list[dict[str, Any]]) -> list[str]:
    """Return what hbconv answered otherwise than its source, where it is exact; print it."""
    found = [
        f"{figure['model']}, {figure['contender']}: {figure['flipped']} labels flipped, "
        f"largest difference {figure['difference']:.1e}"
        for figure in figures
        if figure["contender"].startswith("hbconv")
        and not figure["contender"].endswith("fast")
        and (
            figure["flipped"] or figure["difference"] > LARGEST_DIFFERENCE.get(figure["dtype"], 0.0)
        )
    ]
    told = list(dict.fromkeys(found))
    print("\n".join(["", "Other answers than the source's:", *told] if told else []))
    return told


def _commit() -> str:
    """Return the commit that is measured, marked where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    here = Path(__file__).parent
    return subprocess.run(
        command, cwd=here, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
