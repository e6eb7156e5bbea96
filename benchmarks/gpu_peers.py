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
        yield "nvforest", _nvforest(model, folder, None)
        yield "nvforest, float32", _nvforest(model, folder, "single")


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


def _nvforest(model: Any, folder: Path, precision: str | None) -> Peer:
    """Return nvForest's predictor for a model file, which it tunes for each number of rows."""
    import nvforest

    if type(model).__module__.startswith("xgboost"):
        path = folder / "peer.ubj"
        model.get_booster().save_model(path)
    else:
        path = folder / "peer.txt"
        model.booster_.save_model(path)
    kind = {".ubj": "xgboost_ubj", ".txt": "lightgbm"}[path.suffix]
    loaded = nvforest.load_model(str(path), model_type=kind, device="gpu", precision=precision)
    tuned: dict[int, Any] = {}

    def predict(x: Tensor) -> Any:
        if len(x) not in tuned:
            tuned[len(x)] = loaded.optimize(batch_size=len(x), unique_batches=2, timeout=0.05)
        return tuned[len(x)].predict(x)

    return predict
