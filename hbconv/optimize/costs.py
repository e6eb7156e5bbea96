"""What a unit of work costs on each backend: the constants of the cost model, as measured.

``python benchmarks/strategies.py --backend NAME --fit`` times every strategy on forests of many shapes and fits these; the
fit's error is about a third. Measured with one thread of an AMD EPYC (AVX2) with torch 2.13, onnxruntime 1.31 and apache-tvm 0.27.
"""

from __future__ import annotations

from collections.abc import Mapping

from hbconv.strategy import Prices
from hbconv.target import Target

__all__ = ["CLOCK", "find_prices"]

CLOCK = 2.6e9
"""Nominal cycles a second of the machine measured."""

PRIMITIVES: Mapping[str, Prices] = {
    "torch": Prices(
        operator=4.6e-6, elementwise=1.4e-9, take=1.5e-9, read=1.6e-10, multiplication=5.6e-11
    ),
    "tvm": Prices(operator=6e-8, elementwise=1.8e-10, read=3e-10, multiplication=3e-11, tile=32),
}
"""Trees written as plain primitives."""

NATIVE: Mapping[tuple[str, str], Prices] = {
    ("reference", "tree_traversal"): Prices(visit=1e-7),
    ("onnx", "tree_traversal"): Prices(visit=1.9e-8),
    ("torch", "select"): Prices(operator=2e-6, visit=5e-10),
    ("torch", "perfect_tree_traversal"): Prices(operator=1.5e-6, visit=2.4e-9),
    ("torchscript", "select"): Prices(operator=1.5e-6, visit=5e-10),
    ("torchscript", "perfect_tree_traversal"): Prices(operator=1e-6, visit=2.4e-9),
    ("tvm", "select"): Prices(visit=2.2e-11, tile=256),
    ("tvm", "tree_traversal"): Prices(visit=8.7e-10, tile=16),
    ("tvm", "perfect_tree_traversal"): Prices(visit=8.7e-10, tile=16),
}
"""Trees run by a kernel of the backend's own, by backend and strategy."""


def find_prices(target: Target, strategy: str, *, native: bool) -> Prices:
    """Return the prices of a strategy on a backend; a kernel or backend that was not measured takes those of the most alike."""
    primitives = PRIMITIVES.get(target.backend, PRIMITIVES["torch"])
    return NATIVE.get((target.backend, strategy), primitives) if native else primitives
