"""Peers of neighbours, kernels and networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.setting import Call, Setting, Unavailable

__all__ = ["faiss", "hnswlib", "sklearnex", "torch_by_hand"]

BENCHMARKS = Path(__file__).parents[1]
CHUNK_ROWS = 1000
"""Rows whose kernel is held at once."""


def sklearnex(setting: Setting) -> Call:
    """Fit the workload anew by scikit-learn-intelex, whose classes take the place of its own.

    Its forests draw other samples: they do the same work, with other trees.
    """
    import joblib
    import sklearnex  # noqa: F401

    code = """if True:
        import sys
        from sklearnex import patch_sklearn
        patch_sklearn(verbose=False)
        sys.path.insert(0, sys.argv[2])
        import joblib
        from typical_models import WORKLOADS
        joblib.dump(WORKLOADS[sys.argv[3]].fit(), sys.argv[1])
    """
    path = setting.compiled("-sklearnex.joblib", code, BENCHMARKS, setting.fitted.name)
    model = joblib.load(path)
    last = model[-1] if hasattr(model, "steps") else model
    if not type(last).__module__.startswith(("sklearnex", "daal4py")):
        raise Unavailable(f"has no {type(last).__name__} of its own")
    jobs = [name for name in model.get_params() if name.endswith("n_jobs")]
    model.set_params(**dict.fromkeys(jobs, setting.threads))
    return getattr(model, setting.fitted.method)


def faiss(setting: Setting) -> Call:
    """Search all points by faiss, in float32."""
    import faiss

    points, vote = _neighbours(setting)
    faiss.omp_set_num_threads(setting.threads)
    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    count = setting.model.n_neighbors
    return lambda x: vote(index.search(x.astype(np.float32), count)[1])


def hnswlib(setting: Setting) -> Call:
    """Search all points by the brute force of hnswlib, in float32."""
    import hnswlib

    points, vote = _neighbours(setting)
    index = hnswlib.BFIndex("l2", points.shape[1])
    index.init_index(len(points))
    index.add_items(points)
    index.set_num_threads(setting.threads)
    count = setting.model.n_neighbors
    return lambda x: vote(index.knn_query(x.astype(np.float32), count)[0].astype(int))


def _neighbours(setting: Setting) -> tuple[Any, Callable[[Any], Any]]:
    """Return the points in float32, and what makes labels of positions."""
    model = setting.model
    if type(model).__name__ != "KNeighborsClassifier":
        raise Unavailable("finds neighbours only")
    codes = model._y  # noqa: SLF001

    def vote(positions: Any) -> Any:
        votes = codes[positions]
        counts = [(votes == code).sum(axis=1) for code in range(len(model.classes_))]
        return model.classes_[np.argmax(counts, axis=0)]

    return model._fit_X.astype(np.float32), vote  # noqa: SLF001


def torch_by_hand(setting: Setting) -> Call:
    """Write the linear algebra of the workload in torch, as its user would: in float64."""
    import torch

    torch.set_num_threads(setting.threads)
    if setting.fitted.name not in BY_HAND:
        raise Unavailable("was written for " + ", ".join(BY_HAND))
    return BY_HAND[setting.fitted.name](setting.model)


def _network(pipeline: Any) -> Call:
    """Scale, project, and go through the layers."""
    import torch

    scaler, axes, layers = (step for _, step in pipeline.steps)
    mean, scale, center = map(torch.tensor, (scaler.mean_, scaler.scale_, axes.mean_))
    projection = torch.tensor(axes.components_.T.copy())
    weights, offsets = ([*map(torch.tensor, each)] for each in (layers.coefs_, layers.intercepts_))
    *hidden, last = zip(weights, offsets, strict=True)

    def call(x: Any) -> Any:
        units = ((torch.from_numpy(x) - mean) / scale - center) @ projection
        for weights, offsets in hidden:
            units = torch.addmm(offsets, units, weights).relu_()
        return torch.softmax(torch.addmm(last[1], units, last[0]), 1).numpy()

    return call


def _support_vectors(pipeline: Any) -> Call:
    """Scale, and sum the kernel of the support vectors."""
    import torch

    scaler, machine = (step for _, step in pipeline.steps)
    mean, scale = torch.tensor(scaler.mean_), torch.tensor(scaler.scale_)
    vectors = torch.tensor(machine.support_vectors_)
    weights = torch.tensor(machine.dual_coef_[0])
    kernel = _gaussian(vectors, machine._gamma)  # noqa: SLF001
    offset = machine.intercept_[0]
    return _chunked(lambda x: kernel((x - mean) / scale) @ weights + offset)


def _process(model: Any) -> Call:
    """Sum the kernel of the points."""
    import torch

    weights = torch.tensor(model.alpha_)
    kernel = _gaussian(torch.tensor(model.X_train_), 0.5 / model.kernel_.k1.length_scale**2)
    scale, mean = float(model._y_train_std), float(model._y_train_mean)  # noqa: SLF001
    return _chunked(lambda x: kernel(x) @ weights * scale + mean)


def _gaussian(points: Any, gamma: float) -> Callable[[Any], Any]:
    """Return what makes the kernel's matrix, of squared distances by a product."""
    import torch

    lengths = (points * points).sum(1)

    def kernel(x: Any) -> Any:
        squares = lengths + (x * x).sum(1)[:, None]
        return torch.addmm(squares, x, points.T, alpha=-2).mul_(-gamma).exp_()

    return kernel


def _chunked(call: Callable[[Any], Any]) -> Call:
    """Ask some rows at a time, so that their kernel stays in the caches."""
    import torch

    def whole(x: Any) -> Any:
        parts = torch.from_numpy(x).split(CHUNK_ROWS)
        return torch.cat([call(part) for part in parts]).numpy()

    return whole


BY_HAND = {"network": _network, "svc": _support_vectors, "gaussian-process": _process}
"""What a user writes for a workload, by its name."""
