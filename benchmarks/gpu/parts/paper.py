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
FIRST = "higgs"
"""The shape that is asked before the operators, and the others behind them."""
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
    """Yield trees of one shape, operators and pipelines, then trees of the other shapes."""
    warnings.simplefilter("ignore")  # models need not converge
    first = [name for name in PAPER if name.endswith(FIRST)]
    for name in place.some(first):
        yield from named(place, name, lambda name=name: asked(name, models, place))
    data = generated.numbers(20, classes=3, rows=150 + place.rows(OPERATOR_ROWS))
    for step in (*OPERATORS, *PIPELINES.values()):
        found = lambda step=step: operator_rows(step, data, place)  # noqa: E731
        yield from named(place, name_of(step), found)
    for name in place.some(name for name in PAPER if name not in first):
        yield from named(place, name, lambda name=name: asked(name, models, place))


def asked(name: str, models: Path, place: Place) -> Iterator[Row]:
    """Ask a model of trees: a batch and one row, or more sizes for figure 11."""
    sizes = SIZES if name == FIGURE_11 else (1, BATCH)
    return tree_rows(find(name, models, place), sizes, place)


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
            place,
            model.name,
            lambda n=name, make=make: by_size(model.name, n, make(), x, counts, place),
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
