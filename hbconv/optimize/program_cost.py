"""Predicted seconds of a program that no backend has seen: the cost that rewrites are chosen by.

``predict_slowdown`` predicts by the same counts how long a program takes relative to its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from hbconv.backends import find_backend
from hbconv.backends.base import Backend
from hbconv.containers import Graph
from hbconv.cost_model import Work, count_work, find_prices
from hbconv.lower import lower
from hbconv.system.processor import find_caches
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram
from hbconv.tensor.decompositions import rewrite_program
from hbconv.tensor.summed_squares import MIN_FEATURES, find_summed_squares
from hbconv.trees.forest import Forest
from hbconv.trees.strategy import Refusal, find_strategy, strategies

__all__ = [
    "SLOWER",
    "graph_seconds",
    "is_added",
    "predict_slowdown",
    "program_seconds",
    "source_seconds",
    "strategy_costs",
    "strategy_refusals",
    "tree_seconds",
    "tree_work",
]

_works: WeakKeyDictionary[Forest, dict[tuple[Any, ...], Work]] = WeakKeyDictionary()
"""Counts of forests in use, by strategy, backend, dtype, number of rows, and what leaves become.

Counting takes longer than pricing.
"""


def program_seconds(program: TensorProgram, target: Target) -> float:
    """Predict the seconds that the operators of a program take for ``target.rows`` rows.

    Trees cost what their cheapest usable strategy does, or the one that the target forces. They
    cost infinity if none is usable. The copies of rows to the program and of results from it are
    left out, so costs of parts of a program add up.

    Examples
    --------
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 10)
    >>> short, long = b.program({"y": x + x}), b.program({"y": (x + x) * x})
    >>> target = Target("torch")
    >>> program_seconds(short, target) < program_seconds(long, target)
    True
    """
    return sum(source_seconds(program, target).values())


def source_seconds(program: TensorProgram, target: Target) -> dict[str, float]:
    """Predict the seconds of the operators of each source, as ``program_seconds`` adds them up."""
    backend = find_backend(target.backend)
    program = _with_tables_written(program, backend)
    by_source: dict[str, float] = {}
    for op in program.instructions:
        if isinstance(op, Op):
            seconds = _operator_seconds(program, op, target, backend)
            by_source[op.source] = by_source.get(op.source, 0.0) + seconds
    return by_source


def _with_tables_written(program: TensorProgram, backend: Backend) -> TensorProgram:
    """Write look-ups of codes as the backend does: it compares or reads, by the size of tables."""
    # Other rewrites keep the work nearly as it is; these two decide between comparing and reading.
    written = {n: f for n, f in backend.rules.items() if n in ("lookup_codes", "one_hot")}
    return rewrite_program(program, written) if program.primitives & written.keys() else program


def _operator_seconds(program: TensorProgram, op: Op, target: Target, backend: Backend) -> float:
    if op.kind is OpKind.VIEW:
        return 0.0
    if op.kind is OpKind.TREES:
        dtype = program.instructions[op.operands[0]].type.dtype
        costs = strategy_costs(op.attributes["forest"], target, backend, dtype, added=is_added(op))
        return costs.get(target.strategy or "", min(costs.values(), default=math.inf))
    work = count_work(program, op)
    return find_prices(target, "", native=False).seconds(work, target)


def is_added(op: Op) -> bool:
    """Whether a tree operator adds the values of leaves; the other one gives their numbers."""
    return op.primitive == "tree_scores"


def strategy_costs(
    forest: Forest,
    target: Target,
    backend: Backend,
    dtype: str = "float64",
    *,
    added: bool = True,
) -> dict[str, float]:
    """Predict the seconds that each usable strategy takes for ``target.rows`` rows of a dtype.

    A backend that runs all strategies by one operator of its own has one, ``tree_traversal``.

    Parameters
    ----------
    added : bool
        Whether the values of the leaves are added; else their numbers are wanted.
    """
    if backend.native_trees(target) >= strategies().keys():
        usable = ["tree_traversal"]
    else:
        refused = strategy_refusals(forest, target, backend)
        usable = [name for name in strategies() if name not in refused]
    return {
        name: tree_seconds(forest, name, target, backend, dtype, added=added) for name in usable
    }


def strategy_refusals(forest: Forest, target: Target, backend: Backend) -> dict[str, str]:
    """Return the reason for each strategy that may not be used."""
    native = backend.native_trees(target)

    def check(name: str) -> Refusal | None:
        if name in native:
            return backend.refuse_trees(name, forest, target)
        return strategies()[name].check(forest, target)

    checks: Mapping[str, Refusal | None] = {name: check(name) for name in strategies()}
    return {name: refusal.reason for name, refusal in checks.items() if refusal}


def tree_seconds(
    forest: Forest,
    strategy: str,
    target: Target,
    backend: Backend,
    dtype: str,
    *,
    added: bool = True,
) -> float:
    """Predict the seconds that a strategy takes for ``target.rows`` rows of a dtype."""
    native = strategy in backend.native_trees(target)
    work = tree_work(forest, strategy, target, backend, dtype, added=added)
    return find_prices(target, strategy, native=native).seconds(work, target)


def tree_work(
    forest: Forest,
    strategy: str,
    target: Target,
    backend: Backend,
    dtype: str,
    *,
    added: bool = True,
) -> Work:
    """Count what a strategy does on a backend, the sums of the leaf values included if added."""
    native = strategy in backend.native_trees(target)
    works = _works.setdefault(forest, {})
    key = (strategy, backend.name if native else "", dtype, target.rows, added)
    if key not in works:
        works[key] = (
            backend.tree_work(strategy, forest, dtype, target, added=added)
            if native
            else _lowered_work(strategy, forest, added=added)
        )
    return works[key]


def _lowered_work(strategy: str, forest: Forest, *, added: bool) -> Work:
    work = find_strategy(strategy).work(forest)
    return _with_sums(work, forest) if added else work


def _with_sums(work: Work, forest: Forest) -> Work:
    """Add what ``sum_leaves`` writes: a look-up, the start next to it, and the sum."""
    return replace(
        work,
        operators=work.operators + 4,
        sums=forest.n_trees * forest.values.shape[1],
    )


def graph_seconds(graph: Graph, target: Target) -> float:
    """Predict the seconds of all outputs, computed together, for ``target.rows`` rows.

    Parameters
    ----------
    graph : Graph
        Its forests need no strategy yet: each costs what its cheapest strategy does.
    target : Target
    """
    return program_seconds(lower(graph, target.precision).program, target)


# benchmarks/estimators.py times every estimator beside its source, so it checks these.
VISIT = 5e-9
VISITS: Mapping[str, float] = {"catboost": 3e-10, "lightgbm": 2.4e-9, "xgboost": 2.5e-9}
"""Seconds in which a source visits a split, by library; scikit-learn's trees take longest."""
ENTERING: Mapping[str, float] = {"catboost": 4.5e-8}
"""Seconds that a source takes for a row before its trees: CatBoost cuts columns into bins.

10,000 rows of 4 columns took 500 us with 3 trees and 557 with 10 (Zen 4).
"""
SHARE = 1.6e-9
"""Seconds in which scikit-learn adds one of the many values of a leaf.

50 trees of 30 classes and depth 8 take 4.4 us, 20 of 1,000 classes 33 to 47 (Zen 4).
"""

