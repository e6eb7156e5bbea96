"""Shipped prices: seconds for a unit of work, measured with one thread of one machine.

``benchmarks/regret.py`` times strategies on forests of many shapes, and ``benchmarks/strategies.py
--fit`` derives the prices of tree kernels from its timings. The machine was an AMD EPYC (family 25,
model 17, 32 kB, 1 MB and 32 MB of cache), with torch 2.13, onnxruntime 1.31 and apache-tvm 0.27.
Traversals on torch are priced higher since, and ``gemm`` lower, by timings on an Intel Xeon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hbconv.cost_model.price_record import Prices

__all__ = [
    "CLOCK",
    "KERNEL_PRICES",
    "LOWERED_PRICES",
    "PRIMITIVE_PRICES",
    "SINGLE_ROW",
    "SMALL_TILE",
]

# Cycles are shown to people; no choice depends on the clock.
CLOCK = 2.6e9
"""Nominal cycles per second of the machine measured."""

PRIMITIVE_PRICES: Mapping[str, Prices] = {
    "torch": Prices(
        operator=1.52e-6,
        elementwise=(1.25e-10, 0, 1.5e-10),
        take=1.4e-9,
        read=1.45e-9,
        multiplication=5.01e-11,
        # Products of 2 to 8 columns take as long on torch as those of 16 words.
        padding=5.01e-11,
        functions={
            "exp": 9.14e-10,
            "log": 1.28e-9,
            "log1p": 1.06e-9,
            "pow": 2.91e-9,
            "cos": 1.6e-9,
            "tanh": 2.95e-9,
            "sigmoid": 1.54e-9,
            "erf": 1.64e-9,
        },
    ),
    "onnx": Prices(
        operator=2.88e-7,
        elementwise=(1.2e-10, 0, 3e-10),
        take=4e-9,
        read=8.88e-9,
        multiplication=1.87e-11,
        # ONNX Runtime's own profile: 60 Where of one column took 10.1 ns a row, 20 IsNaN 0.3 ns.
        span=9e-9,
        functions={
            "exp": 2.2e-9,
            "log": 2.4e-9,
            "log1p": 4.78e-9,
            "pow": 5.28e-9,
            "cos": 1.93e-8,
            "tanh": 2.05e-9,
            "sigmoid": 2.72e-9,
            "erf": 6.02e-8,
        },
    ),
    "tvm": Prices(
        operator=6e-8,
        elementwise=1e-10,
        take=1.07e-10,
        read=7.19e-10,
        multiplication=2.11e-11,
        tile=32,
        functions={
            "exp": 4.66e-10,
            "log": 5.52e-10,
            "log1p": 6.73e-10,
            "pow": 5.66e-9,
            "cos": 8.35e-10,
            "tanh": 7.21e-10,
            "sigmoid": 5.29e-10,
            "erf": 1.05e-9,
        },
    ),
    "cuda": Prices(
        operator=4.6e-6, elementwise=1.4e-9, take=1.5e-9, read=1.6e-10, multiplication=5.6e-11
    ),
}
"""Prices of primitives, by backend; on CUDA devices, whatever the backend.

``benchmarks/primitives.py`` measured them, those of CUDA excepted.
"""

KERNEL_PRICES: Mapping[tuple[str, str], Prices] = {
    ("reference", "tree_traversal"): Prices(visit=1e-7),
    ("onnx", "tree_traversal"): replace(
        # Measured by the mean depth: priced by the largest, a visit had cost four times that.
        PRIMITIVE_PRICES["onnx"],
        visit=(4.7e-9, 0, 1.5e-9),
        sum=3.3e-9,
    ),
    ("torch", "select"): Prices(
        operator=3.21e-6,
        elementwise=(3.2e-10, 4.79e-10, 0, 6.51e-9),
        take=(4.58e-11, 0, 2.94e-11),
        visit=1.49e-9,
        column=9.78e-10,
        sum=(1.95e-9, 4.76e-9),
    ),
    ("torch", "perfect_tree_traversal"): Prices(
        operator=3.12e-6,
        elementwise=(8.3e-11, 5.22e-10, 0, 2.52e-10),
        take=5.41e-11,
        visit=(0, 2.9e-9),
        column=2.74e-9,
        sum=(1.53e-9, 8.86e-10, 0, 4.45e-8),
    ),
    ("torch", "tree_traversal"): Prices(
        operator=4.9e-6,
        elementwise=4e-9,
        # Raised since walks drop rows that have arrived;
        # regret of 139 timings fell from 1.065 to 1.049.
        visit=(3.1e-9, 1.5e-8),
        column=1.2e-8,
        sum=4.6e-9,
    ),
    ("tvm", "select"): Prices(visit=2.59e-11, column=6.33e-10, sum=(1.51e-10, 4.32e-11)),
    ("tvm", "tree_traversal"): Prices(visit=(7.9e-10, 0, 7.55e-10), column=5.05e-10, sum=4.8e-10),
    ("tvm", "perfect_tree_traversal"): Prices(
        visit=(7.9e-10, 0, 7.55e-10), column=5.05e-10, sum=4.8e-10
    ),
}
"""Prices of a backend's own tree kernels, by backend and strategy.

On ONNX, plain operators decide category sets before the kernel.
"""

LOWERED_PRICES: Mapping[tuple[str, str], Prices] = {
    ("torch", "gemm"): Prices(
        operator=5.4e-6,
        elementwise=4.4e-10,
        take=3.7e-9,
        visit=(0, 2.6e-11, 2.5e-11, 2e-10),
        sum=1.6e-8,
    ),
    ("torch", "tree_traversal"): Prices(
        operator=3.29e-6,
        elementwise=6.69e-10,
        read=(1.52e-10, 2.14e-10),
        visit=(1.73e-9, 0, 2.49e-9),
        sum=(2.13e-9, 0, 1.04e-8),
    ),
    ("tvm", "gemm"): Prices(elementwise=8.45e-11, visit=(3.72e-12, 6.48e-12), tile=32, sum=6.5e-10),
}
"""Prices of strategies that run as plain primitives, by backend and strategy."""

SMALL_TILE = Prices(visit=3e-9)
"""Prices of tvm's select for a tile of a few rows: a visit decides a split for all of them."""

SINGLE_ROW = Prices(operator=1e-7, elementwise=1.2e-9, read=1.25e-9, visit=1.4e-9)
"""Prices of tvm's loop for one row after another.

An operator is a row, an elementwise entry a leaf value added, a read a step down a tree, and a
visit one vector of splits in the tops of trees.
"""
