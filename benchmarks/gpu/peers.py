"""Peers of trees on a device, each where its library is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks.gpu.fitted import Fitted
from benchmarks.gpu.place import Place
from hbconv.backends.torch import BACKEND
from hbconv.backends.torch.module import TensorModule
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest

__all__ = ["find_nvforest", "peers", "plain_operators"]

Peer = Callable[[Tensor], Any]
TRAVERSALS = ("gemm", "tree_traversal", "perfect_tree_traversal")
"""The programs of plain operators that Hummingbird published."""
DEEP_TRAVERSALS = ("tree_traversal",)
MOST_TESTS = 1000
"""Tests a tree up to which the others are made: matrices and full trees grow beyond memory."""
KINDS = {".ubj": "xgboost_ubj", ".txt": "lightgbm", ".tl": "treelite_checkpoint"}
"""Formats of nvForest, by suffix."""


def peers(model: Fitted, forest: Forest, place: Place) -> Iterator[tuple[str, Callable[[], Peer]]]:
    """Yield what else computes the raw scores of a model for float32 tensors, when it is made."""
    yield from find_nvforest(model)
    if model.path.suffix == ".ubj" and find_spec("xgboost"):
        yield "xgboost", lambda: _xgboost(model, place)
    per_tree = forest.n_tests / forest.n_trees
    for strategy in TRAVERSALS if per_tree <= MOST_TESTS else DEEP_TRAVERSALS:
        name = f"torch, {strategy}"
        yield name, lambda strategy=strategy: plain_operators(forest, strategy).to(place.name)


def find_nvforest(model: Fitted) -> Iterator[tuple[str, Callable[[], Peer]]]:
    """Yield nvForest in the model's precision and in float32, if it is installed and reads it."""
    path = model.for_peers()
    if path is not None and find_spec("nvforest"):
        yield "nvforest", lambda: _nvforest(path, None)
        yield "nvforest, float32", lambda: _nvforest(path, "single")


def plain_operators(forest: Forest, strategy: str) -> TensorModule:
    """Return the module of a forest's sums by plain operators of torch."""
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy=strategy)
    target = Target("torch", device="cuda", strategy=strategy)
    return TensorModule(BACKEND.prepare(b.program({"y": scores}), target))


def _xgboost(model: Fitted, place: Place) -> Peer:
    """Return XGBoost's own predictor, which reads the rows where they lie."""
    import xgboost

    booster = xgboost.Booster(model_file=model.path)
    booster.set_param({"device": place.name})
    settings = {"predict_type": "margin", "validate_features": False}
    return lambda x: booster.inplace_predict(place.foreign(x), **settings)


def _nvforest(path: Path, precision: str | None) -> Peer:
    """Return nvForest's predictor, which it tunes for each number of rows."""
    import nvforest

    kind = KINDS[path.suffix]
    loaded = nvforest.load_model(str(path), model_type=kind, device="gpu", precision=precision)
    tuned: dict[int, Any] = {}

    def predict(x: Tensor) -> Any:
        if len(x) not in tuned:
            tuned[len(x)] = loaded.optimize(batch_size=len(x), unique_batches=2, timeout=0.05)
        return tuned[len(x)].predict(x)

    return predict
