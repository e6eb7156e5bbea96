"""Programs are cut at their forests into few stages, which together mean the same."""

from __future__ import annotations

import numpy as np
import pytest
from forests import random_forest

from hbconv.backends.tvm.cuda.stages import FORESTS, cut, lower_unsplit, read_in_place
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.tensor.program import evaluate
from hbconv.trees.forest import Forest

FOREST = random_forest(np.random.default_rng(0), 5, 3, 3, n_outputs=3)
ROWS = np.random.default_rng(1).normal(size=(20, 3))


def trees(b: Builder, x: Value, primitive: str = "tree_scores") -> Value:
    return b.op(primitive, x, forest=FOREST, strategy="select")


def links(b: Builder, x: Value) -> dict[str, Value]:
    return {"y": b.op("exp", trees(b, x + x)), "flags": b.op("isnan", x)}


def stacked(b: Builder, x: Value) -> dict[str, Value]:
    return {"y": trees(b, b.op("neg", trees(b, x))) + x}


def raw(b: Builder, x: Value) -> dict[str, Value]:
    return {"x": x, "sums": trees(b, x), "leaves": trees(b, x, "tree_leaves")}


PROGRAMS = {
    links: ["add", "tree_scores", "exp isnan"],
    stacked: ["tree_scores", "neg", "tree_scores", "add"],
    raw: ["tree_scores", "tree_leaves", "reshape reshape"],
}


def run_stages(program: TensorProgram) -> dict[str, np.ndarray]:
    """Run each stage on the values of those before it."""
    program, stages = cut(program)
    values = {"value0": ROWS}
    for stage in stages:
        given = {name: values[name] for name in stage.program.types.inputs}
        values |= evaluate(stage.program, given)
    return {name: values[f"value{index}"] for name, index in program.outputs.items()}


@pytest.mark.parametrize("write", PROGRAMS)
def test_stages(write):
    b = Builder()
    program = b.program(write(b, b.input("x", "float64", 3)))
    _, stages = cut(program)
    found = [
        " ".join(i.primitive for i in stage.program.instructions if hasattr(i, "primitive"))
        for stage in stages
    ]
    assert found == PROGRAMS[write]
    assert [bool(stage.forest) for stage in stages] == [name in FORESTS for name in found]
    for name, values in evaluate(program, {"x": ROWS}).items():
        assert run_stages(program)[name].tobytes() == values.tobytes()


def test_forests_read_columns_where_they_lie():
    b = Builder()
    x = b.input("x", "float64", 3)
    columns = b.constant(np.array([2, 0, -2], np.int32))
    before = b.program({"y": trees(b, b.op("take", x, columns, axis=0))})
    after = read_in_place(before)
    assert after.primitives == {"tree_scores"}
    got, want = (evaluate(p, {"x": ROWS})["y"] for p in (after, before))
    assert got.tobytes() == want.tobytes()


def without_splits() -> Forest:
    """Trees that are one leaf each."""
    return random_forest(np.random.default_rng(0), 4, 3, 0)


@pytest.mark.parametrize("primitive", FORESTS)
def test_forests_without_splits_are_plain(primitive):
    forest = without_splits()
    assert not forest.n_tests
    b = Builder()
    x = b.input("x", "float64", 3)
    program = b.program({"y": b.op(primitive, x, forest=forest, strategy="select")})
    plain = lower_unsplit(program)
    assert not plain.primitives & set(FORESTS)
    (got,), (want,) = (evaluate(p, {"x": ROWS}).values() for p in (plain, program))
    assert got.tobytes() == want.tobytes()


def test_forests_with_splits_stay():
    b = Builder()
    program = b.program({"y": trees(b, b.input("x", "float64", 3))})
    assert lower_unsplit(program) is program
