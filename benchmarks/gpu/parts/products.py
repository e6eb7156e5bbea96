"""Neighbours, kernels and networks, beside the same lines written by hand in torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from torch import Tensor

import hbconv
from benchmarks.gpu.by_hand import (
    Made,
    gaussian_process,
    linear,
    neighbours,
    network,
    support_vectors,
)
from benchmarks.gpu.figures import figure, named
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row

__all__ = ["run"]

COLUMNS = 32
POINTS = 100_000
FIT_ROWS = 2000
ROWS = 100_000
QUERIES = 4096
BY_HAND = "by hand"
DTYPES = (torch.float64, torch.float32)


@dataclass(frozen=True)
class Product:
    """A model, the method that is timed for so many rows, and what computes it by hand."""

    name: str
    fit: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]
    fit_rows: int
    rows: int
    method: str
    by_hand: Callable[[Any, Any], Made]


PRODUCTS = (
    Product(
        "5 neighbours", lambda x, y: KNeighborsClassifier(algorithm="brute").fit(x, y),
        POINTS, QUERIES, "predict", neighbours,
    ),
    Product(
        "SVC, Gaussian", lambda x, y: SVC().fit(x, y > 4),
        FIT_ROWS, ROWS, "decision_function", support_vectors,
    ),
    Product(
        "Gaussian process",
        lambda x, y: GaussianProcessRegressor(RBF(5.0), alpha=0.1, optimizer=None).fit(x, y),
        FIT_ROWS, ROWS, "predict", gaussian_process,
    ),
    Product(
        "logistic regression", lambda x, y: LogisticRegression(max_iter=50).fit(x, y),
        FIT_ROWS, ROWS, "predict_proba", linear,
    ),
    Product(
        "network, 2 x 128", lambda x, y: MLPClassifier((128, 128), max_iter=5).fit(x, y),
        FIT_ROWS, ROWS, "predict_proba", network,
    ),
)  # fmt: skip


def run(place: Place, models: Path) -> Iterator[Row]:  # noqa: ARG001
    """Yield each product: backends, then by hand."""
    warnings.simplefilter("ignore")  # models need not converge
    for product in PRODUCTS:
        yield from named(place, product.name, lambda product=product: product_rows(product, place))


def product_rows(product: Product, place: Place) -> Iterator[Row]:
    """Time a model on each backend, and by hand in two dtypes; the goal is 1.3 times by hand."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(place.rows(product.fit_rows), COLUMNS))
    y = np.clip(np.rint(2 * x[:, 0] + 4.5), 0, 9).astype(int)
    model = product.fit(x, y)
    rows = torch.tensor(rng.normal(size=(place.rows(product.rows), COLUMNS)), device=place.name)
    for dtype in DTYPES:
        given = rows.to(dtype)
        made = product.by_hand(
            model, lambda a, dtype=dtype: torch.tensor(a, dtype=dtype, device=place.name)
        )
        way = f"{BY_HAND}, {str(dtype).removeprefix('torch.')}"
        yield figure(
            place, product.name, len(rows), way, lambda made=made, given=given: made(given)
        )
    judge = product.by_hand(model, lambda a: torch.tensor(a, dtype=DTYPES[0], device=place.name))(
        rows
    )
    for backend in ("torch", "tvm"):
        if find_spec(backend):
            asked = (product, model, backend, rows, judge, place)
            yield from named(place, product.name, lambda asked=asked: backend_rows(*asked))


def backend_rows(
    product: Product, model: Any, backend: str, rows: Tensor, judge: Tensor, place: Place
) -> Iterator[Row]:
    """Time a backend, and say how far its answers are from those by hand in float64."""
    call = getattr(hbconv.convert(model, backend=backend, device=place.name), product.method)
    got = torch.as_tensor(call(rows), device=place.name).double().reshape(judge.shape)
    off = float((got - judge.double()).abs().max())
    yield figure(place, product.name, len(rows), f"hbconv {backend}", lambda: call(rows), off=off)
