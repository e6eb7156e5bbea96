"""Measure time, memory and file of converting a deep random forest, for each backend.

    python benchmarks/deep_forests.py [--rows 25000] [--backends reference torch ...]
        [--strategy NAME] [--json FILE]

The forest is fitted to noise, so its trees grow as far as they may. Each backend compiles all
methods. The first time includes imports. Peak memory is that of the process so far: compare its
growth from one line to the next. Bytes a node are those of the saved file.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import hbconv


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=25_000)
    options.add_argument(
        "--backends", nargs="+", default=["reference", "torch", "torchscript", "onnx", "tvm"]
    )
    options.add_argument("--strategy")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((chosen.rows, 20), dtype=np.float32)
    y = rng.integers(0, 2, chosen.rows)
    model = RandomForestClassifier(100, max_features=3, random_state=0, n_jobs=2).fit(X, y)
    trees = [member.tree_ for member in model.estimators_]
    nodes = sum(tree.node_count for tree in trees)
    depth = max(tree.max_depth for tree in trees)
    print(f"{nodes:,} nodes, depth {depth}")
    figures = []
    for backend in chosen.backends:
        began = time.perf_counter()
        converted = hbconv.convert(model, backend=backend, strategy=chosen.strategy, sample=X[:10])
        seconds = time.perf_counter() - began
        bytes_a_node = _saved_bytes(converted) / nodes
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        same = bool(
            np.array_equal(converted.predict_proba(X[:1000]), model.predict_proba(X[:1000]))
        )
        strategy = converted.plan.choices[0][1].strategy
        figures.append(
            {
                "backend": backend,
                "strategy": strategy,
                "seconds": seconds,
                "peak_mib": peak,
                "bytes_a_node": bytes_a_node,
                "equal": same,
            }
        )
        print(
            f"{backend:<12} {strategy:<24} {seconds:6.2f} s  {peak:8,.0f} MiB ",
            f"{bytes_a_node:6.1f} bytes a node ",
            "equal" if same else "DIFFERENT",
            flush=True,
        )
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"nodes": nodes, "depth": depth, "figures": figures}, indent=2),
            encoding="utf-8",
        )


def _saved_bytes(model: hbconv.Model) -> int:
    """Return the size of the saved model."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.hbc"
        model.save(path)
        return path.stat().st_size


if __name__ == "__main__":
    main()
