"""Time nearest neighbours among rows of ints, where most rows meet equally near ones.

    taskset -c 0 python benchmarks/ties.py [--rows 100 2000] [--json FILE]

Such rows get the choice of the source's search, which is made apart from the program. Each answer
is held against the source's, and rows of floats, which have no ties, are timed beside.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from results import parse_options, save
from sklearn.impute import KNNImputer
from sklearn.neighbors import KNeighborsClassifier
from timing import least_processor_seconds

import hbconv

Rows = npt.NDArray[np.float64]

FITTED, COLUMNS = 2000, 6
BACKENDS = ("tvm", "torch", "onnx")


def main() -> None:
    """Time each search, and the imputer, on every backend."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 2000])
    parser.add_argument("--seconds", type=float, default=0.5, help="spent on each size of batch")
    parser.add_argument("--json", type=Path)
    chosen = parse_options(parser, rows=[2000])
    warnings.simplefilter("ignore")
    figures: list[dict[str, Any]] = []
    for name, source, method, rows in _subjects():
        for size in chosen.rows:
            times = _times(source, method, rows[:size], chosen.seconds)
            facts = {"model": name, "rows": size}
            figures += [facts | {"contender": each, "median": s} for each, s in times.items()]
            told = "  ".join(f"{each} {s * 1e3:.2f} ms" for each, s in times.items())
            print(f"{name:<28}{size:>6} rows  {told}", flush=True)
    save(figures, chosen)


def _subjects() -> Iterator[tuple[str, Any, str, Rows]]:
    """Yield a name, a fitted source, its method and rows: of ints first, then of floats."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, FITTED)
    ints, floats = rng.integers(0, 10, (2, FITTED, COLUMNS)), rng.normal(size=(2, FITTED, COLUMNS))
    for kind, (fitted, asked) in {"ints": ints.astype(float), "floats": floats}.items():
        for algorithm in ("kd_tree", "ball_tree", "brute"):
            source = KNeighborsClassifier(algorithm=algorithm).fit(fitted, labels)
            yield f"{algorithm}, {kind}", source, "predict", asked
        missing = [np.where(rng.random(x.shape) < 0.1, np.nan, x) for x in (fitted, asked)]
        yield f"KNNImputer, {kind}", KNNImputer().fit(missing[0]), "transform", missing[1]


def _times(source: Any, method: str, rows: Rows, seconds: float) -> dict[str, float]:
    """Return the least processor seconds of a call, by contender; all answer alike."""
    calls = {"source": partial(getattr(source, method), rows)}
    want = calls["source"]()
    for backend in BACKENDS:
        calls[backend] = partial(getattr(hbconv.convert(source, backend=backend), method), rows)
        for _ in range(3):  # numpy searches the first thousand tied rows
            np.testing.assert_allclose(calls[backend](), want)
    return least_processor_seconds(calls, seconds)


if __name__ == "__main__":
    main()
