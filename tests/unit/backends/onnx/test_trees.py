"""Trees on ONNX Runtime: each decision, leaf number and sum as the forest defines it, natively
and in core operators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from forests import chain_forest, forests, hostile_rows, random_forest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.backends.onnx.trees import MISSING_VISITS, NODE_BYTES, count_tree_work
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram
from hbconv.trees.forest import Forest
from hbconv.trees.splits import with_tables_as_columns
from hbconv.trees.strategy import strategies

BACKEND = find_backend("onnx")
NATIVE, CORE = Target("onnx"), Target("onnx", tree_ops="core")


def program_of(forest: Forest, dtype: str, strategy: str = "tree_traversal") -> TensorProgram:
    b = Builder()
    x = b.input("x", dtype, forest.n_features)
    return b.program(
        {
            name: b.op(f"tree_{name}", x, forest=forest, strategy=strategy)
            for name in ("scores", "leaves")
        }
    )


def require_exact(forest: Forest, x: np.ndarray, target: Target = NATIVE) -> None:
    got = BACKEND.compile(program_of(forest, x.dtype.name), target).run({"x": x})
    np.testing.assert_array_equal(got["leaves"], forest.leaves(x))
    np.testing.assert_array_equal(got["scores"], forest.scores(x))
    assert (got["leaves"].dtype, got["scores"].dtype) == (np.int32, forest.accumulate)


def operators(forest: Forest, target: Target, dtype: str = "float64") -> list[tuple[str, str]]:
    model = onnx.load_from_string(
        BACKEND.compile(program_of(forest, dtype), target).files()["model.onnx"]
    )
    onnx.checker.check_model(model, full_check=True)
    return [(node.domain, node.op_type) for node in model.graph.node]


@settings(max_examples=120, deadline=None)
@given(
    forests(),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from([0, 1, 7, 60]),
    st.integers(0, 999),
)
def test_any_forest_is_exact(forest: Forest, dtype: str, n: int, seed: int) -> None:
    """Values on thresholds and one unit beside, NaN, infinities, denormals; the sums to the
    last bit.
    """
    require_exact(forest, hostile_rows(np.random.default_rng(seed), forest, dtype, n))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize(("n_outputs", "vector"), [(1, False), (3, False), (3, True)])
def test_many_rows_and_trees_keep_the_order(
    dtype: str, accumulate: str, n_outputs: int, vector: bool
) -> None:
    """More rows and trees than ONNX Runtime takes at a time."""
    rng = np.random.default_rng(0)
    forest = random_forest(
        rng, 150, 8, 6, n_outputs, vector=vector, dtype="float64", accumulate=accumulate
    )
    require_exact(forest, hostile_rows(rng, forest, dtype, 3000))


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_core_operators_alone(dtype: str, strict: bool) -> None:
    rng = np.random.default_rng(1)
    forest = random_forest(rng, 6, 4, 4, 2, strict=strict, n_categorical=1)
    require_exact(forest, hostile_rows(rng, forest, dtype, 200), CORE)
    assert {domain for domain, _ in operators(forest, CORE)} == {""}


@pytest.mark.parametrize("strategy", sorted(strategies()))
def test_every_strategy_runs_natively(strategy: str) -> None:
    forest = random_forest(np.random.default_rng(2), 5)
    x = hostile_rows(np.random.default_rng(3), forest, "float64", 50)
    got = BACKEND.compile(program_of(forest, "float64", strategy), NATIVE).run({"x": x})
    np.testing.assert_array_equal(got["scores"], forest.scores(x))


def test_scalar_leaves_are_one_operator() -> None:
    """The scores of scalar leaves need no other operator than TreeEnsemble, start values
    included.
    """
    forest = random_forest(np.random.default_rng(2), 5, n_outputs=2)
    b = Builder()
    program = b.program(
        {"y": b.op("tree_scores", b.input("x", "float64", 4), forest=forest, strategy="select")}
    )
    model = onnx.load_from_string(BACKEND.compile(program, NATIVE).files()["model.onnx"])
    assert [node.op_type for node in model.graph.node] == ["TreeEnsemble", "Identity"]


@pytest.mark.parametrize("n_trees", [0, 1, 3])
def test_forests_without_tests(n_trees: int) -> None:
    """No trees, or single leaves only, over no columns at all."""
    forest = random_forest(np.random.default_rng(4), n_trees, n_features=0, n_outputs=2)
    for dtype in ("float32", "float64"):
        require_exact(forest, np.zeros((5, 0), dtype))
        require_exact(forest, np.zeros((0, 0), dtype))


def test_output_without_trees_and_infinite_start() -> None:
    """An output that no tree adds to is its start value."""
    forest = random_forest(np.random.default_rng(5), 3, n_outputs=1, max_depth=3)
    x = hostile_rows(np.random.default_rng(6), forest, "float64", 40)
    require_exact(Forest(**{**vars_of(forest), "start": Array([0.5, -np.inf, 0.0])}), x)


def test_trees_too_deep_for_the_runtime_are_refused() -> None:
    """ONNX Runtime would end the process."""
    x = hostile_rows(np.random.default_rng(0), chain_forest(1000), "float64", 5)
    require_exact(chain_forest(1000), x)
    backend = find_backend("onnx")
    with pytest.raises(BackendError, match="depth 1,001 exceeds the 1,000 levels"):
        backend.compile(program_of(chain_forest(1001), "float64"), NATIVE)


def vars_of(forest: Forest) -> dict[str, object]:
    return {name: getattr(forest, name) for name in Forest.__dataclass_fields__}


def listed(n_categorical, seed=0, **options):
    rng = np.random.default_rng(seed)
    return random_forest(rng, 6, 5, 4, n_categorical=n_categorical, **options)


def mean_steps(forest, code):
    """Count the splits below a node, where a row turns to either side alike."""
    if code < 0:
        return 0
    sides = forest.left.data[code], forest.right.data[code]
    return 1 + sum(mean_steps(forest, side) for side in sides) / 2


def test_thresholds_are_visits_alone():
    forest = listed(0, missing="right")
    work = count_tree_work(forest, "float64")
    assert forest.tables is None
    assert work.visits == sum(mean_steps(forest, root) for root in forest.roots.data)
    assert 0 < work.visits < 6 * forest.depth
    assert work.tables == NODE_BYTES * forest.n_tests
    assert replace(work, visits=0, tables=0) == replace(type(work)(), operators=1)


def test_each_visit_costs_more_where_a_split_asks_for_nan():
    right, left = (listed(0, missing=side) for side in ("right", "left"))
    asked = count_tree_work(left, "float64").visits
    assert asked == pytest.approx(MISSING_VISITS * count_tree_work(right, "float64").visits)


def test_each_tree_adds_to_one_of_several_outputs():
    assert count_tree_work(listed(0, n_outputs=3), "float64").sums == 6
    assert count_tree_work(listed(0), "float64").sums == 0


@pytest.mark.parametrize(("dtype", "words"), [("float32", 1), ("float64", 2)])
def test_each_table_is_taken_computed_read_and_copied_beside_the_columns(dtype, words):
    forest = listed(3)
    tables = forest.tables.count
    work = count_tree_work(forest, dtype)
    assert tables > 1
    assert work.reads == tables
    assert work.takes == words * tables
    wide = forest.n_features + tables
    assert work.elementwise == words * (tables + wide) + 2 * tables  # cast, concat; minimum, add
    assert work.tables >= len(forest.tables.goes_left)


def test_visits_are_those_of_the_same_trees_without_tables():
    forest = listed(3)
    plain = count_tree_work(with_tables_as_columns(forest), "float64")
    assert count_tree_work(forest, "float64").visits == plain.visits
