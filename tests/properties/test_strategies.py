"""Every strategy finds exactly the leaves that Forest.leaves defines, and costs what it says."""

from dataclasses import replace

import numpy as np
import pytest
from forests import forests, hostile_rows, random_forest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.containers import Columns, Graph, Output, Schema, TreeEnsemble
from hbconv.cost_model import Work
from hbconv.lower import lower
from hbconv.target import Target
from hbconv.tensor import Builder, Op, TensorProgram, verify_program
from hbconv.trees.strategy import find_strategy, lower_trees, strategies

NAMES = sorted(strategies())
AMPLE = Target(memory=8 << 30)
DTYPES = st.sampled_from(["float32", "float64"])
UNITS = {
    "take": "takes",
    "lookup": "reads",
    "gather": "reads",
    "matmul": "multiplications",
    "reshape": "free",
}


def tree_program(forest, dtype, strategy):
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    leaves = b.op("tree_leaves", x, forest=forest, strategy=strategy)
    return b.program(
        {"leaves": leaves, "scores": b.op("tree_scores", x, forest=forest, strategy=strategy)}
    )


def expanded(forest, dtype, strategy):
    return verify_program(lower_trees(tree_program(forest, dtype, strategy), frozenset()))


def check_forest(forest, x, strategy):
    answer = evaluate(expanded(forest, x.dtype.name, strategy), {"x": x})
    np.testing.assert_array_equal(answer["leaves"], forest.leaves(x), strict=True)
    np.testing.assert_array_equal(answer["scores"], forest.scores(x), strict=True)


@pytest.mark.parametrize("strategy", NAMES)
@given(forest=forests(), dtype=DTYPES, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=80)
def test_any_forest(strategy, forest, dtype, seed):
    check_forest(forest, hostile_rows(np.random.default_rng(seed), forest, dtype, 40), strategy)


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_row_counts(strategy, rows):
    rng = np.random.default_rng(rows)
    forest = random_forest(rng, n_trees=9, n_outputs=3)
    check_forest(forest, hostile_rows(rng, forest, n=rows), strategy)


@pytest.mark.parametrize("strategy", sorted(set(NAMES) - {"perfect_tree_traversal"}))
@pytest.mark.parametrize("depth", [30, 45])
def test_deep_and_skinny_trees(strategy, depth):
    rng = np.random.default_rng(depth)
    forest = random_forest(rng, n_trees=12, max_depth=depth, awkward=0.1)
    assert forest.depth == depth
    check_forest(forest, hostile_rows(rng, forest, n=200), strategy)


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("strict", [False, True])
def test_many_trees_of_mixed_sizes(strategy, strict):
    rng = np.random.default_rng(1)
    forest = random_forest(
        rng,
        n_trees=60,
        n_features=20,
        max_depth=7,
        n_outputs=3,
        strict=strict,
        dtype="float32",
        accumulate="float32",
    )
    check_forest(forest, hostile_rows(rng, forest, "float32", n=300), strategy)


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_left_only_if_missing(strategy, dtype):
    """``x < -inf`` holds for no number, but its NaN goes left: XGBoost may split so."""
    forest = random_forest(
        np.random.default_rng(3), n_trees=8, strict=True, missing="left", awkward=0.0
    )
    forest = replace(forest, threshold=Array(np.full(forest.n_tests, -np.inf)))
    x = np.array([[np.nan, -np.inf, np.inf, 0.0], [1.0, np.nan, np.nan, -np.inf]], dtype)
    check_forest(forest, x, strategy)


@pytest.mark.parametrize("strategy", NAMES)
def test_float32_thresholds_beside_float64_rows(strategy):
    """A float32 threshold is exact in float64: rows a hair above it go right."""
    rng = np.random.default_rng(5)
    forest = random_forest(rng, n_trees=10, dtype="float32", awkward=0.0)
    x = rng.choice(forest.threshold.data, (50, 4)).astype(np.float64)
    for rows in (x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)):
        check_forest(forest, rows, strategy)


