"""Time conversions to tvm, in seconds of the processor.

    taskset -c 0 python benchmarks/converting.py [--models lightgbm-31 ...]
        [--imputers 32 64 100] [--folder DIR] [--json FILE]

Three cases are timed: one method and its first answers with nothing cached, all methods with
nothing cached, and all methods found in the cache.

Each conversion runs in a process of its own, which imports TVM and converts another model first.
The garbage collector does not look at objects from before. ``--imputers`` adds IterativeImputers
of that many columns, with five neighbours and three rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from models import SUBJECTS
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import LogisticRegression
from timing import in_new_process, machine, versions

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
    options.add_argument("--folder", type=Path, help="where fitted models are kept")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    with TemporaryDirectory() as made:
        folder = chosen.folder or Path(made)
        subjects: list[str | int] = [*chosen.models, *chosen.imputers]
        found = [{"subject": subject, **figures(subject, folder)} for subject in subjects]
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"machine": machine(), "versions": versions(), "figures": found}, indent=2),
            encoding="utf-8",
        )


def figures(subject: str | int, folder: Path) -> dict[str, float]:
    """Measure and show the conversions of one model."""
    found = dict(_measured(subject, folder))
    name = (
        f"IterativeImputer of {subject} columns"
        if isinstance(subject, int)
        else SUBJECTS[subject].about
    )
    print(
        f"{name}: " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in found.items()),
        flush=True,
    )
    return found


def _measured(subject: str | int, folder: Path) -> Iterator[tuple[str, float]]:
    with TemporaryDirectory() as cache:
        yield "one method and 1,000 answers", in_new_process(converted, subject, folder, "0", False)
        yield "all methods", in_new_process(converted, subject, folder, cache, True)
        yield "found in the cache", in_new_process(converted, subject, folder, cache, True)


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
