"""What the Hummingbird paper measured on GPUs: trees, operators, pipelines, and batch sizes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.gpu.figures import figure, named
from benchmarks.gpu.fitted import PAPER, Fitted, find
from benchmarks.gpu.peers import peers
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from benchmarks.paper_models import OPERATORS
from hbconv_datasets import generated

__all__ = ["run"]

BATCH = 10_000
SIZES = (1, 10, 100, 1000, 10_000, 100_000)
"""Rows of figure 11."""
FIGURE_11 = "paper-LGBM-higgs"
OPERATOR_ROWS = 100_000
METHODS = ("predict_proba", "predict", "transform")
BACKENDS = tuple(name for name in ("torch", "tvm") if find_spec(name))
PIPELINES = {
    "scale, squares, logistic": make_pipeline(
        StandardScaler(), PolynomialFeatures(), LogisticRegression(max_iter=200)
    ),
    "impute, scale, logistic": make_pipeline(
        SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=200)
    ),
    "scale, components, logistic": make_pipeline(
        StandardScaler(), PCA(8), LogisticRegression(max_iter=200)
    ),
}


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield tables 7 to 10, figure 11, then operators and pipelines."""
    warnings.simplefilter("ignore")  # models need not converge
    for name in place.some(PAPER):
        yield from named(
            name, lambda name=name: tree_rows(find(name, models, place), (1, BATCH), place)
        )
    more = [size for size in SIZES if size not in (1, BATCH)]
    yield from named(FIGURE_11, lambda: tree_rows(find(FIGURE_11, models, place), more, place))
    data = generated.numbers(20, classes=3, rows=150 + place.rows(OPERATOR_ROWS))
    for step in (*OPERATORS, *PIPELINES.values()):
        yield from named(name_of(step), lambda step=step: operator_rows(step, data, place))


def tree_rows(model: Fitted, sizes: Any, place: Place) -> Iterator[Row]:
    """Convert trees, and time them beside peers; table 9 is memory, table 10 conversion."""
    forest = model.forest()
    counts = list(dict.fromkeys(map(place.rows, sizes)))
    x = torch.randn(max(counts), forest.n_features, device=place.name)
    for backend in BACKENDS:
        began = time.perf_counter()
        call = first_method(model.convert(place, backend))
        call(x[:5])
        place.synchronize()
        took = round(time.perf_counter() - began, 3)
        peak = place.peak_bytes(lambda call=call: call(x))
        made = {"what": model.name, "way": f"hbconv {backend}, made"}
        yield {**made, "seconds": took, "peak bytes": peak, "rows": len(x)}
        yield from by_size(model.name, f"hbconv {backend}", call, x, counts, place)
    for name, make in peers(model, forest, place):
        yield from named(
            model.name, lambda n=name, make=make: by_size(model.name, n, make(), x, counts, place)
        )


def first_method(model: Any) -> Callable[[Any], Any]:
    """Return the method that is timed: the first that the model has."""
    return next(getattr(model, name) for name in METHODS if name in model.methods)


def by_size(
    what: str, way: str, call: Callable[[Any], Any], x: Any, counts: list[int], place: Place
) -> Iterator[Row]:
    """Time a call for each number of rows."""
    for count in counts:
        yield figure(place, what, count, way, lambda n=count: call(x[:n]))


def operator_rows(step: Any, data: Any, place: Place) -> Iterator[Row]:
    """Time an operator or a pipeline, for one row and for many, on each backend."""
    import hbconv

    model = clone(step).fit(data.X[:150], data.y[:150])
    rows = np.ascontiguousarray(data.X[150:])
    counts = [1, len(rows)]
    for backend in BACKENDS:
        call = first_method(hbconv.convert(model, backend=backend, device=place.name))
        x = torch.tensor(rows, device=place.name)
        yield from by_size(name_of(step), f"hbconv {backend}", call, x, counts, place)
    method = first_method_of_source(model)
    yield from by_size(name_of(step), "scikit-learn", method, rows[:1000], [1, 1000], place)


def first_method_of_source(model: Any) -> Callable[[Any], Any]:
    """Return the source's own method."""
    return next(getattr(model, name) for name in METHODS if hasattr(model, name))


def name_of(step: Any) -> str:
    """Name an operator by its class, and a pipeline as the table does."""
    return next((name for name, one in PIPELINES.items() if one is step), type(step).__name__)