@pytest.mark.parametrize(
    "target", [[0, 1, 2, 0, 1, 2], [2, 2, 1, 1, 0, 0], [0, 0, 0, 2, 2, 0], [1, 1, 1, 1, 1, 1]]
)
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
def test_sums_keep_the_order_of_the_trees(target, accumulate):
    """Outputs in turn, in blocks, of unequal size and without trees: each output's trees are
    added in their order.
    """
    rng = np.random.default_rng(7)
    forest = random_forest(rng, n_trees=6, n_outputs=3, accumulate=accumulate)
    forest = replace(
        forest,
        target=Array.of(target, "int32"),
        values=Array.of(10.0 ** rng.uniform(-9, 9, forest.values.shape), accumulate),
    )
    check_forest(forest, hostile_rows(rng, forest, n=200), "tree_traversal")


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("missing", ["left", "right", "mixed"])
@pytest.mark.parametrize(("n_trees", "max_depth"), [(3, 0), (7, 2), (20, 4), (30, 8)])
def test_work_is_what_the_program_does(strategy, missing, n_trees, max_depth):
    """The count is the program's own (many features, so that no two tests are one and no read
    is of all columns in order).
    """
    forest = random_forest(
        np.random.default_rng(n_trees),
        n_trees,
        n_features=50,
        max_depth=max_depth,
        missing=missing,
        awkward=0.0,
    )
    b = Builder()
    program = b.program(
        {
            "leaves": find_strategy(strategy).lower(
                forest, b.input("x", "float64", forest.n_features), b
            )
        }
    )
    counted, measured = find_strategy(strategy).work(forest), measured_work(program)
    for unit in ("operators", "elementwise", "takes", "reads", "multiplications"):
        assert getattr(counted, unit) == getattr(measured, unit), unit
    assert measured.tables <= 1.1 * counted.tables + 200
    assert measured.temporaries <= counted.temporaries <= 4 * measured.temporaries


@pytest.mark.parametrize("strategy", NAMES)
@given(forest=forests().filter(lambda f: f.n_features), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_fast_precision_decides_float32_rows_exactly(strategy, forest, seed):
    schema = Schema.matrix(forest.n_features, "float32")
    node = TreeEnsemble(Columns.of(schema), forest, strategy)
    lowered = lower(Graph(schema, {"predict": Output(node)}), "fast")
    x = hostile_rows(np.random.default_rng(seed), forest, "float32", 30)
    answer = evaluate(
        lower_trees(lowered.program, frozenset()), {feed.name: x for feed in lowered.feeds}
    )
    np.testing.assert_array_equal(
        answer["predict"], forest.with_accumulation("float32").scores(x), strict=True
    )


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vector", [False, True])
def test_torch(strategy, dtype, vector):
    """Leaves are equal, and so are the sums: torch adds in the order it is told."""
    rng = np.random.default_rng(11)
    target = Target(backend="torch", strategy=strategy)
    for trees, depth in ((0, 3), (1, 4), (25, 6)):
        forest = random_forest(
            rng, n_trees=trees, max_depth=depth, n_outputs=2, vector=vector, strict=trees % 2 == 0
        )
        artifact = find_backend("torch").compile(tree_program(forest, dtype, strategy), target)
        for rows in (0, 1, 100):
            x = hostile_rows(rng, forest, dtype, rows)
            answer = artifact.run({"x": x})
            np.testing.assert_array_equal(answer["leaves"], forest.leaves(x), strict=True)
            np.testing.assert_array_equal(answer["scores"], forest.scores(x), strict=True)


def measured_work(program: TensorProgram) -> Work:
    """Count a program as Work counts: reductions by what they read, everything else by what it
    makes.
    """
    counts = dict.fromkeys(("takes", "reads", "multiplications", "elementwise", "free"), 0)
    types = [i.type for i in program.instructions]
    size = [int(np.prod(t.shape)) for t in types]
    ops = [(i, op) for i, op in enumerate(program.instructions) if isinstance(op, Op)]
    for i, op in ops:
        unit = UNITS.get(op.primitive, "elementwise")
        entries = (
            size[i] * types[op.operands[0]].shape[-1]
            if unit == "multiplications"
            else size[op.operands[0]]
            if op.primitive == "argmax"
            else size[i]
        )
        counts[unit] += entries
    constants = sum(size[i] * np.dtype(t.dtype).itemsize for i, t in enumerate(types) if not t.rows)
    operators = sum(op.primitive != "reshape" for _, op in ops)
    del counts["free"]
    return Work(operators=operators, tables=constants, temporaries=peak_bytes(program), **counts)


def peak_bytes(program: TensorProgram) -> int:
    """Bytes a row holds at once when every value is freed after its last use; the input is the
    caller's.
    """
    last = {}
    for position, op in enumerate(program.instructions):
        for operand in op.operands if isinstance(op, Op) else ():
            last[operand] = position
    last |= dict.fromkeys(program.outputs.values(), len(program.instructions))
    alive, peak = {}, 0
    for position, op in enumerate(program.instructions):
        if isinstance(op, Op):
            alive[position] = int(np.prod(op.type.shape)) * np.dtype(op.type.dtype).itemsize
        peak = max(peak, sum(alive.values()))
        alive = {value: size for value, size in alive.items() if last.get(value, -1) > position}
    return peak
