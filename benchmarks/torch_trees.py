"""Time trees on torch and TorchScript beside their source, tvm and Hummingbird.

    taskset -c 0 python benchmarks/torch_trees.py [--trees 500] [--leaves 31] [--depth -1]
        [--rows 1 100 1000] [--json FILE]

Files are those of ``model.export``, as torch alone runs them. A native file calls the compiled
kernel, which needs a C++ compiler here. Hummingbird is timed if it can be imported, with each of
its strategies that fits the model. Contenders take turns. Machines drift: quote ratios of one run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from lightgbm import LGBMClassifier
from timing import interleaved, machine

import hbconv
from hbconv.backends.torch.jit import load
from hbconv_datasets import generated

FILES = ("plain", "native")


def contenders(model: LGBMClassifier, sample: Any) -> dict[str, Callable[[Any], Any]]:
    """Return functions from rows to probabilities, by name."""
    calls: dict[str, Callable[[Any], Any]] = {
        "lightgbm": lambda x: model.booster_.predict(x, num_threads=1)
    }
    for backend in ("torch", "torchscript"):
        for precision in ("exact", "fast"):
            calls[f"hbconv {backend} {precision}"] = hbconv.convert(
                model, backend=backend, precision=precision, sample=sample, native=False
            ).predict_proba
    calls["hbconv tvm exact"] = hbconv.convert(model, backend="tvm", sample=sample).predict_proba
    calls |= {f"file {name}": file_call(model, sample, name == "native") for name in FILES}
    if importlib.util.find_spec("hummingbird"):
        import hummingbird.ml

        for strategy in (
            ("gemm", "tree_trav", "perf_tree_trav") if model.max_depth > 0 else ("tree_trav",)
        ):
            converted = hummingbird.ml.convert(
                model,
                "torch.jit",
                sample,
                extra_config={"tree_implementation": strategy, "n_threads": 1},
            )
            calls[f"hummingbird {strategy}"] = converted.predict_proba
    return calls


def file_call(model: LGBMClassifier, sample: Any, native: bool) -> Callable[[Any], Any]:
    """Export a model, and return what calls the file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        converted = hbconv.convert(model, backend="reference", sample=sample)
        converted.export(path, methods=["predict_proba"], native=native)
        if native:
            torch.ops.load_library(path.with_name("model_op.so"))
        module = load(str(path)).eval()

    def call(x: Any) -> Any:
        with torch.inference_mode():
            return module(torch.from_numpy(x))

    return call


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--trees", type=int, default=500)
    options.add_argument("--leaves", type=int, default=31)
    options.add_argument("--depth", type=int, default=-1)
    options.add_argument("--rows", type=int, nargs="+", default=[1, 100, 1000])
    options.add_argument("--seconds", type=float, default=1.0, help="time spent on each figure")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    torch.set_num_threads(1)
    data = generated.make("higgs", 100_000)
    X = data.X.astype(np.float32)
    model = LGBMClassifier(
        n_estimators=chosen.trees,
        num_leaves=chosen.leaves,
        max_depth=chosen.depth,
        n_jobs=1,
        verbose=-1,
    ).fit(X, data.y)
    calls = contenders(model, X[:100])
    found = [
        {"rows": rows, "name": name, "seconds": median(times)}
        for rows in chosen.rows
        for name, times in interleaved(
            calls, np.ascontiguousarray(X[:rows]), chosen.seconds
        ).items()
    ]
    for figure in found:
        rows, seconds = figure["rows"], figure["seconds"]
        print(
            f"{figure['name']:<28} {rows:>6,} rows {seconds * 1e6:>10,.1f} us a call",
            f"{seconds / rows * 1e9:>10,.0f} ns a row",
        )
    if chosen.json:
        chosen.json.write_text(json.dumps({"machine": machine(), "figures": found}, indent=1))


if __name__ == "__main__":
    main()
