"""Processes that convert a model, answer and end: how many die. What a kernel writes beyond its
memory often shows only when that is given back.

    python tests/system/processes.py [--count 500] [--fresh 8] [--seed 0]

Models are of LightGBM, XGBoost and scikit-learn, over 4 to 70 columns of float32 or float64; 1 to
200 rows are answered by kernels in vectors of 16, 32 and 64 bytes. Most processes are forked from
one that has the libraries; ``--fresh`` ones start from nothing. All end as programs do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

COLUMNS = (4, 16, 28, 70)
ROWS = (1, 2, 3, 5, 8, 9, 16, 31, 40, 64, 100, 200)
VECTORS = (16, 32, 64)
THREADS = 8


def lightgbm(x: Any, y: Any) -> Any:
    """Fit boosted trees grown leaf by leaf."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=100, num_leaves=15, verbose=-1, n_jobs=1).fit(x, y)


def xgboost(x: Any, y: Any) -> Any:
    """Fit boosted trees grown level by level."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1).fit(x, y)


def forest(x: Any, y: Any) -> Any:
    """Fit a random forest."""
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(40, max_depth=7, random_state=0, n_jobs=1).fit(x, y)


LIBRARIES: tuple[Callable[[Any, Any], Any], ...] = (lightgbm, xgboost, forest)


def fit(library: int, columns: int, dtype: str) -> tuple[Any, Any]:
    """Return a fitted model and rows for it."""
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((600, columns)).astype(dtype)
    return LIBRARIES[library](x, (x.sum(axis=1) > 0).astype(int)), x


def answer(model: Any, x: Any) -> None:
    """Convert, answer on several threads, and compare with the model: each thread has memory of
    its own, and gives it back as it ends.
    """
    import hbconv

    converted, wanted = hbconv.convert(model, "tvm"), model.predict_proba(x)
    found: list[Any] = [converted.predict_proba(x)]
    for _ in range(THREADS):
        thread = Thread(target=lambda: found.append(converted.predict_proba(x)))
        thread.start()
        thread.join()
    assert len(found) == 1 + THREADS
    for answered in found:
        np.testing.assert_allclose(answered, wanted, rtol=1e-5, atol=1e-7)


def in_child(task: Callable[[], None]) -> int:
    """Run a task in a forked process, which ends as programs do: its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        task()
    except BaseException:
        traceback.print_exc()
        sys.exit(1)
    sys.exit(0)


def fresh(library: int, columns: int, dtype: str, rows: int) -> int:
    """Run a task in a process that starts from nothing."""
    script = f"import processes as p; m, x = p.fit({library}, {columns}, {dtype!r}); p.answer(m, x[:{rows}])"
    return subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, check=False
    ).returncode


def draws(seed: int) -> Iterator[tuple[int, int, str, int, int]]:
    """Yield what each process does: every combination of library, dtype and vector in turn,
    with columns and rows at random.
    """
    rng = np.random.default_rng(seed)
    turns = cycle(
        [
            (library, dtype, vector)
            for vector in VECTORS
            for dtype in ("float32", "float64")
            for library in range(len(LIBRARIES))
        ]
    )
    for library, dtype, vector in turns:
        yield library, int(rng.choice(COLUMNS)), dtype, int(rng.choice(ROWS)), vector


def main() -> int:
    """Run the processes, and return how many died."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--fresh", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    models: dict[tuple[int, int, str], tuple[Any, Any]] = {}
    deaths = 0
    answer(*fit(0, 5, "float64"))  # loads the libraries, so that no child has to
    for number, (library, columns, dtype, rows, vector) in enumerate(
        islice(draws(options.seed), options.count)
    ):
        os.environ["HBCONV_MACHINE"] = f"/{vector}"
        if number < options.fresh:
            status = fresh(library, columns, dtype, rows)
        else:
            key = library, columns, dtype
            if key not in models:
                models[key] = fit(*key)
            model, x = models[key]
            status = in_child(lambda model=model, x=x, rows=rows: answer(model, x[:rows]))
        if status:
            deaths += 1
            print(
                f"{LIBRARIES[library].__name__}, {columns} columns of {dtype}, {rows} rows, vectors of {vector} bytes: ended with {status}",
                flush=True,
            )
    print(f"{options.count} processes, {deaths} of them died")
    return deaths


if __name__ == "__main__":
    sys.exit(min(main(), 1))
