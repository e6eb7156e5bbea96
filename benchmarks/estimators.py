r"""Time every estimator that hbconv converts beside its source, on every backend.

    PYTHONPATH=.:tests:tests/support:tests/conformance:strategies:datasets \
        taskset -c 0 python benchmarks/estimators.py [--estimators Ridge ...] [--json FILE]

Each estimator is fitted as the first case of the tests' matrix is, to a few hundred rows, and
answers ``predict``, or ``transform`` where it has none. Times are of the processor, the least of
several turns: what a call costs counts for much, for these models are small.
"""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

os.environ["OMP_NUM_THREADS"] = "1"

from results import save
from timing import in_new_process, least_processor_seconds

CONTENDERS = {
    "tvm": {"backend": "tvm"},
    "tvm fast": {"backend": "tvm", "precision": "fast"},
    "torch": {"backend": "torch", "native": False},  # else it computes as tvm does
    "onnx": {"backend": "onnx"},
}
"""What is made of a fitted model, by name; the source comes first."""
FIRST = ("predict", "transform", "kneighbors", "predict_proba", "score_samples")
"""The method that is timed is the first of these that a model has."""


def main() -> None:
    """Time the estimators that are asked for, and print those that are slower than their source."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--estimators", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--seconds", type=float, default=0.2, help="spent on each size of batch")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    figures: list[dict[str, Any]] = []
    for name in _names(chosen.estimators):
        found = in_new_process(_time, name, chosen.rows, chosen.contenders, chosen.seconds)
        figures += found
        print(f"{name:<60}{_line(found)}", flush=True)
        save(figures, chosen)
    print(*summary(figures), sep="\n")


def _names(asked: Sequence[str]) -> list[str]:
    """Return the estimators of the matrix, or those of them that are asked for."""
    from matrix.estimators import first_names

    known = [name.estimator for name in first_names()]
    return [name for name in known if not asked or name.rpartition(".")[2] in asked]


def _time(
    name: str, sizes: Sequence[int], contenders: Sequence[str], seconds: float
) -> list[dict[str, Any]]:
    """Time an estimator for each number of rows."""
    import torch
    from matrix.case import fitted
    from matrix.estimators import first_names

    warnings.simplefilter("ignore")
    logging.getLogger("hbconv").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    (case,) = (known.made() for known in first_names() if known.estimator == name)
    source = fitted(case)
    method = next((method for method in FIRST if method in case.names), case.names[0])
    figures = []
    models, refused = _converted(source, contenders)
    for size in sizes:
        rows = _rows(case, size)
        calls = {"source": partial(case.ask, source, method, rows)}
        calls |= {each: partial(getattr(model, method), rows) for each, model in models.items()}
        calls, failed = _that_answer(calls)
        times = least_processor_seconds(calls, seconds)
        facts = {"model": name, "method": method, "rows": size}
        for contender, least in times.items():
            found = {"contender": contender, "median": least, "times": times["source"] / least}
            figures.append(facts | found)
        for contender, why in {**refused, **failed}.items():
            figures.append(facts | {"contender": contender, "refused": why})
    return figures


def _rows(case: Any, size: int) -> Any:
    """Return ordinary rows where those of the case are numbers, which are made to hurt."""
    from matrix.data import draw, rows

    return draw(np.random.default_rng(2), size) if case.rows is rows else case.rows(size)


def _converted(source: Any, contenders: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Convert for each contender; return the models, and why others were refused."""
    import hbconv

    models: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name in contenders:
        try:
            models[name] = hbconv.convert(source, **CONTENDERS[name])
        except hbconv.HbconvError as error:
            refused[name] = str(error)
    return models, refused


def _that_answer(
    calls: dict[str, Callable[[], Any]],
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Ask each once; return those that answer, and the errors of the others."""
    from hbconv import HbconvError

    failed: dict[str, str] = {}
    for name, call in calls.items():
        try:
            call()
        except HbconvError as error:
            failed[name] = str(error)
    return {name: call for name, call in calls.items() if name not in failed}, failed


def _line(figures: Sequence[dict[str, Any]]) -> str:
    """Return the times of one estimator as fast as its source."""
    return "  ".join(
        f"{figure['contender']}/{figure['rows']} {figure['times']:.2g}"
        for figure in figures
        if "times" in figure and figure["contender"] != "source"
    )


def summary(figures: Sequence[dict[str, Any]]) -> list[str]:
    """Count, for each contender and number of rows, and list what is slower than its source."""
    lines = []
    timed = [figure for figure in figures if "times" in figure]
    for contender, rows in dict.fromkeys((f["contender"], f["rows"]) for f in timed):
        if contender == "source":
            continue
        own = [f for f in timed if (f["contender"], f["rows"]) == (contender, rows)]
        slower = sorted((f["times"], f["model"]) for f in own if f["times"] < 1)
        names = ", ".join(f"{name.rpartition('.')[2]} {times:.2f}" for times, name in slower)
        lines.append(f"{contender}, {rows} rows: {len(slower)} of {len(own)} slower: {names}")
    return lines


if __name__ == "__main__":
    main()
