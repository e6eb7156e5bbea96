"""Peers of the tree kernels on a CUDA device, each where its library is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hbconv.backends.torch import BACKEND
from hbconv.backends.torch.module import TensorModule
from hbconv.forest import Forest
from hbconv.target import Target
from hbconv.tensor import Builder

__all__ = ["peers", "plain_operators"]

Peer = Callable[[Tensor], Any]
TRAVERSALS = ("gemm", "tree_traversal", "perfect_tree_traversal")
"""The programs of plain operators that Hummingbird published."""


def peers(
    model: Any, forest: Forest, folder: Path, device: str = "cuda"
) -> Iterator[tuple[str, Peer]]:
    """Yield what else computes the raw scores of a model for float32 tensors on a device."""
    for strategy in TRAVERSALS:
        program = plain_operators(forest, strategy).to(device)
        yield f"torch, {strategy}", program
        yield f"torch.compile, {strategy}", torch.compile(program, dynamic=False)
    if type(model).__module__.startswith("xgboost"):
        yield "xgboost", _xgboost(model, device)
    if find_spec("nvforest") is not None:
        yield "nvforest", _nvforest(model, folder)


def plain_operators(forest: Forest, strategy: str) -> TensorModule:
    """Return the module of a forest's sums by plain operators of torch."""
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy=strategy)
    target = Target("torch", device="cuda", strategy=strategy)
    return TensorModule(BACKEND.prepare(b.program({"y": scores}), target))


def _xgboost(model: Any, device: str) -> Peer:
    """Return XGBoost's own predictor, which reads the rows where they lie."""
    booster = model.get_booster()
    booster.set_param({"device": device})
    return lambda x: booster.inplace_predict(x, predict_type="margin", validate_features=False)


def _nvforest(model: Any, folder: Path) -> Peer:
    """Return nvForest's predictor for a model file."""
    import nvforest

    if type(model).__module__.startswith("xgboost"):
        path, kind = folder / "peer.ubj", "xgboost_ubj"
        model.get_booster().save_model(path)
    else:
        path, kind = folder / "peer.txt", "lightgbm"
        model.booster_.save_model(path)
    loaded = nvforest.load_model(str(path), model_type=kind, device="gpu", precision=None)
    predict: Peer = loaded.predict
    return predict
