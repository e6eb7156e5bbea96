"""Measure the prices of primitives on a backend, and the cost model's error on whole programs.

    taskset -c 0 python benchmarks/primitives.py --backend torch

A primitive is written several times over different columns, added up. Its price is what one more
costs: for one row that of an operator, for many rows that of a word. The least processor time
counts. ``--check`` compares predictions with times on programs of several primitives.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable

import numpy as np

from hbconv.backends import find_backend
from hbconv.optimize.program_cost import program_seconds
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value

WIDTH = 32
ROWS = 2000
FEW, MANY = 1, 5
FUNCTIONS = ("exp", "log", "log1p", "pow", "cos", "tanh", "sigmoid", "erf")
Write = Callable[[Builder, Value], Value]


def main() -> None:
    """Print the prices of a backend, or compare predictions."""
    parser = argparse.ArgumentParser(description="Measure the prices of primitives.")
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--check", action="store_true", help="compare predictions with times")
    options = parser.parse_args()
    target = Target(options.backend)
    if options.check:
        check(target)
        return
    added = marginal(lambda b, x: x, target, ROWS) / 2
    print(f"elementwise {added / (ROWS * WIDTH * 2):.3g}")
    print(f"operator {marginal(lambda b, x: x, target, 1) / 2:.3g}")
    for name, (write, units) in primitives().items():
        seconds = marginal(write, target, ROWS) - 2 * added
        print(f"{name} {max(seconds, 0) / (ROWS * units):.3g}", flush=True)


def primitives() -> dict[str, tuple[Write, float]]:
    """Return what writes each primitive, and the units of one of its rows."""
    rng = np.random.default_rng(0)
    written: dict[str, tuple[Write, float]] = {
        name: (lambda b, x, name=name: function(b, name, x), 2 * WIDTH) for name in FUNCTIONS
    }
    order = rng.permutation(WIDTH)
    table = rng.standard_normal(1000)
    weights = rng.standard_normal((WIDTH, WIDTH))
    written["take"] = (lambda b, x: b.take(x, order), 2 * WIDTH)
    written["read"] = (
        lambda b, x: b.lookup(b.constant(table), b.cast(x, "int32")),
        WIDTH,
    )
    written["multiplication"] = (lambda b, x: b.matmul(x, b.constant(weights)), 2 * WIDTH * WIDTH)
    return written


def function(b: Builder, name: str, x: Value) -> Value:
    """Write a function; a power has an exponent."""
    return b.op(name, x, b.constant(1.7, x.dtype)) if name == "pow" else b.op(name, x)


def marginal(write: Write, target: Target, rows: int) -> float:
    """Return the seconds of one more term ``write(x + c)``, the addition of it included."""
    times = [least_seconds(terms(write, count), target, rows) for count in (FEW, MANY)]
    return (times[1] - times[0]) / (MANY - FEW)


def terms(write: Write, count: int) -> TensorProgram:
    """Write the sum of a number of terms over shifted columns."""
    b = Builder()
    x = b.input("x", "float64", WIDTH)
    total = x
    for turn in range(count):
        total = total + write(b, x + b.constant(0.125 * turn + 0.25, "float64"))
    return b.program({"y": total})


def least_seconds(program: TensorProgram, target: Target, rows: int, missing: float = 0.0) -> float:
    """Return the least processor time of some calls, on rows of which a share is missing."""
    artifact = find_backend(target.backend).compile(program, target)
    width = program.inputs[0].type.shape[0]
    rng = np.random.default_rng(1)
    x = rng.uniform(0.5, 2.0, (rows, width))
    x[rng.random(x.shape) < missing] = np.nan
    x = x.astype(program.inputs[0].type.dtype)
    artifact.run({"x": x})
    times: list[float] = []
    end = time.process_time() + 0.05
    while len(times) < 5 or time.process_time() < end:
        began = time.process_time()
        artifact.run({"x": x})
        times.append(time.process_time() - began)
    return min(times)


def check(target: Target) -> None:
    """Print predicted over measured seconds of some programs, for many rows."""
    ratios = []
    for name, program in programs().items():
        seconds = least_seconds(program, target, 10_000)
        ratios.append(program_seconds(program, target.replace(rows=10_000)) / seconds)
        print(f"{name}: {seconds / 10_000 * 1e9:.0f} ns a row, predicted {ratios[-1]:.2f} of it")
    print("quartiles", *np.round(np.quantile(ratios, (0.25, 0.5, 0.75)), 2))


def programs() -> dict[str, TensorProgram]:
    """Return programs like those that rewrites choose between."""
    rng = np.random.default_rng(0)

    def written(write: Write, width: int, dtype: str = "float64") -> TensorProgram:
        b = Builder()
        return b.program({"y": write(b, b.input("x", dtype, width))})

    def product(k: int, m: int) -> Write:
        return lambda b, x: b.matmul(x, b.constant(rng.standard_normal((k, m)), x.dtype))

    def scaled(b: Builder, x: Value) -> Value:
        ones = b.constant(np.ones(x.shape), x.dtype)
        return b.op("div", x - ones, b.constant(np.full(x.shape, 1.7), x.dtype))

    return {
        "matmul 100x10": written(product(100, 10), 100),
        "matmul 16x50": written(product(16, 50), 16),
        "scale 16": written(scaled, 16),
        "scale 100, matmul 100x10": written(lambda b, x: product(100, 10)(b, scaled(b, x)), 100),
        "sigmoid of matmul 30x3": written(lambda b, x: b.op("sigmoid", product(30, 3)(b, x)), 30),
        "exp 20": written(lambda b, x: b.op("exp", x), 20),
        "pow 20": written(lambda b, x: function(b, "pow", x), 20),
        "cos of matmul 20x100": written(lambda b, x: b.op("cos", product(20, 100)(b, x)), 20),
        "look-up 30": written(primitives()["read"][0], 30),
    }


if __name__ == "__main__":
    main()
