"""Time calls of a few rows of models with wide products: many points, vectors or units.

    taskset -c 0 python benchmarks/few_rows.py [--rows 1 2 4 8 16] [--json FILE]

``tiles`` is backend tvm without its loop along rows, whose vectors run along the products' columns.
Answers of both are equal to the bit, and near the source's.
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
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from results import parse_options, save
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from timing import least_processor_seconds

import hbconv

Rows = npt.NDArray[np.float64]

LIMIT = "hbconv.backends.tvm.compile.along_row_limit"


def main() -> None:
    """Time each model, for each number of rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8, 16, 100])
    parser.add_argument("--seconds", type=float, default=0.5, help="spent on each number of rows")
    parser.add_argument("--json", type=Path)
    chosen = parse_options(parser, rows=[1])
    warnings.simplefilter("ignore")
    figures: list[dict[str, Any]] = []
    for name, source, method, rows in _subjects():
        models = {"tvm": hbconv.convert(source), "tiles": _without_loop(source, method, rows)}
        for size in chosen.rows:
            times = _times(source, models, method, rows[:size], chosen.seconds)
            facts = {"model": name, "rows": size}
            figures += [facts | {"contender": each, "median": s} for each, s in times.items()]
            listed = "  ".join(f"{each} {s * 1e6:.1f} us" for each, s in times.items())
            print(f"{name:<34}{size:>4} rows  {listed}", flush=True)
    save(figures, chosen)


def _subjects() -> Iterator[tuple[str, Any, str, Rows]]:
    """Yield a name, a fitted source, its method and rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6000, 30))
    noise = rng.standard_normal(6000)
    y = (x[:, :5] ** 2).sum(axis=1) + 2 * noise > 5
    machine = make_pipeline(StandardScaler(), SVC()).fit(x[:3000], y[:3000])
    count = len(machine[-1].support_)
    yield f"SVC, {count:,} vectors of 30", machine, "decision_function", x
    points = rng.standard_normal((10_000, 20))
    labels = points[:, 0] * points[:, 1] > 0
    neighbors = KNeighborsClassifier().fit(points, labels)
    yield "neighbours, 10,000 points of 20", neighbors, "predict_proba", points + 0.01
    few = points[:1000, :8]
    process = GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None)
    yield "Gaussian process, 1,000 points of 8", process.fit(few, few.sum(axis=1)), "predict", few
    network = make_pipeline(StandardScaler(), MLPClassifier((100, 100), max_iter=20))
    yield "network, 30-100-100", network.fit(x[:3000], y[:3000]), "predict_proba", x


def _without_loop(source: Any, method: str, rows: Rows) -> hbconv.Model:
    """Return the model by tiles alone; the first call compiles it."""
    with patch(LIMIT, lambda program, machine: 0):
        model = hbconv.convert(source)
        getattr(model, method)(rows[:1])
    return model


def _times(
    source: Any, models: dict[str, hbconv.Model], method: str, rows: Rows, seconds: float
) -> dict[str, float]:
    """Return the least processor seconds of a call, by contender; all answer alike."""
    calls = {"source": partial(getattr(source, method), rows)}
    calls |= {name: partial(getattr(model, method), rows) for name, model in models.items()}
    np.testing.assert_array_equal(calls["tvm"](), calls["tiles"]())
    np.testing.assert_allclose(calls["tvm"](), calls["source"](), rtol=1e-6, atol=1e-9)
    return least_processor_seconds(calls, seconds)


if __name__ == "__main__":
    main()
