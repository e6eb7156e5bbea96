"""Time conversions to tvm, in seconds of the processor.

    taskset -c 0 python benchmarks/converting.py [--models lightgbm-31 ...]
        [--imputers 32 64 100] [--turns 1] [--folder DIR] [--json FILE]

Three cases are timed: one method and its first answers with nothing cached, all methods with
nothing cached, and all methods found in the cache.

Each conversion runs in a process of its own, which imports TVM and converts another model first.
The garbage collector does not look at objects from before. ``--imputers`` adds IterativeImputers
of that many columns, with five neighbours and three rounds. The yardstick is other work of the same
length, which tells a slower machine from a slower conversion.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from models import SUBJECTS
from results import figure, parse_options, save
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from timing import in_new_process

import hbconv


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "--models",
        nargs="*",
        default=["lightgbm-8", "lightgbm-31", "lightgbm-d8"],
        choices=SUBJECTS,
        metavar="NAME",
    )
    options.add_argument(
        "--imputers", nargs="*", type=int, default=[32, 64, 100], metavar="COLUMNS"
    )
    options.add_argument("--turns", type=int, default=1, help="conversions for each figure")
    options.add_argument("--folder", type=Path, help="where fitted models are kept")
    options.add_argument("--json", type=Path)
    chosen = parse_options(options, models=["lightgbm-31"], imputers=[], turns=3)
    with TemporaryDirectory() as made:
        folder = chosen.folder or Path(made)
        subjects: list[str | int] = [*chosen.models, *chosen.imputers]
        folder.mkdir(parents=True, exist_ok=True)
        found = [one for subject in subjects for one in figures(subject, folder, chosen.turns)]
    save(found, chosen)


def figures(subject: str | int, folder: Path, turns: int) -> list[dict[str, Any]]:
    """Measure and show the conversions of one model."""
    name = (
        f"IterativeImputer of {subject} columns"
        if isinstance(subject, int)
        else SUBJECTS[subject].about
    )
    times: dict[str, list[float]] = {}
    for _ in range(turns):
        for what, seconds in _measured(subject, folder):
            times.setdefault(what, []).append(seconds)
    told = ", ".join(f"{what} {median(found):.2f} s" for what, found in times.items())
    print(f"{name}: {told}", flush=True)
    return [figure(name, 1, what, found) for what, found in times.items()]


def _measured(subject: str | int, folder: Path) -> Iterator[tuple[str, float]]:
    yield "yardstick", in_new_process(yardstick)
    with TemporaryDirectory() as cache:
        yield (
            "hbconv, one method and 1,000 answers",
            in_new_process(converted, subject, folder, "0", False),
        )
        yield "hbconv, all methods", in_new_process(converted, subject, folder, cache, True)
        yield "hbconv, found in the cache", in_new_process(converted, subject, folder, cache, True)


def yardstick() -> float:
    """Sort and join texts; return the seconds of the processor."""
    began = time.process_time()
    for _ in range(5):
        " ".join(sorted(f"{number * 7919 % 100_003}" for number in range(100_000)))
    return time.process_time() - began


def converted(subject: str | int, folder: Path, cache: str, all_methods: bool) -> float:
    """Convert a model; return the seconds of the processor."""
    model, x, method = fitted(subject, folder)
    os.environ["HBCONV_CACHE"] = "0"
    hbconv.convert(
        LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]), backend="tvm", sample=np.eye(4)
    )
    os.environ["HBCONV_CACHE"] = cache
    gc.collect()
    gc.freeze()  # otherwise a pass over all imported objects is sometimes counted
    began = time.process_time()
    compiled = hbconv.convert(model, backend="tvm", sample=x[:5] if all_methods else None)
    if not all_methods:
        getattr(compiled, method)(x)
    return time.process_time() - began


def fitted(subject: str | int, folder: Path) -> tuple[Any, Any, str]:
    """Return a fitted model, rows, and the method to call."""
    if isinstance(subject, str):
        found = SUBJECTS[subject].fitted(folder)
        return found.model, found.rows(1000), found.method
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, subject)) @ rng.standard_normal((subject, subject))
    x[rng.random(x.shape) < 0.1] = np.nan
    return (
        IterativeImputer(max_iter=3, tol=0, n_nearest_features=5, random_state=0).fit(x),
        x,
        "transform",
    )


if __name__ == "__main__":
    main()
