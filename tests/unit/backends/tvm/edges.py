"""Run programs on every number of rows around the ends of vectors, blocks and tiles.

    HBCONV_GUARD=pages-behind HBCONV_MACHINE=/64 python tests/unit/backends/tvm/edges.py [dtype ...] [width ...]

Each input and output lies beside a protected page. Answers are compared with the reference
backend. A kernel that reads or writes outside its memory ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))
from forests import hostile_rows, random_forest
from shaped_forests import grown

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.compile import compile_program
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import FEW, ONE_ROW, Schedule
from hbconv.backends.tvm.trees.leaves.tables import sparse_cost
from hbconv.target import Target
from hbconv.tensor import Builder, Op, OpKind, TensorProgram

ROWS = (*range(71), 127, 128, 129, 255, 256, 257, 511, 513)
WIDTHS = (1, 3, 4, 8, 9, 15, 16, 17, 20, 31, 33, 64, 70)
SMALL_CACHE = 1 << 17
"""Bytes of a second-level cache that a few dozen trees leave."""
DTYPES = ("float32", "float64", "int32", "int64")
FLOATS = DTYPES[:2]

Case = tuple[TensorProgram, dict[str, np.ndarray]]


def matrices(dtype: str, widths: Sequence[int]) -> dict[str, np.ndarray]:
    """Whole numbers, whose sums of products are exact in any order."""
    rng = np.random.default_rng(0)
    return {f"x{width}": rng.integers(-9, 9, (max(ROWS), width)).astype(dtype) for width in widths}


def turned(dtype: str, widths: Sequence[int]) -> Case:
    """Rows become columns and back: all of them, or some."""
    b, x = Builder(), matrices(dtype, widths)
    given = {name: b.input(name, dtype, values.shape[1]) for name, values in x.items()}
    every = {
        f"every {name}": b.take(value, np.arange(value.shape[0])[::-1])
        for name, value in given.items()
    }
    some = {f"some {name}": b.take(value, [value.shape[0] - 1, 0]) for name, value in given.items()}
    return b.program(every | some), x


def multiplied(dtype: str, widths: Sequence[int]) -> Case:
    """Products from rows as they lie, with few columns of weights, and from columns, with many."""
    b, x, rng = Builder(), matrices(dtype, widths), np.random.default_rng(1)
    outputs = {}
    for (name, values), columns in zip(x.items(), (1, 2, 5, 12, 23) * len(x), strict=False):
        value = b.input(name, dtype, values.shape[1])
        outputs[name] = b.matmul(
            value, b.constant(rng.integers(-9, 9, (values.shape[1], columns)), dtype)
        )
    return b.program(outputs), x


def cast_and_multiplied(dtype: str, widths: Sequence[int]) -> Case:
    """Products from rows as they lie, of another dtype."""
    b, x, other = Builder(), matrices(dtype, widths), FLOATS[dtype == "float32"]
    outputs = {
        name: b.matmul(
            b.cast(b.input(name, dtype, values.shape[1]), other),
            b.constant(np.arange(2.0 * values.shape[1]).reshape(-1, 2), other),
        )
        for name, values in x.items()
    }
    return b.program(outputs), x


def wide(dtype: str, widths: Sequence[int]) -> Case:
    """Products and distances of many columns, which one row computes by vectors along them."""
    b, x, rng = Builder(), matrices(dtype, widths[:1]), np.random.default_rng(5)
    ((name, values),) = x.items()
    value = b.input(name, dtype, values.shape[1])
    outputs = {}
    for columns in (24, 72, 75, 130):
        weights = rng.integers(-9, 9, (columns, values.shape[1]))
        outputs[f"{columns} columns"] = b.matmul(value, b.constant(weights.T, dtype))
        points = b.constant(weights, dtype)
        outputs[f"{columns} points"] = b.op("pairwise", value, points, kind="square", p=2.0)
    return b.program(outputs), x


def lying(dtype: str, widths: Sequence[int]) -> Case:
    """Entries computed where they lie, and rows marked in which one is infinite."""
    (name, x), *_ = matrices(dtype, widths).items()
    b = Builder()
    value = b.input(name, dtype, x.shape[1])
    outputs = {"y": value * b.constant(np.arange(x.shape[1]), dtype) + value}
    return b.program(outputs), {name: x}


def trees(dtype: str, widths: Sequence[int]) -> Case:
    """Trees by every strategy, over thresholds and categories."""
    b, rng, outputs, x = Builder(), np.random.default_rng(2), {}, {}
    for i, (width, strategy) in enumerate(
        zip(
            widths,
            ("select", "tree_traversal", "perfect_tree_traversal") * len(widths),
            strict=False,
        )
    ):
        forest = random_forest(
            rng,
            n_trees=17,
            n_features=width,
            max_depth=5,
            n_outputs=1 + i % 2,
            n_categorical=i % 3 // 2,
            accumulate=FLOATS[i % 2],
        )
        name = f"x{i}"
        value, x[name] = b.input(name, dtype, width), hostile_rows(rng, forest, dtype, max(ROWS))
        outputs |= {
            f"{op} {name}": b.op(op, value, forest=forest, strategy=strategy)
            for op in ("tree_scores", "tree_leaves")
        }
    return b.program(outputs), x


def large_trees(dtype: str) -> Case:
    """Trees beyond a small cache: decided in parts, or fetched while rows walk down others."""
    b, rng, outputs, x = Builder(), np.random.default_rng(7), {}, {}
    for strategy, n_trees, leaves in (("select", 90, 31), ("tree_traversal", 20, 500)):
        forest = grown(rng, n_trees, leaves, "random", n_features=3, n_thresholds=10**6)
        value = b.input(strategy, dtype, 3)
        x[strategy] = hostile_rows(rng, forest, dtype, max(ROWS))
        outputs |= {
            f"{op} {strategy}": b.op(op, value, forest=forest, strategy=strategy)
            for op in ("tree_scores", "tree_leaves")
        }
    return b.program(outputs), x


def trees_of_many_classes(dtype: str, widths: Sequence[int]) -> Case:
    """Leaves with few of many outputs, whose zeros are left out, and with most, by strategies."""
    b, rng, outputs, x = Builder(), np.random.default_rng(8), {}, {}
    for strategy in ("select", "tree_traversal", "perfect_tree_traversal"):
        for share in (0.01, 0.6):
            forest = random_forest(rng, 7, 3, 4, 70, vector=True, accumulate=dtype)
            values = np.where(rng.random(forest.values.shape) < share, forest.values.data, 0)
            forest = replace(forest, values=Array.of(values, dtype))
            if (sparse_cost(forest) is None) != (share > 0.5):
                raise ValueError(share)
            name = f"{strategy} {share}"
            x[name] = hostile_rows(rng, forest, dtype, max(ROWS))
            value = b.input(name, dtype, 3)
            outputs[name] = b.op("tree_scores", value, forest=forest, strategy=strategy)
    return b.program(outputs), x


def near(dtype: str, widths: Sequence[int]) -> Case:
    """Nearest points, by a screen and by trying all; for rows that are far or no numbers too."""
    b, rng = Builder(), np.random.default_rng(3)
    x = {"x": rng.standard_normal((max(ROWS), 20)).astype(dtype)}
    x["x"][::7, 3], x["x"][3::11, 0], x["x"][5::13] = np.inf, np.nan, np.finfo(dtype).max
    points = {"near": rng.standard_normal((500, 20)), "near of few": rng.standard_normal((9, 20))}
    value = b.input("x", dtype, 20)
    return b.program(
        {
            name: b.op("nearest", value, b.constant(data, dtype), k=3)
            for name, data in points.items()
        }
    ), x


def donors(dtype: str, widths: Sequence[int]) -> Case:
    """Points that have what rows miss: many, as many as are wanted, and too few."""
    b, rng = Builder(), np.random.default_rng(6)
    x = {"x": rng.integers(-9, 9, (max(ROWS), 33)).astype(dtype)}
    x["x"][rng.random(x["x"].shape) < 0.2] = np.nan
    x["x"][::7], x["x"][3::11, 0], x["x"][5::13] = 1.0, np.inf, np.finfo(dtype).max
    value, outputs = b.input("x", dtype, 33), {}
    for count, share in ((203, 0.1), (6, 0.1), (40, 0.9)):
        points = rng.standard_normal((count, 33))
        points[rng.random(points.shape) < share] = np.nan
        constant = b.constant(points, dtype)
        found = b.op("nearest_donors", value, constant, k=6)
        outputs[f"donors of {count}"] = found
        outputs[f"distances to {count}"] = b.op("donor_distances", value, found, constant)
    return b.program(outputs), x


def ordered(dtype: str, widths: Sequence[int]) -> Case:
    """Sorts, lists, sums, and reads of tables at computed positions."""
    b, x = Builder(), matrices(dtype, widths[-1:])
    ((name, values),) = x.items()
    value = b.input(name, dtype, values.shape[1])
    edges = b.constant(np.linspace(-8, 8, 40 * values.shape[1]).reshape(-1, 40), dtype)
    outputs = {
        "sort": b.op("sort", value, axis=0),
        "top": b.op("topk", value, k=1),
        "bins": b.op("bucketize", value, edges, right=True),
    }
    outputs |= {
        "sum": b.reduce("reduce_sum", value),
        "table": b.lookup(b.constant(np.arange(60).reshape(20, 3)), b.cast(value, "int32")),
    }
    return b.program(outputs), x


def searched(dtype: str, widths: Sequence[int]) -> Case:
    """Entries, many of them equal, that heaps keep and sort: of rows, of parts, of leaves."""
    b, x = Builder(), matrices(dtype, [40, 15])
    entries, bounds = (b.input(name, dtype, values.shape[1]) for name, values in x.items())
    order = np.random.default_rng(4).permutation(40)
    leaves = [b.constant(of, "int32") for of in (order, np.arange(0, 41, 5))]
    outputs = {
        f"{k} of {parts}": b.op("heap_search", entries, k=k, parts=parts)
        for k in (1, 5, 40)
        for parts in ((), ((0, 16), (16, 40)))
    }
    outputs |= {
        f"{k} of a tree": b.op("tree_search", entries, bounds, *leaves, k=k, prunes=k == 5)
        for k in (5, 40)
    }
    return b.program(outputs), x


def cases(dtypes: Sequence[str], widths: Sequence[int]) -> Iterator[tuple[str, Case]]:
    """Yield every program by its name, for matrices of the given dtypes and widths."""
    for dtype in dtypes:
        writers = (
            turned, multiplied, cast_and_multiplied, wide, trees, trees_of_many_classes, near, donors,
            ordered, searched,
        )  # fmt: skip
        for write in writers if dtype in FLOATS else (turned,):
            yield f"{write.__name__} {dtype}", write(dtype, widths)
    for width in widths[::4] if "float32" in dtypes else ():
        yield f"lying {width}", lying("float32", [width])


def check(
    name: str, program: TensorProgram, inputs: dict[str, np.ndarray], machine: Machine
) -> None:
    """Compare the loops, for batches, for few rows and along one row, with the reference."""
    prepared, target = BACKEND.prepare(program, Target("tvm")), Target("tvm")
    loops = {
        "batch": compile_program(prepared, Schedule.construct(prepared, machine), machine, target),
        "few": compile_program(prepared, FEW, machine, target),
    }
    operators = (i for i in program.instructions if isinstance(i, Op))
    if all(op.kind is not OpKind.TREES for op in operators):
        loops["along"] = compile_program(prepared, ONE_ROW, machine, target)
    with np.errstate(all="ignore"):
        wanted = evaluate(program, inputs)
    for rows in ROWS:
        given = {key: np.ascontiguousarray(x[:rows]) for key, x in inputs.items()}
        for loop, artifact in loops.items():
            for output, got in artifact.run(given).items():
                np.testing.assert_array_equal(
                    got, wanted[output][:rows], err_msg=f"{name}, {loop}, {output}, {rows} rows"
                )


if __name__ == "__main__":
    wanted_dtypes = [word for word in sys.argv[1:] if not word.isdigit()] or DTYPES
    wanted_widths = [int(word) for word in sys.argv[1:] if word.isdigit()] or WIDTHS
    for title, case in cases(wanted_dtypes, wanted_widths):
        check(title, *case, Machine.host())
    for each in (dtype for dtype in wanted_dtypes if dtype in FLOATS):
        small = replace(Machine.host(), level2=SMALL_CACHE)
        check(f"large_trees {each}", *large_trees(each), small)