NEAREST, PAIRWISE, SHARED, DONORS = 2e-10, 1e-9, 2.9e-10, 2.5e-9
"""Seconds that scikit-learn takes for a coordinate of a point: to find the nearest, for a kernel,
for distances over what two rows share, which are products of matrices, and to find the donors of
what rows miss."""
OWN: Mapping[str, tuple[float, float, float]] = {
    "tvm": (4e-11, 3.2e-10, 2e-10),
    "torch": (2e-10, 2.6e-9, 4.3e-9),
    "torchscript": (2e-10, 2.6e-9, 4.3e-9),
    "onnx": (1e-10, 3.3e-9, 5e-9),
}
"""Seconds that backends take for these, to find the nearest, for all others, and to find donors.

Measured for 1,000 to 5,000 rows on a virtual EPYC with AVX-512, whose other core was busy. Donors
of torch and ONNX were measured without AVX-512, and are scaled by the source's time there: they
take 1.5 to 2 and 1.5 to 2.8 times as long, with 10 to 60 columns of 300 to 2,000 fitted rows.
"""

KERNEL = (1e-8, 3.3e-10)
"""Seconds that scikit-learn takes for a distance that a kernel adds up, and for each coordinate."""
DENSITY = 6e-8
"""Seconds that it takes for a distance of a kernel density, whose tree it walks."""
OWN_KERNEL: Mapping[str, tuple[float, float, float]] = {
    "tvm": (0.0, 8e-10, 1e-10),
    "torch": (7e-7, 9e-9, 3e-10),
    "torchscript": (7e-7, 9e-9, 3e-10),
    "onnx": (0.0, 1.1e-8, 3.5e-10),
}
"""Seconds that backends take for a row, and for these.

Measured for 10,000 rows of Gaussian processes, on a virtual EPYC with AVX2 under a load of 8 on 2
cores, 2026-11-29. In ns a distance of 100 points, with 4, 8 and 30 coordinates: scikit-learn 11,
13 and 20, ONNX 13, 17 and 21. Of 1,000 points with 8, ONNX took 15 and scikit-learn 21. Densities
of 100 points with 4 and 8 took scikit-learn 70 and 60, ONNX 26 and 33. Another run under a load of
11, torch and scikit-learn: 100 points with 8 and 30 took 8.6 and 5.4, 15 and 12, 300 with 6 took
6.2 and 7.9, 1,000 with 6 and 30 took 7.0 and 8.1, 11 and 15. Kernels by products (SVR,
KernelRidge) are not predicted: ONNX took 0.26 to 0.83 of their time, torch 0.28 to 1.2.
"""
SUM_OF_SQUARES = (1e-8, 1.6e-9)
"""What torch takes for a distance that it adds up feature by feature, and for each coordinate.

In the run of torch above, 100 points with 2 and 4 took it 6.0 and 7.0, and scikit-learn 3.8 and
4.7.
"""

MAX_TREE_FEATURES = 6
"""Features up to which the search trees of scikit-learn leave out most points."""
TREE_ROW, TREE_LEAVES = 8e-7, 1.5e-6
"""Seconds that it takes for a row there, and for the leaves among 10,000 points of two features."""
OWN_FEW_FEATURES: Mapping[str, tuple[float, float]] = {
    "torch": (5e-6, 1.3e-9),
    "torchscript": (5e-6, 1.3e-9),
    "onnx": (3e-6, 8.5e-10),
}
"""Seconds that backends take for a row, and for each point, to find the nearest of few features.

Measured as in the run of torch above, for five neighbours of 2,000 rows, us a row. Scikit-learn,
torch and ONNX: 300 points with 2 and 6 features 1.2, 4.8 and 3.0, 2.8, 4.9 and 3.1; 1,000 with 4
took 3.1, 7.8 and 5.1; 10,000 with 2, 4 and 6 took 1.8, 15 and 11, 5.2, 26 and 12, 15, 24 and 13;
50,000 with 2, 4 and 6 took 2.6, 29 and 38, 8.4, 48 and 42, 37, 99 and 46.
"""

TERM = 6e-11
"""Seconds that anyone takes for a term of a product between layers."""
UNIT = 5e-9
"""Seconds that scikit-learn takes for a unit of a layer, where it adds and activates in place."""
OWN_UNIT: Mapping[str, float] = {"tvm": 1e-9, "torch": 8e-9, "torchscript": 8e-9, "onnx": 3e-9}
"""Seconds that backends take for a unit, with ReLU.

Measured as above for MLPRegressor, ns a row of 28 columns, scikit-learn, ONNX and torch: 100 units
892, 646 and 1,310, 100 and 100 units 1,790, 1,080 and 2,760, 300 and 300 units 8,160, 7,030 and
9,380.
"""
LINEAR = ("sklearn.linear_model.", "sklearn.svm.LinearSV")
"""Models that are one product, which is predicted on ONNX."""
LINEAR_CALL, OWN_LINEAR_CALL = 1e-4, 7e-5
"""Seconds that a call of one takes, whatever its rows, of scikit-learn and of ONNX."""
COLUMN, SUM, SUM_TERM, BEST, PROBABILITY = 3.5e-10, 1.5e-9, 1.5e-10, 2e-9, 1.6e-8
"""Seconds that scikit-learn takes for a row of one: for each column, for each sum and its terms,
and for each sum where the largest is found, or a function of it.

Measured on one core of a Zen 4 with AVX-512 whose other core was busy, 2026-11-29, us for 10,000
rows of 6, 28 and 100 columns, scikit-learn and ONNX. LinearRegression: 143 and 213, 222 and 360,
699 and 1,057. Labels of LogisticRegression: 207 and 322, 371 and 555, 1,030 and 1,330. Its
probabilities, 6 and 28 columns: 343 and 790, 396 and 877; of five classes 1,197 and 1,109, 1,620
and 1,535. For 100 rows ONNX took 0.57 to 0.88 of the time. The prices of operators hold for ONNX.
"""
CALL, OWN_CALL = 1.5e-4, 5e-5
"""Seconds that a call of a network takes, whatever its rows, of scikit-learn and of backends."""


ROW_WORD_BYTES = 8
"""Bytes of a number of a row, as most users hold them."""
SLOWER = 1.25
"""A predicted slowdown from which users are told: predictions are off by as much."""


def predict_slowdown(program: TensorProgram, source: str, target: Target) -> float:
    """Return the predicted seconds of trees, distances and layers over those of the source model.

    On ONNX linear models are predicted too. It is 1 where there are none, and where nobody expects
    speed of the backend, which is ``reference``, or knows that of the source, which is on devices.

    Parameters
    ----------
    program : TensorProgram
        As it is lowered for the target.
    source : str
        Dotted name of the source model's class, for example ``"catboost.CatBoostRegressor"``.
    target : Target

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 4)
    >>> found = b.op("nearest", x, b.constant(np.zeros((1000, 4))), k=5)
    >>> program = b.program({"y": found})
    >>> [round(predict_slowdown(program, "sklearn", Target(name)), 1) for name in ("torch", "tvm")]
    [2.6, 0.2]
    """
    if target.device != "cpu" or target.backend not in OWN:
        return 1.0
    seconds = list(_seconds(program, source.partition(".")[0], target))
    if not seconds and target.backend == "onnx" and source.startswith(LINEAR):
        seconds = list(_of_linear(program, target))
    predicted, own = (sum(each[i] for each in seconds) for i in (0, 1))
    # No strategy may be usable: the plan then says so, not a ratio of infinity.
    return predicted / own if own and math.isfinite(predicted) else 1.0


def _seconds(program: TensorProgram, library: str, target: Target) -> Iterator[tuple[float, float]]:
    """Yield the seconds of each operator that decides, and those of the source."""
    kernels = find_summed_squares(program)
    yield from _of_layers(program, target)
    for position, op in enumerate(program.instructions):
        if not isinstance(op, Op):
            continue
        if op.kind is OpKind.TREES:
            yield _of_trees(program, op, library, target)
        elif position in kernels:
            yield _of_kernel(program, op, target)
        elif (seconds := _of_few_features(program, op, target)) is not None:
            yield seconds
        elif op.primitive in ("nearest", "pairwise", "nearest_donors"):
            nearest, others, donors = OWN[target.backend]
            count = target.rows * math.prod(program.instructions[op.operands[1]].type.shape)
            prices = {"nearest": nearest, "nearest_donors": donors}
            yield count * prices.get(op.primitive, others), count * _of_points(op)


def _of_linear(program: TensorProgram, target: Target) -> Iterator[tuple[float, float]]:
    """Yield the seconds of a linear model that is no part of another one."""
    operators = [i for i in program.instructions if isinstance(i, Op)]
    products = [op for op in operators if op.primitive == "matmul"]
    # What a pipeline does before it is in the product, and in nothing that a program tells.
    if len(products) != 1 or any("/" in op.source for op in operators):
        return
    columns, sums = program.instructions[products[0].operands[1]].type.shape
    # Rows that come from memory take as long on either side: 13.6 and 12.5 ms for 500 columns.
    if target.rows * columns * ROW_WORD_BYTES > find_caches().level3 // 2:
        return
    a_row = columns * COLUMN + sums * (SUM + columns * SUM_TERM)
    for op in operators:
        price = {"argmax": BEST, "sigmoid": PROBABILITY, "exp": PROBABILITY}.get(op.primitive, 0.0)
        a_row += price * math.prod(program.instructions[op.operands[0]].type.shape)
    own = OWN_LINEAR_CALL + program_seconds(program, target)
    yield own, LINEAR_CALL + target.rows * a_row


def _of_few_features(program: TensorProgram, op: Op, target: Target) -> tuple[float, float] | None:
    """Return the seconds for the nearest points of few features, which the source has in a tree."""
    if op.primitive != "nearest" or target.backend not in OWN_FEW_FEATURES:
        return None
    points, width = program.instructions[op.operands[1]].type.shape
    if width > MAX_TREE_FEATURES:
        return None
    row, point = OWN_FEW_FEATURES[target.backend]
    leaves = TREE_LEAVES * 1.65 ** (width - 2) * (points / 10_000) ** 0.4
    return target.rows * (row + points * point), target.rows * (TREE_ROW + leaves)


def _of_kernel(program: TensorProgram, op: Op, target: Target) -> tuple[float, float]:
    points, width = program.instructions[op.operands[1]].type.shape
    row, distance, coordinate = OWN_KERNEL[target.backend]
    if target.backend.startswith("torch") and width < MIN_FEATURES[target.backend]:
        distance, coordinate = SUM_OF_SQUARES
    own = row + points * (distance + width * coordinate)
    is_density = not program.primitives.isdisjoint(("logsumexp", "ordered_logsumexp"))
    source = DENSITY if is_density else KERNEL[0] + width * KERNEL[1]
    return target.rows * own, target.rows * points * source


def _of_layers(program: TensorProgram, target: Target) -> Iterator[tuple[float, float]]:
    """Yield the seconds of a network: of all its products, and of the units that they read."""
    read = _units_read(program)
    if not read:
        return
    products = [
        op for op in program.instructions if isinstance(op, Op) and op.primitive == "matmul"
    ]
    terms = sum(math.prod(program.instructions[op.operands[1]].type.shape) for op in products)
    units = sum(math.prod(program.instructions[position].type.shape) for position in read)
    own, source = (terms * TERM + units * unit for unit in (OWN_UNIT[target.backend], UNIT))
    yield OWN_CALL + target.rows * own, CALL + target.rows * source


def _units_read(program: TensorProgram) -> set[int]:
    """Return the positions of units that products read: what ReLU makes of products.

    Other activations take as long as all else, on either side.
    """
    sums: set[int] = set()
    units: set[int] = set()
    read: set[int] = set()
    for position, op in enumerate(program.instructions):
        if not isinstance(op, Op):
            continue
        if op.primitive == "matmul":
            sums.add(position)
            read.update(units.intersection(op.operands))
        elif op.primitive == "add" and sums.intersection(op.operands):
            sums.add(position)
        elif op.primitive == "relu" and sums.intersection(op.operands):
            units.add(position)
    return read


def _of_trees(program: TensorProgram, op: Op, library: str, target: Target) -> tuple[float, float]:
    forest, backend = op.attributes["forest"], find_backend(target.backend)
    dtype = program.instructions[op.operands[0]].type.dtype
    costs = strategy_costs(forest, target, backend, dtype, added=is_added(op))
    seconds = costs.get(op.attributes["strategy"], min(costs.values(), default=math.inf))
    reference = Target("reference", rows=target.rows)
    # Sources walk from the root to a leaf, as the reference's traversal counts it.
    visits = tree_work(forest, "tree_traversal", reference, find_backend("reference"), dtype).visits
    a_row = ENTERING.get(library, 0.0) + visits * VISITS.get(library, VISIT)
    if (width := forest.values.shape[1]) > 1:
        a_row += forest.n_trees * width * SHARE
    return seconds, target.rows * a_row


def _of_points(op: Op) -> float:
    if op.primitive == "nearest":
        return NEAREST
    if op.primitive == "nearest_donors":
        return DONORS
    return SHARED if op.attributes["kind"] == "present" else PAIRWISE
